from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from repotrial._core.errors import UsageError
from repotrial.redaction import NO_REDACTION, SecretRedactor
from repotrial.redaction._redaction import Redacted, check_canary
from repotrial.redaction._secrets import DEFAULT_RULES, build_literal_pattern
from support.errors import raises_code

SECRET = "s3cr3t/va+lue"
PLACEHOLDER = "⟦REDACTED-API_KEY⟧"

values = st.text(
    st.characters(codec="utf-8", exclude_characters="⟦⟧", exclude_categories=["Cs", "Zs", "Cc"]),
    min_size=8,
    max_size=20,
)


def redactor(**secrets: str) -> SecretRedactor:
    return SecretRedactor(secrets)


def usable(secrets: dict[str, str]) -> SecretRedactor:
    try:
        return SecretRedactor(secrets)
    except UsageError as error:
        if error.code != "unusable-secret":
            raise
        assume(False)
        raise


def test_a_secret_becomes_a_placeholder_that_names_it() -> None:
    result = redactor(API_KEY=SECRET).redact(f"token={SECRET};")
    assert result.text == f"token={PLACEHOLDER};"
    (span,) = result.spans
    assert result.text[span.start : span.start + span.length] == PLACEHOLDER
    assert span.rule == "secret:API_KEY/plain"
    assert span.original_length == len(SECRET)


def test_text_without_secrets_is_returned_as_it_is() -> None:
    assert redactor(API_KEY=SECRET).redact("nothing here") == Redacted(text="nothing here")
    assert NO_REDACTION.redact(SECRET) == Redacted(text=SECRET)


def test_the_same_secret_gives_the_same_placeholder() -> None:
    result = redactor(API_KEY=SECRET).redact(f"{SECRET} {SECRET.encode().hex()}")
    assert result.text == f"{PLACEHOLDER} {PLACEHOLDER}"


def test_spans_point_at_the_placeholders_in_the_redacted_text() -> None:
    result = redactor(API_KEY=SECRET, OTHER="another-value").redact(f"a{SECRET}b another-value c{SECRET}")
    shown = [result.text[span.start : span.start + span.length] for span in result.spans]
    assert shown == [PLACEHOLDER, "⟦REDACTED-OTHER⟧", PLACEHOLDER]


def test_the_longest_of_nested_secrets_wins() -> None:
    result = redactor(SHORT="abcdefgh", LONG="abcdefghijkl").redact("abcdefghijkl abcdefgh")
    assert result.text == "⟦REDACTED-LONG⟧ ⟦REDACTED-SHORT⟧"


def test_overlapping_secrets_leave_nothing_of_either() -> None:
    result = redactor(LEFT="abcdefgh", RIGHT="efghijklm").redact("-abcdefghijklm-")
    assert result.text == "-⟦REDACTED-RIGHT⟧-"
    assert result.spans[0].original_length == 13


def test_line_breaks_inside_a_secret_are_kept() -> None:
    result = redactor(KEY="line one\nline two\r\nline three").redact("a\nline one\nline two\r\nline three\nb")
    word = "⟦REDACTED-KEY⟧"
    assert result.text == f"a\n{word}\n{word}\r\n{word}\nb"


def test_white_space_around_a_declared_value_is_not_part_of_it() -> None:
    assert redactor(API_KEY=f" {SECRET}\n").redact(f"<{SECRET}>").text == f"<{PLACEHOLDER}>"


@pytest.mark.parametrize(
    "spelled",
    [
        pytest.param(json.dumps({"k": SECRET}), id="json"),
        pytest.param("https://h/?q=s3cr3t%2Fva%2Blue", id="url quoted"),
        pytest.param("https://h/?q=s3cr3t%2fva%2blue", id="url quoted in lower case"),
        pytest.param("s3cr3t\\/va+lue", id="slash escaped by PHP"),
        pytest.param("https://h/?q=s3cr3t%252Fva%252Blue", id="url quoted twice"),
        pytest.param("".join(f"%{byte:02x}" for byte in SECRET.encode()), id="url, every byte"),
        pytest.param("".join(f"\\u{ord(mark):04x}" for mark in SECRET), id="json, every character"),
        pytest.param("".join(f"&#{ord(mark)};" for mark in SECRET), id="html, by decimal numbers"),
        pytest.param("".join(f"&#x{ord(mark):x};" for mark in SECRET), id="html, by hex numbers"),
        pytest.param("s3cr3t&#x2F;va+lue", id="html, slash too"),
        pytest.param("".join(f"\\x{byte:02x}" for byte in SECRET.encode()), id="hex in source text"),
        pytest.param(SECRET.encode().hex(":").upper(), id="hex with colons"),
        pytest.param(SECRET.encode().hex(" "), id="hex with spaces"),
        pytest.param(SECRET.encode().hex(), id="hex"),
        pytest.param(SECRET.encode().hex().upper(), id="upper-case hex"),
        *(
            pytest.param(
                base64.b64encode(b"u" * before + SECRET.encode()).decode(), id=f"base64 after {before} bytes"
            )
            for before in range(4)
        ),
        *(
            pytest.param(
                base64.urlsafe_b64encode(b"u" * before + SECRET.encode() + b":rest").decode(),
                id=f"url-safe base64 after {before} bytes",
            )
            for before in range(3)
        ),
    ],
)
def test_derived_spellings_go_too(spelled: str) -> None:
    result = redactor(API_KEY=SECRET).redact(spelled)
    assert PLACEHOLDER in result.text
    assert "s3cr3t" not in result.text


