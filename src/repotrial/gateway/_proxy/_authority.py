"""A certificate authority of one run, so that what is said over TLS can be recorded and replayed."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_LIFETIME: Final = dt.timedelta(days=7)
_SKEW: Final = dt.timedelta(days=1)
_NAME: Final = "RepoTrial run authority"
_MAX_HOSTS: Final = 1000
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


class RunAuthority:
    """Vouches for hosts towards one sandbox; its key is never written down and ends with the process."""

    def __init__(self, *, now: dt.datetime | None = None) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self._now = now or dt.datetime.now(dt.UTC)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._contexts: dict[str, ssl.SSLContext] = {}

    @cached_property
    def certificate_pem(self) -> bytes:
        """What the sandbox has to trust."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self._certificate.public_bytes(Encoding.PEM)

    def build_variables(self, port: int, *, certificate: str) -> dict[str, str]:
        """Environment for every program: it uses the proxy and trusts this authority.

        Args:
            port: Where the proxy listens inside.
            certificate: The path inside of this authority's certificate.
        """
        proxied = dict.fromkeys(_PROXIES, f"http://127.0.0.1:{port}")
        direct = dict.fromkeys(_NO_PROXIES, "localhost,127.0.0.1,::1")
        return proxied | direct | dict.fromkeys(_CERTIFICATES, certificate)

    def find_context(self, host: str) -> ssl.SSLContext | None:
        """Server settings with a certificate for a host; None if too many were asked for."""
        if host not in self._contexts:
            if len(self._contexts) >= _MAX_HOSTS:
                return None
            self._contexts[host] = self._build_context(host)
        return self._contexts[host]

    @cached_property
    def _certificate(self) -> x509.Certificate:
        from cryptography import x509

        builder = self._start_certificate(_NAME, self._key.public_key())
        return self._sign(
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True).add_extension(
                _build_usage(is_authority=True), critical=True
            )
        )

    def _build_context(self, host: str) -> ssl.SSLContext:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(
            self._start_certificate(host, key.public_key())
            .add_extension(x509.SubjectAlternativeName([_build_name(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_build_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        # The library reads files only; these live for as long as it takes to read them.
        with tempfile.NamedTemporaryFile() as file:
            file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            file.write(certificate.public_bytes(Encoding.PEM))
            file.flush()
            context.load_cert_chain(Path(file.name))
        return context

    def _start_certificate(self, name: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        def build_name(text: str) -> x509.Name:
            # A common name holds 64 characters; clients read the alternative names.
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])

        return (
            x509.CertificateBuilder()
            .subject_name(build_name(name))
            .issuer_name(build_name(_NAME))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _SKEW)
            .not_valid_after(self._now + _LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )

    def _sign(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        from cryptography.hazmat.primitives import hashes

        return builder.sign(self._key, hashes.SHA256())


def _build_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _build_usage(*, is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
