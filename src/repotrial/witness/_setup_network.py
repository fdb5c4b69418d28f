"""What Setup reached over the network, as the trace keeps it (C12, P9)."""

from __future__ import annotations

from typing import Final

from repotrial._core.words import AlertSeverity
from repotrial.trace import MonitorAlert, Signal, TraceWriter
from repotrial.workspace import SetupNetworkRecord

_MONITOR: Final = "setup-network"
_ALERTS: Final = 500
"""The record itself stays with the product; a trace repeats so much of it."""


def tell_setup_network(writer: TraceWriter, record: SetupNetworkRecord) -> None:
    """Say in a run's trace what its tree was made from, whenever that was."""
    for attempt in record.attempts[:_ALERTS]:
        answer = attempt.reason if attempt.status is None else f"{attempt.status} {attempt.reason}"
        target = f"{attempt.host}:{attempt.port}{attempt.path}"
        _append(
            writer,
            f"setup-network-{attempt.verdict}",
            f"{attempt.step}: {attempt.method} {attempt.way} {target} {answer}",
            (
                Signal(name="sent_bytes", value=attempt.sent_bytes),
                Signal(name="received_bytes", value=attempt.received_bytes),
            ),
        )
    left_out = max(0, len(record.attempts) - _ALERTS) + record.left_out
    signals = (Signal(name="attempts", value=len(record.attempts)), Signal(name="left_out", value=left_out))
    _append(writer, "setup-product", f"set up with network: product {record.product_digest}", signals)
    if record.previous_digest is not None:
        text = f"the same Setup made {record.previous_digest} before, and now {record.product_digest}"
        _append(writer, "setup-product-changed", text, (), severity="warning")


def _append(
    writer: TraceWriter,
    rule: str,
    text: str,
    signals: tuple[Signal, ...],
    *,
    severity: AlertSeverity = "info",
) -> None:
    # What a contract's own steps tried is no evidence against an agent.
    alert = MonitorAlert(monitor=_MONITOR, rule=rule, severity=severity, phase="set-up", signals=signals)
    writer.alert(alert, text.strip())