def test_all_padding_of_base64_goes_with_the_value() -> None:
    encoded = base64.b64encode(SECRET.encode()).decode()
    assert encoded.endswith("==")
    assert redactor(API_KEY=SECRET).redact(f"<{encoded}>").text == f"<{PLACEHOLDER}>"


@pytest.mark.parametrize(("width", "mark"), [(76, "\n"), (64, "\r\n"), (76, "\\n")])
def test_wrapped_base64_of_a_long_value_goes_whole(width: int, mark: str) -> None:
    value = "".join(f"part-{number}/" for number in range(20))
    encoded = base64.b64encode(value.encode()).decode()
    lines = [encoded[at : at + width] for at in range(0, len(encoded), width)]
    redacted = redactor(API_KEY=value).redact(f"<{mark.join(lines)}>").text
    assert redacted.replace(PLACEHOLDER, "").replace(mark, "") == "<>"


ENCODERS: dict[str, Callable[[str], str]] = {
    "plain": lambda value: value,
    "json": json.dumps,
    "json in json": lambda value: json.dumps(json.dumps({"k": value})),
    "json with all characters": lambda value: json.dumps(value, ensure_ascii=False),
    "url": lambda value: quote(value, safe=""),
    "url path": quote,
    "url form": quote_plus,
    "url twice": lambda value: quote(quote(value, safe=""), safe=""),
    "html": html.escape,
    "html numbers": lambda value: "".join(f"&#{ord(mark)};" for mark in value),
    "hex": lambda value: value.encode().hex(),
    "upper hex": lambda value: value.encode().hex().upper(),
    "hex dump": lambda value: value.encode().hex(" "),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "url-safe base64": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "base64 in a url": lambda value: quote(base64.b64encode(value.encode()).decode(), safe=""),
    "wrapped base64": lambda value: base64.encodebytes(value.encode()).decode().rstrip("\n"),
}
"""How ordinary libraries write a value; what this test believes, not what the scanner does."""


@given(values.filter(lambda value: value == value.strip()), st.sampled_from(sorted(ENCODERS)))
def test_an_ordinary_escape_of_a_value_leaves_nothing_of_it(value: str, encoder: str) -> None:
    scanner = usable({"A": value})
    escaped = ENCODERS[encoder](value)
    result = scanner.redact(f"before {escaped} after")
    assert escaped not in result.text
    assert all(re.fullmatch(r"secret:A/[a-z0-9]+|rule:[a-z-]+", span.rule) for span in result.spans)
    left = result.text.removeprefix("before ").removesuffix(" after").replace("⟦REDACTED-A⟧", "")
    assert re.fullmatch(r"""["\\{}k: \n]*""", left), left


@given(st.dictionaries(st.sampled_from(["A", "B", "C"]), values, min_size=1), st.data())
def test_redaction_is_the_same_whoever_builds_the_scanner(
    secrets: dict[str, str], data: st.DataObject
) -> None:
    scanner = usable(secrets)
    names = data.draw(st.permutations(sorted(secrets)))
    other = SecretRedactor({name: secrets[name] for name in names})
    text = " ".join(data.draw(st.lists(st.sampled_from([*secrets.values(), "x", "\n"]), max_size=6)))
    assert other.redact(text) == scanner.redact(text)
    assert other.rules_id == scanner.rules_id


def test_dense_lines_of_a_multi_line_secret_are_secrets_themselves() -> None:
    body = "MC4CAQAwBQYDK2VwBCIEIHcVx2nCk0lZ1yqPp4bKYS1V"
    result = redactor(KEY=f"title line of it\n{body}").redact(f"title line of it: {body}")
    assert result.text == "title line of it: ⟦REDACTED-KEY⟧"


@pytest.mark.parametrize("rule", DEFAULT_RULES, ids=lambda rule: rule.name)
def test_each_rule_redacts_its_example(rule: object) -> None:
    assert any(rule is known for known in DEFAULT_RULES)
    (found,) = [known for known in DEFAULT_RULES if known is rule]
    text = redactor().redact(f'{{"out": "\\n{found.example}"}}').text.split("\n")[0]
    assert text.startswith(f'{{"out": "\\n⟦REDACTED-{found.name}⟧')


