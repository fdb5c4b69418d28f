"""Ways in which a secret slips past a scanner, and ways to make a scanner destroy what it scans."""

from __future__ import annotations

import base64
import html
import json
import shlex
from pathlib import Path
from typing import Any
from xml.sax import saxutils

import msgspec
import pytest

from repotrial._core.digest import digest_bytes
from repotrial.redaction import SecretRedactor
from repotrial.redaction._secrets import Rule
from repotrial.trace import (
    BlobStore,
    Exited,
    RunOpened,
    RunPaths,
    Termination,
    TextBody,
    ToolInvocation,
    TraceWriter,
)
from repotrial.trace._body import BlobBody
from repotrial.trace._payloads import PAYLOAD_TYPES
from repotrial.trace._verify_chain import check_chain
from support.errors import raises_code
from support.traces import build_invocation, open_writer, ref_of

AWKWARD = [
    pytest.param('pa"ss\\wo/rd\n1', id="quote, backslash, slash, line break"),
    pytest.param("(a+)+$[^x]*{2,}|", id="regular expression"),
    pytest.param("пароль-密码-🔑🔑", id="unicode"),
    pytest.param("a&b<c>d&e<f>", id="html"),
    pytest.param("tab\there\x01control", id="control characters"),
    pytest.param("nightfall", id="begins like the rest of a JSON escape"),
    pytest.param("00e9beef", id="begins like the rest of a JSON code point"),
    pytest.param("....----", id="punctuation"),
]


@pytest.mark.parametrize("secret", AWKWARD)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_secret_split_by_json_escapes_is_found(secret: str, ascii_only: bool) -> None:  # noqa: FBT001 -- a parameter
    text = json.dumps({secret: [f"x{secret}y"]}, ensure_ascii=ascii_only)
    result = json.loads(SecretRedactor({"S": secret}).redact(text).text)
    assert result == {"⟦REDACTED-S⟧": ["x⟦REDACTED-S⟧y"]}


@pytest.mark.parametrize("secret", AWKWARD)
def test_secret_in_json_inside_json_is_found(secret: str) -> None:
    text = json.dumps({"arguments": json.dumps({"command": f"curl -u {secret}"})})
    outer = json.loads(SecretRedactor({"S": secret}).redact(text).text)
    assert json.loads(outer["arguments"]) == {"command": "curl -u ⟦REDACTED-S⟧"}


@pytest.mark.parametrize("secret", AWKWARD)
def test_secret_in_a_basic_authorization_header_is_found(secret: str) -> None:
    for user in ("a", "ab", "abc"):
        header = base64.b64encode(f"{user}:{secret}".encode()).decode()
        redacted = SecretRedactor({"S": secret}).redact(f"Authorization: Basic {header}").text
        rest = redacted.removeprefix("Authorization: Basic ").replace("⟦REDACTED-S⟧", "")
        assert len(rest) <= 4 + len(user)


@pytest.mark.parametrize("prefix", ["\\n", "\\\\\\n", "\\u00e9", "\\t"])
def test_escape_before_a_secret_does_not_break_the_document(prefix: str) -> None:
    secret = "n9tuabcdefgh"
    for start in range(4):
        text = f'{{"k": "{prefix}{secret[start:]}"}}'
        json.loads(text)
        redacted = SecretRedactor({"S": secret[start:]}).redact(text).text
        assert "⟦REDACTED-S⟧" in json.loads(redacted)["k"]


def test_false_match_that_begins_inside_an_escape_keeps_the_json_valid() -> None:
    for secret, text in [
        ("nightfall", '{"k": "\\nightfall"}'),
        ("e9abcdef", '{"k": "\\u00e9abcdef"}'),
        ("u00e9abc", '{"k": "\\u00e9abc"}'),
        ("9abcdefg", '{"k": "\\\\\\u00e9abcdefg"}'),
    ]:
        json.loads(text)
        assert "⟦REDACTED-S⟧" in json.loads(SecretRedactor({"S": secret}).redact(text).text)["k"]


@pytest.mark.parametrize(
    "value", ["REDACTED", "REDACTED-", "-API_KEY_OF_MINE", "github-token", "abc⟦defgh", "⟧⟧⟧⟧⟧⟧⟧⟧"]
)
def test_secret_that_is_part_of_a_placeholder_is_refused(value: str) -> None:
    with raises_code("unusable-secret") as caught:
        SecretRedactor({"API_KEY_OF_MINE": value})
    assert "no placeholder shows" in caught.value.message


