"""`pilot analyze` as people call it: text, JSON, files, and what it says about bad input."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

import repotrial
from repotrial.cli import main
from support.caps import find_unlabeled_caps
from support.claims import digest_sources, find_claims, find_titles, list_known_numbers
from support.command_line import call, execute, surroundings
from support.custody import write_identity
from support.harness import require_sandboxes
from support.pages import read_report
from support.pilots import write_pilot
from support.trial_tables import draw_trials, write_table

TOKEN = "ghp_" + "c3" * 18
_PARTS = {
    *("pilot-flow", "success", "outcomes-by-arm", "paired", "costs", "tasks", "failures", "verdict-errors"),
    *("indeterminate", "rubric-weights", "assurance", "all-trials", "side-by-side", "deviations", "planning"),
    *("weights", "registrations", "assumptions", "scope", "notes"),
    *("power", "projection", "weight", "rates", "differences", "strata", "map", "time", "failing"),
}
"""Sections and figures."""
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-a-pilot-from-python.md"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "trials.csv", draw_trials({"a": 2.0, "b": 0.0, "c": 0.0}, tasks=30))


def test_people_get_the_decision_first_and_the_ties_in_words(
    capsys: pytest.CaptureFixture[str], table: Path
) -> None:
    ended = call(capsys, "pilot", "analyze", "--table", table)
    assert ended.status == 0
    assert ended.out.startswith("**Decision**: none: a table of trials has no frozen decision rule")
    assert "not witnessed" in ended.out
    assert "cannot be told apart here." in ended.out


def test_machines_get_the_named_fields(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    ended = call(capsys, "pilot", "analyze", "--table", table, "--json")
    found = json.loads(ended.out)
    for arm in found["arms"]:
        assert {"name", "tasks", "trials", "rate", "icc", "errors", "invalid"} <= set(arm)
        assert all(
            isinstance(arm["rate"][name], float) for name in ("estimate", "standard_error", "low", "high")
        )
        assert isinstance(arm["icc"], float)
    for contrast in found["contrasts"]:
        numbers = ("difference", "low", "high", "p", "p_holm", "low_family", "high_family")
        assert all(isinstance(contrast[name], float) for name in numbers)
        assert {contrast["first"], contrast["second"]} < {"a", "b", "c"}
    assert len(found["contrasts"]) == 3


def test_files_are_written_where_asked(
    capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "analysis"
    ended = call(capsys, "pilot", "analyze", "--table", table, "--out", out)
    assert ended.status == 0
    written = {file.name for file in out.iterdir()}
    assert written == {
        "analysis.json",
        "analysis.md",
        "arms.csv",
        "contrasts.csv",
        "amounts.csv",
        "repeats.csv",
    }
    assert (out / "analysis.md").read_text() == ended.out


def test_bad_lines_end_with_2_and_name_the_fix(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bad = write_table(tmp_path / "bad.csv", ["t,a,0,passed,,"])
    ended = call(capsys, "pilot", "analyze", "--table", bad)
    assert ended.status == 2
    assert "bad.csv:2: outcome: expected one of success, failure, error, invalid, found 'passed'" in ended.err
    assert "fix:" in ended.err
    assert call(capsys, "pilot", "analyze", "--table", tmp_path / "none.csv").status == 2


def _find_home(place: Path) -> dict[str, str]:
    return {
        "HOME": str(place),
        "XDG_CACHE_HOME": str(place / "cache"),
        "XDG_CONFIG_HOME": str(place / "config"),
    }


@pytest.fixture(scope="module")
def conducted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example pilot, planned, frozen and conducted for real."""
    require_sandboxes()
    place = tmp_path_factory.mktemp("conducted")
    directory = write_pilot(place)
    (place / "custody.toml").write_text(f'recipients = ["{write_identity(place / "me.txt")}"]\n')
    for script in (place / "example" / "agents" / "strong").iterdir():
        script.write_text(f"{script.read_text()}\necho token {TOKEN}\n")
    custody = ["--custody", str(place / "custody.toml")]
    for words in (["plan"], ["freeze"], ["run", "--jobs", "2", *custody]):
        with surroundings(None, **_find_home(place)), pytest.raises(SystemExit) as stop:
            main(["pilot", words[0], str(directory), *words[1:]])
        # Stage 3 is refused: eight tasks have too little power, and stages 1 and 2 are the plan.
        assert stop.value.code in (0, 1)
    return directory


