"""What programs in the sandbox have to be told, so that they use the proxy and trust the run's authority."""

from __future__ import annotations

from typing import Final

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_NO_PROXIES: Final = ("NO_PROXY", "no_proxy")
_CERTIFICATES: Final = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "npm_config_cafile",
)


def build_proxy_variables(port: int, *, certificate: str | None = None) -> dict[str, str]:
    """Environment for every program.

    Args:
        port: Where the proxy listens inside.
        certificate: The path inside of the authority's certificate, where there is one.
    """
    url = f"http://127.0.0.1:{port}"
    variables = dict.fromkeys(_PROXIES, url) | dict.fromkeys(_NO_PROXIES, "localhost,127.0.0.1,::1")
    if certificate is not None:
        variables |= dict.fromkeys(_CERTIFICATES, certificate)
    return variables