def test_forged_placeholder_does_not_shield_a_secret() -> None:
    scanner = SecretRedactor({"S": "abcdefgh"})
    assert scanner.redact("⟦REDACTED-abcdefgh⟧").text == "⟦REDACTED-⟦REDACTED-S⟧⟧"
    assert "abcdefgh" not in scanner.redact("⟦REDACTED-S⟧abcdefgh⟦REDACTED-S⟧").text


def test_adjacent_and_interleaved_secrets_leave_nothing() -> None:
    scanner = SecretRedactor({"A": "abababab", "B": "babababa"})
    assert scanner.redact("ab" * 50).text == "⟦REDACTED-A⟧"
    assert scanner.redact("abababab" + "\n" + "babababa").text == "⟦REDACTED-A⟧\n⟦REDACTED-B⟧"


def test_private_key_in_json_does_not_swallow_the_next_field() -> None:
    begin, end = "-----BEGIN EC " + "PRIVATE KEY-----", "-----END EC " + "PRIVATE KEY-----"
    body = "MHcCAQEEIBLPo9SCGcQw1Wz3\nabcd=="
    text = json.dumps({"key": f"{begin}\n{body}\n{end}\n", "cut": f"{begin}\n{body}", "next": "kept"})
    result = json.loads(SecretRedactor({}).redact(text).text)
    assert result["key"] == "⟦REDACTED-private-key⟧\n"
    assert "MHcC" not in result["cut"]
    assert result["next"] == "kept"


def test_shell_words_and_lines_stay_what_they_were() -> None:
    scanner = SecretRedactor({"S": "p4ss word;rm"})
    text = "curl -H 'X: p4ss word;rm' && echo done\nnext\n"
    assert scanner.redact(text).text == "curl -H 'X: ⟦REDACTED-S⟧' && echo done\nnext\n"


def test_text_made_to_slow_the_scanner_is_scanned_whole() -> None:
    scanner = SecretRedactor({"S": "aaaaaaaab"})
    begin = "-----BEGIN " + "PRIVATE KEY-----"
    for hostile in (
        "a" * 200_000,
        "sk-ant-api03-" * 10_000,
        begin * 5_000,
        begin + "\n" * 200_000,
        begin + " A" * 100_000,
    ):
        assert scanner.redact(hostile + " aaaaaaaab").text.endswith("⟦REDACTED-S⟧")


@pytest.mark.parametrize("secret", AWKWARD)
def test_secret_in_a_result_file_is_found(secret: str) -> None:
    scanner = SecretRedactor({"S": secret})
    for text in (
        saxutils.escape(secret),
        saxutils.quoteattr(secret)[1:-1],
        html.escape(secret),
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        shlex.quote(secret).strip("'"),
    ):
        redacted = scanner.redact(f"<failure>{text}</failure>").text
        assert redacted.replace("⟦REDACTED-S⟧", "").replace("\n", "") == "<failure></failure>", text


@pytest.mark.parametrize("lead", [b"", b"\xff\xfe", "žluť".encode()])
def test_secret_cut_by_the_end_of_a_prefix_is_not_half_kept(tmp_path: Path, lead: bytes) -> None:
    secret = b"correct-horse-battery"
    data = lead + b"a token: " + secret + " and então ".encode() + secret + b" end"
    with open_writer(tmp_path, redactor=SecretRedactor({"S": secret.decode()})) as writer:
        for prefix_bytes in range(len(data) + 20):
            output = writer.output(data, prefix_bytes=prefix_bytes)
            assert (output.digest, output.length_bytes) == (digest_bytes(data), len(data))
            kept = output.prefix.load(BlobStore(writer.paths.blobs))
            assert len(kept) <= prefix_bytes
            assert kept.replace("⟦REDACTED-S⟧".encode(), secret) == data[: output.prefix.length_bytes]
            assert output.prefix.digest == digest_bytes(data[: output.prefix.length_bytes])
            for length in range(4, len(secret)):
                assert not kept.endswith(secret[:length])
            assert not any(part in kept for part in (b"horse", b"battery"))