class TestConducted:
    def test_the_lines_of_the_page_about_python_do_what_they_say(
        self,
        capsys: pytest.CaptureFixture[str],
        conducted: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (tmp_path / "small").symlink_to(conducted)
        monkeypatch.chdir(tmp_path)
        blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        assert len(blocks) == 3
        exec("\n".join(blocks), {})
        said = capsys.readouterr().out
        assert re.search(r"^strong [0-9]+ of [0-9]+$", said, re.MULTILINE), said
        assert re.search(r"^strong [01]\.[0-9]+ [01]\.[0-9]+ [01]\.[0-9]+$", said, re.MULTILINE), said

    def test_rows_of_a_pilot_are_all_planned_runs_and_agree_with_its_figures(self, conducted: Path) -> None:
        pilot = repotrial.open_pilot(conducted)
        rows = pilot.rows()
        for arm in pilot.analysis.arms:
            own = [row for row in rows if row["arm"] == arm.name]
            assert len(own) == arm.trials
            assert sum(row["status"] == "success" for row in own) == arm.successes
        assert len(pilot.runs) == sum(row["status"] != "indeterminate" for row in rows)

    def test_the_known_difference_is_found_and_a_null_difference_is_not(
        self, capsys: pytest.CaptureFixture[str], conducted: Path
    ) -> None:
        ended = call(capsys, "pilot", "analyze", conducted, "--json")
        assert ended.status == 0, ended.err
        found = json.loads(ended.out)
        assert found["decision"].startswith("adopt strong: ahead of weak")
        known, *others = found["contrasts"]
        assert (known["first"], known["second"], known["is_told_apart"]) == ("strong", "weak", True)
        null = next(one for one in others if {one["first"], one["second"]} == {"weak", "capitals"})
        assert (null["family"], null["is_told_apart"]) == ("exploratory", False)
        assert null["p"] > 0.05

    def test_a_copy_on_which_nothing_can_be_executed_computes_every_figure_again(
        self, capsys: pytest.CaptureFixture[str], conducted: Path, tmp_path: Path
    ) -> None:
        call(capsys, "pilot", "analyze", conducted, "--out", tmp_path / "published")
        copied = tmp_path / "copy"
        shutil.copytree(conducted, copied)
        published = tmp_path / "published" / "analysis.json"
        nowhere = {"PATH": "/nowhere", "HOME": str(tmp_path)}
        again = execute("pilot", "analyze", copied, "--check", published, env=nowhere)
        assert again.status == 0, again.err
        text = published.read_text().replace('"successes": 7', '"successes": 8')
        published.write_text(text)
        differing = execute("pilot", "analyze", copied, "--check", published, env=nowhere)
        assert differing.status == 1
        assert "successes: expected 8, found 7" in differing.err

    def test_a_pilot_is_archived_its_originals_opened_and_shredded_and_figures_hold_but_for_what_was_read(
        self, capsys: pytest.CaptureFixture[str], conducted: Path, tmp_path: Path
    ) -> None:
        place = conducted.parents[1]
        copied, vaults = tmp_path / "copy", tmp_path / "originals"
        shutil.copytree(conducted, copied)
        shutil.copytree(place / "originals", vaults)
        write_identity(tmp_path / "other.txt")
        published, plan = tmp_path / "published", tmp_path / "archive.json"

        def do(*words: str | Path, status: int = 0) -> str:
            with surroundings(tmp_path, **_find_home(place)):
                ended = call(capsys, *words)
            assert ended.status == status, (words, ended)
            return ended.out

        do("pilot", "analyze", copied, "--out", published)
        do("archive", "plan", copied / "runs", "--out", plan)
        do("archive", "approve", plan, "--by", "custodian", "--why", "the study is over")
        do("archive", "apply", plan)
        run = next(copied / "runs" / path.parent.name for path in sorted(vaults.glob("*/*.age")))
        out = tmp_path / "opened"
        opening = ("archive", "open", run, "--reason", "appeal 7", "--out", out)
        do(*opening, "--identity", tmp_path / "other.txt", status=1)
        assert not out.exists()
        do(*opening, "--identity", place / "me.txt")
        assert any(f"token {TOKEN}" in file.read_text() for file in out.iterdir())
        assert not any(TOKEN.encode() in file.read_bytes() for file in copied.rglob("*") if file.is_file())
        do("archive", "shred", copied / "runs", "--by", "custodian", "--why", "retention ended")
        assert not [*vaults.glob("*/*.age")]
        log = json.loads(do("archive", "log", run, "--json"))
        assert [each["action"] for each in log["entries"]] == ["refused", "opened", "shredding", "shredded"]
        do("run", "verify", copied / "runs")
        with surroundings(tmp_path, **_find_home(place)):
            again = call(capsys, "pilot", "analyze", copied, "--check", published / "analysis.json")
        differing = [line for line in again.err.splitlines() if ": expected " in line and "|" in line]
        # What an agent read is told by texts that are gone; every other figure is the same.
        assert all(".rubric.read_before: " in line for line in differing), again.err
        do("report", "build", copied / "runs", "--out", tmp_path / "report.html")
        assert "strong" in (tmp_path / "report.html").read_text()

    def test_an_outsider_checks_a_bundle_by_digests_and_by_computing_it_anew(
        self, capsys: pytest.CaptureFixture[str], conducted: Path, tmp_path: Path
    ) -> None:
        archive = tmp_path / "pilot.tar"
        ended = call(capsys, "pilot", "bundle", conducted, "--out", archive, "--json")
        assert ended.status == 0, ended.err
        folder = tmp_path / json.loads(ended.out)["folder"]
        with tarfile.open(archive) as tar:
            tar.extractall(tmp_path, filter="data")
        summed = subprocess.run(
            ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=False
        )
        assert summed.returncode == 0
        nowhere = {"PATH": "/nowhere", "HOME": str(tmp_path)}
        check = folder / "analysis" / "analysis.json"
        assert execute("pilot", "analyze", folder, "--check", check, env=nowhere).status == 0
        assert not any(path.suffix in {".key", ".pem"} for path in folder.rglob("*"))

    def test_a_bundle_replaces_nothing_and_takes_no_link(
        self, capsys: pytest.CaptureFixture[str], conducted: Path, tmp_path: Path
    ) -> None:
        archive = tmp_path / "pilot.tar"
        archive.write_text("mine")
        ended = call(capsys, "pilot", "bundle", conducted, "--out", archive)
        assert (ended.status, archive.read_text()) == (3, "mine")
        copied = tmp_path / "copy"
        shutil.copytree(conducted, copied)
        (copied / "runs" / "secret").symlink_to("/etc/passwd")
        ended = call(capsys, "pilot", "bundle", copied, "--out", tmp_path / "other.tar")
        assert ended.status == 1
        assert "bundle-source" in ended.err

    def test_runs_that_were_exchanged_and_plans_that_were_edited_are_refused(
        self, capsys: pytest.CaptureFixture[str], conducted: Path, tmp_path: Path
    ) -> None:
        copied = tmp_path / "copy"
        shutil.copytree(conducted, copied)
        (copied / "pilot.toml").write_text((copied / "pilot.toml").read_text() + "\n# adopt anything\n")
        one, other, *_ = sorted((copied / "runs").iterdir())
        shutil.rmtree(other)
        (one / "seal.json").write_bytes(b"{}")
        ended = call(capsys, "pilot", "analyze", copied)
        assert ended.status == 1
        for code in ("frozen-file-edited", "run-dropped", "run-replaced"):
            assert code in ended.err


def test_a_directory_and_a_table_at_once_or_neither_are_refused(
    capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path
) -> None:
    assert call(capsys, "pilot", "analyze").status == 2
    assert call(capsys, "pilot", "analyze", tmp_path, "--table", table).status == 2
    assert call(capsys, "pilot", "analyze", tmp_path).status == 1


def test_every_number_of_its_page_is_recomputed_from_what_it_links(
    capsys: pytest.CaptureFixture[str], conducted: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "copy"
    shutil.copytree(conducted, copied)
    out = tmp_path / "pilot.html"
    assert call(capsys, "report", "build", conducted, "--out", out).status == 0
    page = out.read_text(encoding="utf-8")
    claims = find_claims(page)
    assert len(claims) > 300
    digests = digest_sources(page, copied)
    assert {claim.source for claim in claims} <= set(digests), "each number names an artefact"
    assert all(found == expected for found, expected in digests.values())
    known = list_known_numbers(copied)
    strange = [claim for claim in claims if claim.text not in known[claim.table]]
    assert strange == []
    drawn = find_titles(page)
    assert drawn["p1-rates"].startswith("strong succeeded most often: 7 of 10")


def test_every_output_about_it_that_names_a_cap_calls_it_a_policy_choice(
    capsys: pytest.CaptureFixture[str], conducted: Path, tmp_path: Path
) -> None:
    texts = {
        " ".join(words): call(capsys, *words, conducted).out
        for words in (("pilot", "status"), ("pilot", "analyze"), ("run", "list"), ("run", "summary"))
    }
    capped = next(path for path in (conducted / "runs").iterdir() if (path / "seal.json").is_file())
    texts["run show"] = call(capsys, "run", "show", capped, "--verdict").out
    for form, place in (
        ("html", conducted),
        ("md", conducted),
        ("html", conducted / "runs"),
        ("md", conducted / "runs"),
        ("html", capped),
    ):
        out = tmp_path / "report"
        assert call(capsys, "report", "build", place, "--format", form, "--out", out).status == 0
        texts[f"report build {place.name} as {form}"] = out.read_text(encoding="utf-8")
    assert len(texts) == 10
    assert {name: found for name, text in texts.items() if (found := find_unlabeled_caps(text))} == {}


def test_its_page_has_every_part_and_its_rows_are_those_of_the_csv(
    capsys: pytest.CaptureFixture[str], conducted: Path, tmp_path: Path
) -> None:
    call(capsys, "report", "build", conducted, "--out", tmp_path / "pilot.html", "--run-pages")
    page = read_report((tmp_path / "pilot.html").read_text(encoding="utf-8"))
    sections = {name.removeprefix("p1-") for name in page.ids}
    assert sections >= _PARTS, _PARTS - sections
    cells = [link for link in page.links if link.startswith("pilot-runs/")]
    assert len(cells) >= 40
    assert all((tmp_path / link).is_file() for link in cells), "each cell opens its run"
    call(capsys, "report", "build", conducted, "--format", "csv", "--out", tmp_path / "pilot.csv")
    with (tmp_path / "pilot.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["status"] for row in rows] == [
        row["status"] for row in repotrial.open_pilot(conducted).rows()
    ]
