"""Values as people say them, and what a page says where something is missing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial.report import build_run_page
from repotrial.report._facts import build_provenance
from repotrial.report._render import show_bytes, show_duration
from repotrial.score import build_run_report, build_score_card, load_evidence
from repotrial.trace import Briefing, GitIdentity, ImageEnvironment, Manifest, Signal
from support.pages import read_page
from support.score_runs import CHECKS, FAILED, ScoreRun, write_run


@pytest.mark.parametrize(
    ("microseconds", "words"),
    [
        (0, "0 ms"),
        (999_499, "999 ms"),
        (1_000_000, "1 s"),
        (1_260_000, "1.3 s"),
        (60_000_000, "1 min"),
        (61_000_000, "1 min 1 s"),
        (7_260_000_000, "2 h 1 min"),
    ],
)
def test_durations_are_said_in_the_unit_that_fits(microseconds: int, words: str) -> None:
    assert show_duration(microseconds) == words


@pytest.mark.parametrize(
    ("size", "words"), [(7, "7 bytes"), (2048, "2.0 KiB"), (3 * 1024**2, "3.0 MiB"), (5 * 1024**3, "5.0 GiB")]
)
def test_sizes_are_said_in_the_unit_that_fits(size: int, words: str) -> None:
    assert show_bytes(size) == words


def test_what_is_absent_stays_absent() -> None:
    absent = Unknown(reason="not metered")
    assert show_duration(absent) is absent
    assert show_bytes(absent) is absent


def test_commits_and_images_are_named(tmp_path: Path) -> None:
    evidence = load_evidence(write_run(tmp_path / "run"))
    assert isinstance(evidence.manifest, Manifest)
    manifest = msgspec.structs.replace(
        evidence.manifest,
        repository=GitIdentity(commit="ab12" * 10, tree_digest=digest_bytes(b"tree"), submodules=()),
        environment=ImageEnvironment(reference="example.org/i:1", image_digest=digest_bytes(b"image")),
    )
    card = build_score_card(evidence)
    facts = build_provenance(
        msgspec.structs.replace(evidence, manifest=manifest), card, build_run_report(evidence, card)
    )
    values = {fact.name: fact.value for fact in facts}
    assert values["Repository"] == f"git commit {'ab12' * 10}"
    assert values["Environment"] == f"image example.org/i:1 ({digest_bytes(b'image')})"


def test_a_run_that_a_limit_ended_says_so_with_its_cost(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    alert = run.alert("cost-cap", monitor="budget")
    run.end_acting(
        category="circuit-breaker",
        nature="resource",
        code="cost-cap",
        rationale="the money is spent",
        evidence=(alert,),
        signals=(Signal(name="cost_usd", value="4.99"), Signal(name="tokens", value=1234567)),
    )
    run.apply()
    for check in CHECKS:
        run.check(check, FAILED)
    text = read_page(build_run_page(run.finish())).text
    assert "A resource limit ended acting" in text
    assert "4.99 USD, 1,234,567 tokens" in text
    assert "circuit-breaker, resource: the money is spent" in text


def test_a_briefing_whose_bytes_are_gone_or_too_many_is_not_invented(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    delivered = run.builder.writer.body(b"a long briefing " * 4000)
    run.builder.add(Briefing(issue=delivered, obligations=(), delivered=delivered))
    run.builder.writer.close()
    shown = read_page(build_run_page(run.paths.root)).text
    assert "24,000 characters are left out" in shown
    for blob in run.paths.blobs.rglob("*"):
        if blob.is_file():
            blob.unlink()
    assert "unknown (blob-missing)" in read_page(build_run_page(run.paths.root)).text


def test_a_line_that_is_no_event_ends_the_timeline_and_says_so(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with (run / "trace.jsonl").open("ab") as stream:
        stream.write(b'{"<script>": 1}\n')
    text = read_page(build_run_page(run)).text
    assert "Reading stopped: trace.jsonl: event" in text
    assert "Invalid" in text
