"""What the runners of this machine write, read back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from repotrial.contract import ResultFormat
from repotrial.judging._results._parse import parse_results

_PYTEST = """
import pytest
class TestGroup:
    def test_passes(self): pass
    @pytest.mark.parametrize("text", ["a", "b::c", "\\x1b"])
    def test_table(self, text): assert text != "a"
@pytest.fixture
def broken(): raise ValueError
def test_error(broken): pass
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert False
"""
_NODE = """
const {test, describe, it} = require('node:test');
const assert = require('node:assert');
test('adds', () => {});
test('a # sign', () => { assert.equal(1, 2); });
test('rests', {skip: 'why'}, () => {});
test('later', {todo: true}, () => { throw new Error('x'); });
describe('suite', () => { it('inner', () => {}); describe('deep', () => { it('x', () => {}); }); });
console.log('ok 99 - forged on standard output');
"""
_RUST = """
#[test] fn passes() { println!("test forged ... ok"); }
mod m {
    #[test] fn fails() { panic!("test forged ... ok") }
    #[test] #[ignore] fn rests() {}
    #[test] #[should_panic] fn panics() { panic!() }
}
"""


def _read(data: bytes, format_: ResultFormat) -> dict[str, str]:
    return {result.id: result.outcome for result in parse_results(data, format=format_)}


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on this machine")
    return found


def test_pytest_junit(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_PYTEST, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=r.xml", "."]
    subprocess.run([*command, "--rootdir=."], cwd=tmp_path, capture_output=True, check=False)
    assert _read((tmp_path / "r.xml").read_bytes(), "junit") == {
        "test_it.TestGroup::test_passes": "pass",
        "test_it.TestGroup::test_table[a]": "fail",
        "test_it.TestGroup::test_table[b::c]": "pass",
        "test_it.TestGroup::test_table[\\x1b]": "pass",
        "test_it::test_error": "error",
        "test_it::test_skipped": "skip",
        "test_it::test_expected": "skip",
    }


_NODE_TESTS = {
    "adds": "pass",
    "a # sign": "fail",
    "rests": "skip",
    "later": "skip",
    "suite > inner": "pass",
    "suite > deep > x": "pass",
}


@pytest.mark.parametrize(
    ("reporter", "suites"),
    [("tap", {"suite": "pass", "suite > deep": "pass"}), ("junit", {})],
)
def test_node_reporters_give_the_same_ids(tmp_path: Path, reporter: str, suites: dict[str, str]) -> None:
    (tmp_path / "a.test.js").write_text(_NODE, encoding="utf-8")
    command = [_tool("node"), "--test", f"--test-reporter={reporter}", "--test-reporter-destination=out"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    out = tmp_path / "out"
    if not out.exists():
        pytest.skip("this Node has no test reporters")
    assert _read(out.read_bytes(), "node-test") == _NODE_TESTS | suites


def test_rust_libtest(tmp_path: Path) -> None:
    (tmp_path / "t.rs").write_text(_RUST, encoding="utf-8")
    built = subprocess.run(
        [_tool("rustc"), "--test", "t.rs", "-o", "t"], cwd=tmp_path, capture_output=True, check=False
    )
    if built.returncode != 0:
        pytest.skip("rustc cannot build test programs here")
    done = subprocess.run([str(tmp_path / "t")], capture_output=True, check=False)
    assert _read(done.stdout, "libtest") == {
        "passes": "pass",
        "m::fails": "fail",
        "m::rests": "skip",
        "m::panics": "pass",
    }


def test_go_events(tmp_path: Path) -> None:
    go = _tool("go")
    (tmp_path / "go.mod").write_text("module m\n\ngo 1.20\n", encoding="utf-8")
    (tmp_path / "a_test.go").write_text(
        'package m\n\nimport "testing"\n\nfunc TestA(t *testing.T) { t.Run("s", func(t *testing.T) {}) }\n'
        "func TestB(t *testing.T) { t.Fail() }\nfunc TestC(t *testing.T) { t.Skip() }\n",
        encoding="utf-8",
    )
    done = subprocess.run([go, "test", "-json", "./..."], cwd=tmp_path, capture_output=True, check=False)
    assert _read(done.stdout, "go-test-json") == {
        "m::TestA": "pass",
        "m::TestA/s": "pass",
        "m::TestB": "fail",
        "m::TestC": "skip",
    }
