"""When two requests are the same one, apart from what differs from run to run."""

from __future__ import annotations

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import AgentError
from repotrial.redaction import Redactor
from repotrial.wire import Dialect, WireRequest, normalize_request


def build_lane(request: WireRequest) -> str:
    """What tells side conversations (titles, summaries) from the main one, whatever is said in them."""
    return f"{request.dialect} {request.model} {'with' if request.tools else 'without'} tools"


def build_identity(dialect: Dialect, method: str, target: str, body: bytes) -> Digest:
    """Digest over what of a request is the same in every run of one agent."""
    return digest_bytes(b"\0".join((method.encode(), target.encode(), build_compared(dialect, body))))


def build_compared(dialect: Dialect, body: bytes) -> bytes:
    """The body as it is compared: normalized; as it is if it is malformed."""
    try:
        return normalize_request(dialect, body)
    except AgentError:  # `malformed-model-request`
        return body


def redact_body(body: bytes, redactor: Redactor) -> bytes:
    """Bytes without secrets; the same placeholders in every run."""
    redacted = redactor.redact(body.decode("utf-8", "surrogateescape"))
    return redacted.text.encode("utf-8", "surrogateescape") if redacted.spans else body
