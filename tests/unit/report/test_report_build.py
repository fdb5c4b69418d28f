"""`report build`: whatever it is made of becomes one closed page; its numbers are those of its sources."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import msgspec
import pytest

from repotrial import api
from repotrial._core.digest import digest_bytes
from repotrial.score import judge_run
from repotrial.signing import SigningKey
from support.command_line import call
from support.errors import raises_code
from support.hostile import ATTACKS
from support.pages import Page, read_page, read_report
from support.score_runs import FAILED, PATCH, ScoreRun, build_contract, write_run

HEADER = "task,arm,repeat,outcome,cost_usd,wall_seconds\n"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    key = SigningKey.load(tmp_path / "key.pem")
    (tmp_path / "public.pem").write_text(key.public_key.pem)
    write_run(tmp_path / "runs" / "good", run_id="good", key=key)
    write_run(tmp_path / "runs" / "bad", {"unit": FAILED}, run_id="bad", replicate=1, key=key)
    return tmp_path / "runs"


def build(tmp_path: Path, *paths: Path, **fields: object) -> str:
    out = tmp_path / "out" / "report.html"
    request = api.ReportRequest(**{"out": out, **fields})  # type: ignore[arg-type]  # of many kinds
    return Path(api.build_report(paths, request).file).read_text(encoding="utf-8")


def write_table(path: Path, rows: list[tuple[str, str, int, str]]) -> Path:
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerows((*row, "0.5", "12") for row in rows)
    path.write_text(HEADER + stream.getvalue(), encoding="utf-8")
    return path


def test_the_same_runs_give_the_same_page_with_every_part(runs: Path, tmp_path: Path) -> None:
    html = build(tmp_path, runs)
    assert html == build(tmp_path, runs)
    page = read_report(html)
    parts = {"who", "contracts", "endings", "effort", "runs", "side-by-side", "deviations", "scope", "each"}
    assert parts <= set(page.ids)
    assert "policy choice" in page.text
    assert "1 of 2 runs" in page.text


def test_every_number_of_the_rates_is_that_of_the_runs_it_links(runs: Path, tmp_path: Path) -> None:
    built = json.loads(build(tmp_path, runs, form="json"))
    who = next(section for section in built["sections"] if section["name"] == "who")
    (table,) = who["tables"]
    (row,) = table["rows"]
    judged = [judge_run(path) for path in (runs / "bad", runs / "good")]
    statuses = [run.entry.status for run in judged]
    assert row[1:6] == [2, statuses.count("success"), statuses.count("failure"), 0, 0]
    assert row[7] == pytest.approx(statuses.count("success") / len(judged))
    sources = {source["name"]: source for source in built["sources"]}
    lines = sorted(f"{run.card.identity.head_hash}  {run.directory.name}" for run in judged)
    assert sources[table["sources"][0]]["digest"] == digest_bytes("\n".join(lines).encode())
    heads = {sources[name]["digest"] for name in ("run1", "run2")}
    assert heads == {run.card.identity.head_hash for run in judged}


def test_every_number_of_a_table_of_trials_is_recomputed_from_it(tmp_path: Path) -> None:
    rows = [
        (f"t{n}", arm, 0, "success" if n < most else "failure")
        for n in range(9)
        for arm, most in (("a", 8), ("b", 3))
    ]
    path = write_table(tmp_path / "trials.csv", rows)
    built = json.loads(build(tmp_path, path, form="json"))
    tables = {table["name"]: table for section in built["sections"] for table in section["tables"]}
    assert [row[:9] for row in tables["arm"]["rows"]] == [
        ["a", "candidate", 9, 9, 8, 1, 0, 0, pytest.approx(8 / 9, abs=1e-4)],
        ["b", "candidate", 9, 9, 3, 6, 0, 0, pytest.approx(3 / 9, abs=1e-4)],
    ]
    assert tables["contrast"]["rows"][0][3] == pytest.approx(5 / 9, abs=1e-4)
    assert tables["success-cost"]["rows"][0][1] == pytest.approx(9 * 0.5 / 8, abs=1e-4)
    (source,) = built["sources"]
    assert source["digest"] == digest_bytes(path.read_bytes())
    assert all(table["sources"] == [source["name"]] * len(table["rows"]) for table in tables.values())
    assert "points" in built["lead"][0], "the difference with its uncertainty comes first"
    assert any("not witnessed" in words.lower() for words in built["lead"])


def test_an_analysis_and_the_table_that_it_is_of_say_the_same(tmp_path: Path) -> None:
    path = write_table(tmp_path / "trials.csv", [("t1", "a", 0, "success"), ("t2", "a", 0, "error")])
    document = tmp_path / "analysis.json"
    document.write_bytes(msgspec.json.encode(api.analyze_table(path)))
    from_table = json.loads(build(tmp_path, path, form="json"))
    from_json = json.loads(build(tmp_path, document, form="json"))
    assert from_table["lead"] == from_json["lead"]
    by_name = {section["name"]: section for section in from_table["sections"]}
    assert all(by_name[section["name"]] == section for section in from_json["sections"])
    assert "tasks" not in {section["name"] for section in from_json["sections"]}, "no trials, no map"


def test_a_mix_is_one_page_with_all_parts(runs: Path, tmp_path: Path) -> None:
    one = write_table(tmp_path / "one.csv", [("t1", "a", 0, "success"), ("t2", "a", 0, "failure")])
    page = read_report(build(tmp_path, one, runs, one))
    assert {"success", "a2-success", "who"} <= set(page.ids)


@pytest.mark.parametrize("attack", ATTACKS)
def test_names_in_a_table_stay_text(attack: str, tmp_path: Path) -> None:
    text = ATTACKS[attack]
    rows = [(f"{text}{n}", f"{arm}{text}", 0, "success") for n in range(3) for arm in "ab"]
    html = build(tmp_path, write_table(tmp_path / "trials.csv", rows))
    page = read_report(html)
    assert "style" not in page.elements or html.count("<style>") == 1
    assert 'id="verdict"' not in html
    written = build(tmp_path, tmp_path / "trials.csv", form="md")
    assert all(character.isprintable() or character == "\n" for character in written)
    assert "<script" not in written


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_run_says_stays_text_on_the_page_of_all(attack: str, tmp_path: Path) -> None:
    text = ATTACKS[attack]
    title = "".join(character for character in text if character >= " ")[:200]
    for replicate, name in enumerate(("one", "two")):
        contract = msgspec.structs.replace(build_contract(), title=title)
        run = ScoreRun(
            tmp_path / "runs" / f"{name}{text.replace('/', '_')}", contract, run_id=name, replicate=replicate
        )
        run.builder.tool(arguments=json.dumps({"command": f"echo {text} {name}"}), output=text.encode())
        run.end_acting(rationale=text, category="circuit-breaker", code="cost-cap")
        run.apply(rejected_paths=(text,))
        run.finish()
    page = read_report(build(tmp_path, tmp_path / "runs"))
    assert len(page.scripts) == 1
    single = next(iter(sorted((tmp_path / "runs").iterdir())))
    read_page(build(tmp_path, single))


def test_a_line_of_ten_megabytes_does_not_make_a_page_of_ten_megabytes(tmp_path: Path) -> None:
    rows = [("x" * 10_000_000, "a", 0, "success"), ("t", "a", 0, "failure")]
    table = tmp_path / "trials.csv"
    csv.field_size_limit(20_000_000)
    assert len(build(tmp_path, write_table(table, rows))) < 400_000


def test_a_shared_report_has_no_source_prompt_or_output_and_says_so(tmp_path: Path) -> None:
    secret = b"SECRET-TEXT"
    for replicate, name in enumerate(("one", "two")):
        patch = PATCH.replace(b"zweite", secret)
        run = ScoreRun(tmp_path / "runs" / name, run_id=name, patch=patch, replicate=replicate)
        run.builder.tool(arguments=f"SECRET-TEXT {name}", output=secret)
        run.builder.program(stdout=secret, stderr=secret)
        run.end_acting(rationale="SECRET-TEXT")
        run.apply()
        for check in run.contract.checks:
            run.check(check, FAILED, output=secret)
        run.finish()
    every = build(tmp_path, tmp_path / "runs" / "one")
    assert "SECRET-TEXT" in every
    for form in ("html", "md", "json", "csv"):
        for path in (tmp_path / "runs", tmp_path / "runs" / "one"):
            text = build(tmp_path, path, form=form, is_shared=True)
            assert "SECRET-TEXT" not in text, (form, path)
            assert form == "csv" or "are left out" in text
    assert "SECRET-TEXT" in build(tmp_path, tmp_path / "runs")


def test_large_bodies_lie_beside_the_page_under_their_digest(tmp_path: Path) -> None:
    line = b"+" + b"x" * 99 + b"\n"
    patch = (
        b"diff --git a/x b/x\nnew file mode 100644\nindex 0000000..2222222\n--- /dev/null\n+++ b/x\n"
        b"@@ -0,0 +1,20000 @@\n" + line * 20_000
    )
    run = write_run(tmp_path / "runs" / "one", patch=patch)
    html = build(tmp_path, run)
    assert len(html) < 1_500_000
    (beside,) = (tmp_path / "out" / "report-files").iterdir()
    assert beside.read_bytes() == patch
    assert digest_bytes(patch).removeprefix("sha256:") in beside.name
    assert f"report-files/{beside.name}" in Page(html).links
    small = write_run(tmp_path / "small")
    assert "report-files" not in build(tmp_path, small)


def test_run_pages_lie_beside_and_are_linked(runs: Path, tmp_path: Path) -> None:
    page = read_report(build(tmp_path, runs, has_run_pages=True))
    links = [link for link in page.links if link.startswith("report-runs/")]
    assert len(links) == 2
    for link in links:
        read_page((tmp_path / "out" / link).read_text(encoding="utf-8"))


def test_rows_of_a_spreadsheet_are_those_of_the_runs(runs: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(build(tmp_path, runs, form="csv"))))
    assert [(row["run_id"], row["status"]) for row in rows] == [("bad", "failure"), ("good", "success")]
    assert rows[0]["acceptance"] == "failed"
    assert rows[0]["cost_usd"] == "", "what no record states is empty, and no zero"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda place: place.mkdir(), "an empty directory"),
        (lambda place: (place / "other").mkdir(parents=True), "neither among 1 entries"),
        (lambda _: None, "nothing there"),
        (lambda place: place.write_text("x"), "something that is not a directory"),
    ],
    ids=["empty", "of-another-tool", "missing", "a-file"],
)
def test_what_is_no_input_is_named_with_all_others(make: object, words: str, tmp_path: Path) -> None:
    make(tmp_path / "place")  # type: ignore[operator]  # a function of the list
    with raises_code("report-input", match=words) as caught:
        build(tmp_path, tmp_path / "place", tmp_path / "gone")
    assert "gone" in str(caught.value)
    assert not (tmp_path / "out").exists(), "nothing is half-written"


def test_a_document_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "analysis.json"
    path.write_text('{"schema": "other"}')
    with raises_code("report-input", match="pilot analyze --json"):
        build(tmp_path, path)


def test_a_report_into_the_runs_and_a_csv_of_a_mix_are_refused(runs: Path, tmp_path: Path) -> None:
    with raises_code("report-inside"):
        build(tmp_path, runs, out=runs / "good" / "report.html")
    table = write_table(tmp_path / "t.csv", [("t", "a", 0, "success")])
    with raises_code("report-format"):
        build(tmp_path, runs, table, form="csv")
    (tmp_path / "taken").mkdir()
    with raises_code("report-write", match="taken"):
        build(tmp_path, runs, out=tmp_path / "taken")


WIDE = {
    "one-task": [("t", arm, 0, "success") for arm in "ab"],
    "one-trial": [("t", "a", 0, "success")],
    "an-arm-without-success": [
        (f"t{n}", arm, 0, o) for n in range(4) for arm, o in (("a", "success"), ("b", "failure"))
    ],
    "no-success-at-all": [(f"t{n}", "a", 0, "invalid") for n in range(3)],
    "forty-arms": [
        (f"t{n}", f"arm{arm}", 0, "success" if n % 2 else "failure") for n in range(4) for arm in range(40)
    ],
    "long-names": [
        (f"{'t' * 200}{n}", f"{'a' * 200}{arm}", 0, "success") for n in range(3) for arm in range(2)
    ],
    "right-to-left-names": [
        (f"משימה {n}", arm, 0, "success") for n in range(3) for arm in ("סוכן א", "وكيل")
    ],
}


@pytest.mark.parametrize("case", WIDE)
def test_narrow_and_wide_tables_are_pages(case: str, tmp_path: Path) -> None:
    path = write_table(tmp_path / "trials.csv", WIDE[case])
    page = read_report(build(tmp_path, path))
    assert {"trials", "success", "paired", "costs", "notes"} <= set(page.ids)
    assert build(tmp_path, path, form="md").startswith("# ")


def test_a_report_is_built_from_the_command_line(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = call(capsys, "report", "build", runs)
    assert (ended.status, ended.out) == (0, "report.html\n")
    ended = call(capsys, "report", "build", runs, "--format", "md", "--out", "x/y.md", "--json")
    assert json.loads(ended.out)["runs"] == 2
    assert "made the directory x" in ended.err
    assert call(capsys, "report", "build", tmp_path / "gone").status == 2


def test_a_summary_is_written_as_the_same_page(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "sub" / "page.html"
    ended = call(capsys, "run", "summary", runs, "--page", page, "--key", tmp_path / "public.pem")
    assert (ended.status, ended.out.splitlines()[-1]) == (0, f"page: {page}")
    out = tmp_path / "out.html"
    call(capsys, "report", "build", runs, "--out", out, "--key", tmp_path / "public.pem")
    assert page.read_text(encoding="utf-8") == out.read_text(encoding="utf-8")
