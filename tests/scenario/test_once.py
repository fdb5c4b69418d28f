"""One way through: what a command needs to know, it finds out once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

from support.command_line import call
from support.trials import Court, open_court

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "contracts" / "textkit-wide-chars"
"""It is certified."""
WATCHED: Final = {
    "repotrial.contract._loader:check_directory": "contract loaded",
    "repotrial.contract._lint:_apply_rules": "contract linted",
    "repotrial.contract._lockfile:_assemble": "lock checked",
    "repotrial.fleet._plan:plan_runs": "planned",
    "repotrial.trace._manifest_file:parse_manifest": "manifest parsed",
    "repotrial.trace._verify_chain:check_chain": "chain verified",
}


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court:
        yield court


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How often each of these functions is entered, in all threads."""
    found: Counter[str] = Counter()
    lock = threading.Lock()

    def take(frame: FrameType, event: str, _argument: object) -> None:
        word = WATCHED.get(f"{frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}")
        if word is not None and event == "call":
            with lock:
                found[word] += 1

    threading.setprofile(take)
    sys.setprofile(take)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_run_start_loads_lints_and_plans_a_contract_once(
    court: Court, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    contract = court.write_contract()
    with counted() as found:
        ended = court.start(capsys, contract, "--agent", "reference")
    assert ended.status == 0
    assert found == {
        "contract loaded": 1,
        "contract linted": 1,
        "lock checked": 1,
        "planned": 1,
        # Sealed is what the writer wrote; the judges believe nothing but what is on the disk.
        "manifest parsed": 2,
        "chain verified": 1,
    }
    (run,) = court.runs.glob("[!.]*")
    for words in (["page", "--out", tmp_path / "run.html"], ["score"], ["summary"]):
        with counted() as found:
            assert call(capsys, "run", *words, run).status == 0
        assert found["chain verified"] == 1, words


def test_a_certified_contract_is_held_against_its_lock_once(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the plan, and by the certificate that is worth nothing for another version."""
    with counted() as found:
        ended = court.start(capsys, EXAMPLE, "--agent", "reference", "--dry-run", "--json")
    assert json.loads(ended.out)["uncertified"] == []
    assert found == {"contract loaded": 1, "contract linted": 1, "lock checked": 1, "planned": 1}


@pytest.mark.parametrize("verb", ["check", "show", "lock"])
def test_verbs_on_a_contract_load_it_once(
    court: Court, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    contract = court.write_contract()
    with counted() as found:
        ended = call(capsys, "contract", verb, contract)
    assert ended.status == 0
    assert found["contract loaded"] == 1
    assert max(found.values()) == 1


def test_run_start_loads_neither_reports_nor_retrieval(court: Court) -> None:
    """Pages bring a template engine, and nothing of either is shown by it."""
    words = court.build_words(court.write_contract(), "--agent", "reference")
    code = f"import sys, repotrial.cli\ntry: repotrial.cli.main({words!r})\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "1 run: 1 success" in done.stdout
    assert "repotrial.run._conduct" in loaded
    unwanted = ("repotrial.report", "repotrial.retrieval", "repotrial.analysis", "jinja2")
    assert not [name for name in loaded if name.startswith(unwanted)]