@pytest.mark.parametrize(
    "harmless",
    [
        "grep -r 'BEGIN PRIVATE KEY' .",
        "-----BEGIN PRIVATE KEY----- is the first line of the file",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ\n-----END CERTIFICATE-----",
        "task-anthropic-list sk-learn disk-usage-of-the-long-named-directory-in-question",
        "AKIAIOSFODNN7EXAMPLE",
        "commit 4f1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "ghp_short hf_model npm_config_cache xoxb-not-a-token",
        "eyJhbGciOiJIUzI1NiJ9.e30.ZRrHA1JJJW8opsbCGfG_HACGpVUMN_a9IV7pAx_Zmeo",
    ],
)
def test_ordinary_text_is_left_alone(harmless: str) -> None:
    assert redactor().redact(harmless).text == harmless


def test_a_cut_off_private_key_goes_as_far_as_it_reaches() -> None:
    cut = "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nb3BlbnNzaC1rZXkt"
    assert redactor().redact(cut).text == "\n".join(["⟦REDACTED-private-key⟧"] * 3)


def test_an_encrypted_key_goes_with_its_headers() -> None:
    block = (
        "-----BEGIN RSA "
        "PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0102\n\n"
        "MIIEpAIBAAKCAQEA7bq\nqq==\n-----END RSA "
        "PRIVATE KEY-----"
    )
    assert set(redactor().redact(block).text.split("\n")) == {"⟦REDACTED-private-key⟧", ""}


@pytest.mark.parametrize("value", ["short", "       padded       ", ""])
def test_a_secret_below_the_minimum_is_refused_by_name_only(value: str) -> None:
    with raises_code("unusable-secret") as caught:
        redactor(API_KEY=value)
    assert "API_KEY" in caught.value.message
    assert "at least 8 characters" in caught.value.message
    assert "padded" not in caught.value.message


def test_all_unusable_secrets_are_named_at_once() -> None:
    with raises_code("unusable-secret") as caught:
        SecretRedactor({"ONE": "a", "TWO": "b", "bad name": SECRET})
    assert all(name in caught.value.message for name in ("ONE", "TWO", "'bad name'"))


def test_the_rules_id_depends_on_names_and_rules_and_not_on_values() -> None:
    first = redactor(API_KEY=SECRET).rules_id
    assert first == redactor(API_KEY="something else").rules_id
    assert first != redactor(OTHER=SECRET).rules_id
    assert first != SecretRedactor({"API_KEY": SECRET}, ()).rules_id


def test_the_canary_passes_on_the_real_scanner() -> None:
    assert check_canary(redactor(API_KEY=SECRET)) == []


class BlindRedactor(SecretRedactor):
    def redact(self, text: str) -> Redacted:
        return Redacted(text=text)


class HalfBlindRedactor(SecretRedactor):
    def redact(self, text: str) -> Redacted:
        return super().redact(text) if "ghp_" not in text else Redacted(text=text)


def test_the_canary_reports_a_scanner_that_sees_nothing() -> None:
    problems = check_canary(BlindRedactor({}))
    assert any("base64" in problem for problem in problems)
    assert len(problems) > len(DEFAULT_RULES)


def test_the_canary_reports_a_single_dead_rule() -> None:
    (problem,) = check_canary(HalfBlindRedactor({}))
    assert "github-token" in problem


@given(st.dictionaries(st.sampled_from(["A", "B", "C"]), values, max_size=3), st.data())
def test_redaction_is_idempotent_and_removes_every_value(
    secrets: dict[str, str], data: st.DataObject
) -> None:
    scanner = usable(secrets)
    pieces = [*secrets.values(), *(rule.example for rule in DEFAULT_RULES[1:4])]
    pieces += [piece[:5] for piece in pieces] + [piece[3:] for piece in pieces]
    part = st.one_of(st.sampled_from(pieces), st.text(max_size=4), st.just("⟦REDACTED-A⟧"))
    text = "".join(data.draw(st.lists(part, max_size=12)))
    once = scanner.redact(text)
    assert scanner.redact(once.text) == Redacted(text=once.text)
    assert not any(value in once.text for value in secrets.values())
    assert once.text.count("\n") == text.count("\n")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(values, json_values, st.text(max_size=5), st.booleans())
def test_json_stays_json_of_the_same_shape(value: str, other: object, around: str, ascii_only: bool) -> None:  # noqa: FBT001 -- drawn
    assume('"' not in value and "\\" not in value)
    scanner = usable({"A": value})
    document = {around + value + around: [other, {"deep": around + value + around}]}
    text = json.dumps(document, ensure_ascii=ascii_only)
    redacted = json.loads(scanner.redact(text).text)
    assert value not in json.dumps(redacted, ensure_ascii=False)
    ((key, (_, deep)),) = redacted.items()
    assert "⟦REDACTED-A⟧" in key
    assert "⟦REDACTED-A⟧" in deep["deep"]


@given(
    st.lists(st.text(alphabet="ab.*", min_size=1, max_size=6), min_size=1, max_size=8),
    st.text(alphabet="ab.*"),
)
def test_the_literal_pattern_finds_the_longest_text_at_each_place(texts: list[str], scanned: str) -> None:
    pattern = re.compile(build_literal_pattern(texts))
    for position in range(len(scanned)):
        expected = max((text for text in texts if scanned.startswith(text, position)), key=len, default=None)
        match = pattern.match(scanned, position)
        assert (match[0] if match else None) == expected
