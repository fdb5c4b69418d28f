"""`run score`, `show`, `list`, `compare` and `summary` on runs that were really conducted."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial import api
from repotrial._core.absence import Unknown
from repotrial.authoring import lock_contract
from repotrial.redaction import SecretRedactor
from repotrial.signing import SigningKey
from repotrial.trace import load_manifest, write_manifest
from support.command_line import call, surroundings
from support.trials import HONEST, Court, open_court

CONTRACTS = ("first", "second", "third")


@pytest.fixture(scope="module")
def court() -> Iterator[Court]:
    """Three contracts, each tried by nobody, by the reference and by a script."""
    with open_court() as court:
        contracts = [court.write_contract(name) for name in CONTRACTS]
        script = court.write("fix.sh", HONEST)
        agents = ["--agent", "noop", "--agent", "reference", "--agent", f"script:{script}"]
        court.execute(*contracts, *agents, "--jobs", "2")
        yield court


def find_run(court: Court, contract: str, agent: str) -> Path:
    (found,) = court.runs.glob(f"{contract}-{agent}-*")
    return found


def load_json(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Any:
    ended = call(capsys, *words, "--json")
    assert ended.status == 0, ended.err
    return json.loads(ended.out)


def test_every_verb_on_a_run_speaks_json(court: Court, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be encoded, or is a property and left out, would only be seen here."""
    run = find_run(court, "first", "fix")
    with surroundings(XDG_CONFIG_HOME=str(court.place / "config")):
        found = {
            verb: load_json(capsys, "run", verb, run)
            for verb in ("list", "score", "summary", "cost", "recompute")
        }
        shown = call(capsys, "run", "show", run, "--json").out
        found["verify"] = load_json(capsys, "run", "verify", run, "--integrity-only")
        found["compare"] = load_json(capsys, "run", "compare", run, find_run(court, "first", "noop"))
        places = ("--runs", court.place / "replays", "--cache", court.place / "cache")
        found["replay"] = load_json(
            capsys, "run", "replay", run, "--contract", court.place / "first", *places
        )
    assert [json.loads(line)["seq"] for line in shown.splitlines()][:2] == [0, 1]
    assert found["replay"]["holds"] is True
    assert Path(found["replay"]["directory"]).parent == court.place / "replays"
    assert found["verify"][0]["holds"] is True
    assert found["recompute"][0]["holds"] is True
    assert found["cost"][0]["partial_because"] is None
    assert found["compare"]["is_comparable"] is True
    assert [entry["status"] for entry in found["list"]] == ["success"]


def test_a_run_directory_holds_what_its_page_lists(
    court: Court, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "run-directory.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \| .* \| (yes|no|no: computed) \|$", page, flags=re.MULTILINE)
    copy = tmp_path / "copy"
    shutil.copytree(find_run(court, "first", "fix"), copy)
    for verb in ("normalize", "evaluate"):
        assert call(capsys, "retrieval", verb, copy).status == 0
    assert call(capsys, "run", "rejudge", copy, "--contract", court.place / "first").status == 0
    files = [path.relative_to(copy) for path in copy.rglob("*") if path.is_file()]
    found = {file.name if file == Path(file.name) else f"{file.parts[0]}/" for file in files}
    # A receipt comes with the archive alone.
    assert found | {"custody.jsonl"} == {name for name, _ in rows}
    assert found == {
        *("manifest.json", "contract.json", "spec.json", "trace.jsonl", "trace.lock", "blobs/", "seal.json"),
        *("change.patch", "report.json", "score.json", "retrieval_events/", "rejudged/", "acceptance/"),
    }
    # What the page says of the seal is so: only sealed files can break it.
    assert api.verify_run(copy, trusted_keys=None).holds
    for name, cover in rows:
        path = copy / name
        path = path if path.is_file() else next((each for each in path.rglob("*") if each.is_file()), path)
        if not path.is_file():
            continue
        data = path.read_bytes()
        path.write_bytes(data + b" ")
        assert api.verify_run(copy, trusted_keys=None).holds == (
            cover == "no: computed" or name == "trace.lock"
        )
        path.write_bytes(data)