def test_secret_printed_without_end_does_not_make_its_event_unrecordable(tmp_path: Path) -> None:
    secret = b"correct-horse-battery"
    with open_writer(tmp_path, redactor=SecretRedactor({"S": secret.decode()})) as writer:
        body = writer.body((secret + b"\n") * 300_000)
        ref_of(writer.append(build_invocation(body), actor="agent"))
    assert len(body.spans) == 1000
    last = body.spans[-1]
    assert (last.rule, last.original_length) == ("several", 22 * (300_000 - 999) - 1)
    stored = body.load(BlobStore(RunPaths(tmp_path).blobs)).decode()
    assert last.start + last.length == len(stored) - 1


def test_secret_in_a_log_reaches_no_blob(tmp_path: Path) -> None:
    with open_writer(tmp_path, redactor=SecretRedactor({"S": "correct-horse-battery"})) as writer:
        ref = writer.blob(b"token correct-horse-battery")
    assert ref is not None
    assert BlobStore(RunPaths(tmp_path).blobs).read(ref) == "token ⟦REDACTED-S⟧".encode()


@pytest.mark.parametrize("event_type", sorted(set(PAYLOAD_TYPES) - {"run-opened"}))
def test_secret_in_any_text_of_any_event_is_found(tmp_path: Path, event_type: str) -> None:
    secret = "correct-horse-battery"
    with open_writer(tmp_path, redactor=SecretRedactor({"S": secret})) as writer:
        payload = _fill(msgspec.inspect.type_info(PAYLOAD_TYPES[event_type]), secret, writer)
        writer.append(payload, actor="harness")
    trace = RunPaths(tmp_path).trace.read_text()
    assert secret not in trace
    assert "⟦REDACTED-S⟧" in trace or event_type in {
        "phase-changed",
        "program-end",
        "manifest-bound",
    }  # filled without text


def _fill(info: msgspec.inspect.Type, secret: str, writer: TraceWriter) -> Any:
    """The first value of a type that has the secret wherever text may stand."""
    match info:
        case msgspec.inspect.StructType(cls=cls) if issubclass(cls, TextBody | BlobBody):
            return writer.body(secret.encode() * (1 if cls is TextBody else 1000))
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            return cls(**{field.name: _fill(field.type, secret, writer) for field in fields})
        case msgspec.inspect.UnionType(types=types):
            return _fill(
                types[-1] if isinstance(types[0], msgspec.inspect.NoneType) else types[0], secret, writer
            )
        case msgspec.inspect.VarTupleType(item_type=item):
            return (_fill(item, secret, writer),)
        case msgspec.inspect.IntType(ge=least):
            return least or 0
        case msgspec.inspect.LiteralType(values=values):
            return values[0]
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.Metadata() | msgspec.inspect.StrType(pattern=str()):
            return digest_bytes(b"") if "sha256" in str(info) else "0"
        case msgspec.inspect.StrType():
            return f"a {secret} b"
        case _:
            raise AssertionError(info)


def test_secret_reaches_no_file_of_a_run_directory(tmp_path: Path) -> None:
    secret = "s3cr3t-\xe9-value"
    scanner = SecretRedactor({"S": secret})
    paths = RunPaths(tmp_path / "run")
    digest = digest_bytes(b"")
    opened = RunOpened(
        run_id="r", manifest_digest=digest, redaction_rules_id=scanner.rules_id, harness_version="1"
    )
    with TraceWriter.create(paths, opened, redactor=scanner) as writer:
        for filler in (b"", b"\xff\xfe", b"x" * 10_000):
            writer.append(
                ToolInvocation(
                    tool=f"echo {secret}",
                    source="gateway",
                    arguments=writer.body(filler + json.dumps({"k": secret}).encode()),
                    exit=Exited(code=0),
                    started_at_us=1,
                    wall_us=1,
                    result=writer.body(base64.b64encode(b"u:" + secret.encode()) + filler),
                ),
                actor="agent",
            )
        writer.append(
            Termination(category="completed", nature="none", code="done", rationale=secret), actor="harness"
        )
    assert check_chain(paths.trace, run_id="r").is_intact
    for path in tmp_path.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert b"s3cr3t" not in content
        assert base64.b64encode(secret.encode())[2:14] not in content
        assert scanner.redact(content.decode("utf-8", "surrogateescape")).spans == ()


def test_a_broken_scanner_cannot_begin_a_trace(tmp_path: Path) -> None:
    rule = Rule(name="never", pattern="never-matches", example="what it should have matched")
    with raises_code("scanner-broken", match="never"):
        open_writer(tmp_path / "run", redactor=SecretRedactor({}, (rule,)))
    assert not (tmp_path / "run").exists()
