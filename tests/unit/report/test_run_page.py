"""A run on one page: what it says about runs that went well, badly, or nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.report import build_run_page
from repotrial.signing import SigningKey
from repotrial.trace import CheckOutcome, RunPaths, seal_run
from support.errors import raises_code
from support.pages import Page, read_page
from support.run_directories import append_unknown_event, build_run
from support.score_runs import (
    CHECKS,
    FAILED,
    HUNG,
    PASSED,
    UNIT,
    ScoreRun,
    build_contract,
    write_run,
    write_score,
)
from support.traces import write_trace


def page_of(run: Path) -> Page:
    return read_page(build_run_page(run))


def seal(run: Path) -> None:
    seal_run(RunPaths(run), SigningKey.load(run.parent / "key.pem"), harness_version="0.1.0")


def test_a_success_is_told_with_its_grades(tmp_path: Path) -> None:
    text = page_of(write_run(tmp_path / "run")).text
    assert "Success All four gates passed." in text
    assert text.count("✓ passed") == 4 + len(CHECKS)
    assert "minimal 1 weight 0.571 (declared 0.4)" in text
    assert "any weights that sum to 1" in text
    assert "No failure tag." in text


def test_a_failure_names_the_gate_the_tests_and_the_evidence(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "run", {"unit": FAILED}))
    assert "Failure G3 failed: 2 failing tests in unit" in page.text
    assert "✗ failed G3 functional acceptance" in page.text
    assert "test_a" in page.text
    assert "acceptance-failure" in page.text
    assert "not computable (not passed: G3)" in page.text
    assert "#e8" in page.links, "evidence leads to its row"


def test_an_error_is_neither(tmp_path: Path) -> None:
    text = page_of(write_run(tmp_path / "run", {"unit": HUNG})).text
    assert "Acceptance error A check did not complete" in text
    assert "! no decision" in text


def test_a_run_that_a_crash_left_is_invalid_and_unsealed(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    run.builder.writer.close()
    with run.paths.trace.open("ab") as stream:
        stream.write(b'{"actor":"harn')  # the last line was cut off
    text = page_of(run.paths.root).text
    assert "Invalid Nothing can be said about success" in text
    assert "There is no seal: nobody vouches for these files." in text
    assert "Why the run is invalid" in text
    assert "change.patch: expected a file" in text
    assert not run.paths.score.exists()


def test_a_directory_with_nothing_in_it_still_gets_a_page(tmp_path: Path) -> None:
    text = page_of(tmp_path).text
    assert "Invalid" in text
    assert "No event was recorded." in text
    assert "no briefing was recorded" in text


def test_a_path_without_a_directory_is_refused(tmp_path: Path) -> None:
    with raises_code("no-run-directory"):
        build_run_page(tmp_path / "nowhere")


def test_an_empty_change_is_said_to_be_empty(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "run", patch=b""))
    assert "The change is empty: no file was touched." in page.text


def test_the_change_shows_lines_with_signs_and_numbers(tmp_path: Path) -> None:
    text = page_of(write_run(tmp_path / "run")).text
    assert "1 file, +2 -1 lines" in text
    assert "src/wrap.py modified +2 -1" in text
    assert "1 1 first 2 - second 2 + zweite 3 + third" in text


def test_a_seal_is_reported_as_found_and_never_as_trusted(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    seal(run)
    text = page_of(run).text
    assert "The files are those that the holder of key" in text
    assert "Whose key that is was not checked." in text
    assert "could not be checked seal" in text
    assert "verify it: repotrial run verify" in text


def test_a_broken_seal_is_told(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    seal(run)
    (run / "spec.json").write_bytes((run / "spec.json").read_bytes() + b" ")
    text = page_of(run).text
    assert "The seal does not hold" in text
    assert "does not hold seal" in text
    assert "The files are those" not in text


def test_events_behind_a_forged_one_are_marked(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    seal(run)
    trace = run / "trace.jsonl"
    trace.write_bytes(trace.read_bytes().replace(b'"passed_count":3', b'"passed_count":4', 1))
    text = page_of(run).text
    assert "not verified" in text
    assert "Invalid" in text


def test_a_stored_verdict_is_not_believed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"unit": FAILED})
    honest = build_run_page(run)
    write_score(run)
    (run / "score.json").write_text('{"status": "success"}')
    assert build_run_page(run) == honest


def test_the_same_run_gives_the_same_bytes_wherever_it_lies(tmp_path: Path) -> None:
    run = write_run(tmp_path / "one" / "run", {"unit": FAILED})
    first = build_run_page(run)
    moved = tmp_path / "other" / "run"
    moved.parent.mkdir()
    run.rename(moved)
    assert build_run_page(moved) == first
    assert str(tmp_path) not in first


def test_a_long_trace_is_shown_in_part_and_says_so(tmp_path: Path) -> None:
    write_trace(tmp_path / "run", 4000)
    html = build_run_page(tmp_path / "run")
    page = read_page(html)
    assert len([name for name in page.ids if name.startswith("e")]) < 1000
    assert "of them are left out here" in page.text
    assert "events left out" in page.text
    assert len(html) < 1_000_000


def test_alerts_interventions_and_types_of_later_releases_are_rows(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    append_unknown_event(paths)
    text = page_of(paths.root).text
    for word in ("alert", "intervention", "from-the-future gap"):
        assert word in text


def test_reruns_twins_and_ceilings_are_in_the_table(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    run.end_acting()
    run.apply()
    for check in CHECKS:
        run.check(check, ceiling_us=60_000_000)
    run.twins(UNIT, FAILED, survived=("test_twin",))
    text = page_of(run.finish()).text
    assert "1 min" in text
    assert "Tests with wrong expectations that passed test_twin" in text


def test_deviations_and_commands_are_listed(tmp_path: Path) -> None:
    text = page_of(write_run(tmp_path / "a run", root_seed=7)).text
    assert "root-seed: expected the planned root seed 20260307, found 7" in text
    for verb in ("verify", "score", "replay", "show"):
        assert f"repotrial run {verb} 'a run'" in text


def test_what_a_failed_check_printed_last_stands_with_it(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    run.end_acting()
    run.apply()
    printed = b"".join(b"line %d\n" % number for number in range(100))
    for check in CHECKS:
        if check is UNIT:
            run.check(check, FAILED, output=printed)
            run.check(check, HUNG, subject="reference", output=b"control says")
        else:
            run.check(check, output=b"all is well")
    html = build_run_page(run.finish())
    text = read_page(html).text
    assert "Output: plain run, attempt 1 (exit 1) event 8 stdout: the end of 790 bytes line 60 line" in text
    assert "line 99" in text
    assert "line 59" not in text
    assert "Output: control: plain run on the reference, attempt 1" in text
    assert "control says" in text
    assert "all is well" not in text, "of what passed, nothing is asked"
    assert "<details><summary>Output: " in html, "closed until somebody asks"


@pytest.mark.parametrize("plain", [PASSED, FAILED])
def test_what_twins_printed_stands_only_with_a_suite_that_passed_without_them(
    tmp_path: Path, plain: CheckOutcome
) -> None:
    run = ScoreRun(tmp_path / "run", build_contract((UNIT,)))
    run.end_acting()
    run.apply()
    run.check(UNIT, FAILED, variant="twins", output=b"a twin says")
    run.check(UNIT, plain, output=b"the suite says")
    text = page_of(run.finish()).text
    assert ("a twin says" in text) is (plain == PASSED)
    assert ("the suite says" in text) is (plain == FAILED)


def test_what_the_agents_program_printed_is_on_the_page(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    run.builder.program(stdout=b"I am stuck\n" + b"x" * 100_000)
    run.end_acting()
    text = page_of(run.finish()).text
    assert "Output: the agent's program (exit 3) event 4 stdout: 100011 bytes, of which the first" in text
    assert "left I am stuck xxx" in text
    assert "stderr: 3 bytes oh" in text
    assert "None is on record." in page_of(write_run(tmp_path / "other")).text


def test_output_that_is_lost_is_not_taken_for_none(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    run.builder.program(stdout=b"x" * 20_000)
    run.end_acting()
    directory = run.finish()
    for blob in [path for path in (directory / "blobs").rglob("*") if path.is_file()]:
        blob.unlink()
    html = build_run_page(directory)
    text = read_page(html).text
    assert "stdout: 20000 bytes, of which the first 4096 are left Not as it was recorded: blobs/" in text
    assert str(tmp_path) not in html


def test_many_outputs_are_cut_with_a_note(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    run.end_acting()
    run.apply()
    for _ in range(7):
        run.check(UNIT, FAILED, output=b"\x1b" * 30_000)
    html = build_run_page(run.finish())
    assert "3 more outputs are left out" in read_page(html).text
    assert len(html) < 400_000