def test_runs_are_listed_and_filtered(court: Court, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(load_json(capsys, "run", "list", court.runs)) == 9
    failed = load_json(capsys, "run", "list", court.runs, "--status", "failure")
    assert {entry["agent"] for entry in failed} == {"noop"}
    tagged = load_json(capsys, "run", "list", court.runs, "--tag", "acceptance-*", "--contract", "f*")
    assert [entry["contract"] for entry in tagged] == ["first"]
    ended = call(capsys, "run", "list", court.runs, "--agent", "reference")
    header, *rows, total = ended.out.splitlines()
    assert header.split()[:4] == ["contract", "agent", "rep", "status"]
    assert [row.split()[0] for row in rows] == sorted(CONTRACTS)
    assert total == "3 runs"
    assert call(capsys, "run", "list", court.place / "nowhere").status == 2
    assert call(capsys, "run", "list", court.runs, "--agent", "nobody").out == "0 runs\n"
    assert call(capsys, "run", "list", court.place / "cache").status == 2


def test_a_copy_elsewhere_is_judged_alike(
    court: Court, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    original = find_run(court, "first", "noop")
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    (copy / "score.json").unlink()
    (copy / "report.json").write_text("{}")
    (scored,) = load_json(capsys, "run", "score", copy)
    assert scored["entry"]["status"] == "failure"
    for name in ("score.json", "report.json"):
        assert (copy / name).read_bytes() == (original / name).read_bytes()
    assert api.verify_run(copy, trusted_keys=None).holds
    ended = call(capsys, "run", "score", copy, tmp_path / "nowhere")
    assert ended.status == 2
    assert ended.out.startswith(
        f"failure          {copy}\n  cause finished, trust unknown signer, assurance outside\n"
    )
    assert "\n  G1 pass  G2 pass  G3 FAIL  G4 pass" in ended.out


def test_tampering_makes_a_run_invalid_whatever_its_score_file_says(
    court: Court, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(find_run(court, "first", "noop"), copy)
    shutil.copy(find_run(court, "first", "reference") / "score.json", copy / "score.json")
    (copy / "change.patch").write_bytes((find_run(court, "first", "reference") / "change.patch").read_bytes())
    (entry,) = load_json(capsys, "run", "list", copy)
    assert entry["status"] == "invalid"


def test_a_run_is_shown_with_verdict_events_and_change(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    failed, fixed = find_run(court, "first", "noop"), find_run(court, "first", "fix")
    shown = call(capsys, "run", "show", failed).out
    assert shown.startswith("failure  first  noop (")
    assert "  G3 FAIL  functional acceptance\n" in shown
    assert "cases, attempt 1: failed: cases::answer" in shown
    assert "  tag acceptance-failure" in shown
    assert "act → accept" in shown
    assert "act → accept" not in call(capsys, "run", "show", failed, "--verdict").out
    assert call(capsys, "run", "show", failed, "--timeline").out.split()[0] == "0"
    change = call(capsys, "run", "show", fixed, "--diff").out
    assert change.splitlines()[-2:] == ["-echo 41", "+echo 42"]
    empty = call(capsys, "run", "show", failed, "--diff")
    assert (empty.status, empty.out) == (0, "")
    assert empty.err.startswith("no change")
    assert call(capsys, "run", "show", failed, "--diff", "--json").status == 2


def test_runs_under_the_same_conditions_stand_side_by_side(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(
        capsys, "run", "compare", find_run(court, "first", "noop"), find_run(court, "first", "reference")
    )
    assert ended.status == 0
    assert ended.out.startswith("same contract, statement and conditions\n")
    rows = [line.split() for line in ended.out.splitlines()]
    assert ["status", "failure", "success"] in rows
    assert ["check", "cases", "FAIL", "pass"] in rows


def test_runs_on_different_contracts_are_not_compared_unless_declared(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = (find_run(court, "first", "noop"), find_run(court, "second", "noop"))
    ended = call(capsys, "run", "compare", *pair)
    assert ended.status == 1
    assert ended.out.startswith("not comparable: ")
    assert ["contract.id", "first", "second"] in [line.split() for line in ended.out.splitlines()]
    assert "status" not in ended.out
    forced = call(capsys, "run", "compare", *pair, "--force")
    assert forced.status == 0
    assert forced.out.startswith("declared differences\n")
    assert ["status", "failure", "failure"] in [line.split() for line in forced.out.splitlines()]
    found = json.loads(call(capsys, "run", "compare", *pair, "--json").out)
    assert not found["is_comparable"]


def test_a_record_that_does_not_hold_is_not_compared(
    court: Court, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two manifests that do not tell the environment agree in every byte, and yet nobody knows."""
    copies = [tmp_path / "one", tmp_path / "other"]
    for copy in copies:
        shutil.copytree(find_run(court, "first", "noop"), copy)
        manifest = load_manifest(copy / "manifest.json")
        (copy / "manifest.json").unlink()
        facts = msgspec.structs.replace(manifest, environment=Unknown(reason="nobody looked"))
        write_manifest(copy / "manifest.json", facts.build_manifest(), redactor=SecretRedactor({}))
    for force in ((), ("--force",)):
        ended = call(capsys, "run", "compare", *copies, *force)
        assert (ended.status, ended.out) == (1, "")
        assert f"error[record-broken] {copies[0]}: could not be compared: manifest" in ended.err


def test_a_summary_keeps_agents_contracts_and_categories_apart(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = load_json(capsys, "run", "summary", court.runs, "--compare", "reference,noop")
    assert {found["indeterminate"] for found in summary["agents"]} == {3}, "no key of theirs is believed here"
    key = court.place / "public.pem"
    key.write_text(SigningKey.load(court.place / "seal-key.pem").public_key.pem)
    summary = load_json(capsys, "run", "summary", court.runs, "--compare", "reference,noop", "--key", key)
    assert summary["trust"] == {"listed": 9}
    rates = {found["agent"]: (found["success"], found["attempted"]) for found in summary["agents"]}
    assert rates == {"noop": (0, 3), "reference": (3, 3), "fix": (3, 3)}
    interval = next(found for found in summary["agents"] if found["agent"] == "noop")["rate"]["interval"]
    assert interval["method"] == "wilson-on-clusters"
    assert len(summary["aggregate"]["by_version"]) == 9
    assert summary["paired"]["comparison"]["difference"]["value"] == 1
    assert summary["mixed_conditions"] == {}
    ended = call(capsys, "run", "summary", court.runs, "--compare", "reference,noop", "--key", key)
    assert ended.status == 0
    assert "reference less noop, over 3 contracts that both have\n  +100.0%" in ended.out
    assert "██" in ended.out
    assert call(capsys, "run", "summary", court.runs, "--compare", "reference,nobody").status == 2
    assert call(capsys, "run", "summary", court.runs, "--compare", "reference").status == 2
    assert call(capsys, "run", "summary", court.place / "cache").status == 2


def test_versions_of_a_contract_are_pooled_only_on_request_and_with_a_label(
    court: Court, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(find_run(court, "first", "noop"), runs / "one")
    other = court.write_contract("other/first", identifier="first", environment='variables = { A = "1" }')
    court.execute(other, "--agent", "noop", "--runs", runs)
    ended = call(capsys, "run", "summary", runs)
    assert ended.status == 2
    assert "error[mixed-versions]" in ended.err
    assert "--pool-versions" in ended.err
    names = [line.split()[0] for line in call(capsys, "run", "list", runs).out.splitlines()[1:-1]]
    assert len(set(names)) == 2
    for name in names:
        assert name in ended.err
        (row,) = load_json(capsys, "run", "summary", runs, "--contract", name)["aggregate"]["by_version"]
        assert row["attempted"] == 1
        (entry,) = load_json(capsys, "run", "list", runs, "--contract", f"f*@{name[6:10]}")
        assert entry["contract_version_id"].removeprefix("sha256:").startswith(name.removeprefix("first@"))
    pooled = call(capsys, "run", "summary", runs, "--pool-versions")
    assert pooled.status == 0
    assert "POOLED over several versions of: first" in pooled.out


def test_runs_that_were_told_different_things_are_labeled_with_what_differs(
    court: Court, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(find_run(court, "first", "noop"), runs / "one")
    other = court.write_contract("reworded/first", identifier="first")
    with (other / "statement.md").open("a", encoding="utf-8") as statement:
        statement.write("\nLook at answer.sh first, where the number is printed.\n")
    lock_contract(other)
    court.execute(other, "--agent", "noop", "--runs", runs)
    differing = load_json(capsys, "run", "summary", runs)["mixed_conditions"]["first"]
    assert any("statement" in field for field in differing), differing
    ended = call(capsys, "run", "summary", runs)
    assert f"runs under different conditions on first ({', '.join(differing)})" in ended.out


def test_what_was_broken_off_before_the_agent_began_does_not_count_once_it_was_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with open_court() as court:
        contract = court.write_contract()
        # A harness whose stopper was thrown: the attempt is sealed as stopped.
        stopper = api.Stopper()
        events = court.conduct(contract, "noop", stopper=stopper)
        for event in events:
            if isinstance(event, api.RunStarted):
                stopper.stop()
        (alone,) = api.summarize_runs(court.runs).summary.agents
        assert (alone.attempted, alone.indeterminate) == (0, 1), "not repeated, it counts 0"
        assert court.start(capsys, contract, "--agent", "noop").status == 0
        summary = api.summarize_runs(court.runs).summary
        assert (summary.runs, len(summary.repeated)) == (2, 1)
        assert [(found.attempted, found.failure) for found in summary.agents] == [(1, 1)]
        assert "excused attempts, in no rate: operator 1" in call(capsys, "run", "summary", court.runs).out


def test_deleting_a_seal_never_raises_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    """A failed run, its seal taken away, and the run done again by an agent that succeeds by then."""
    with open_court() as court:
        contract = court.write_contract()
        assert court.start(capsys, contract, "--agent", "noop").status == 0
        (name,) = court.list_runs()
        (court.runs / name / "seal.json").unlink()
        (alone,) = api.summarize_runs(court.runs).summary.agents
        assert (alone.planned, alone.success, alone.indeterminate) == (1, 0, 1)
        assert court.start(capsys, contract, "--agent", "noop").status == 0
        summary = api.summarize_runs(court.runs).summary
        assert summary.runs == 2
        assert summary.trust == {"unknown signer": 1, "unsealed": 1}
        assert [(found.planned, found.success, found.indeterminate) for found in summary.agents] == [
            (1, 0, 1)
        ]
