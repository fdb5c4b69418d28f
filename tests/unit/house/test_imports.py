"""Start-up stays light: what a plain import and `--version` may load."""

from __future__ import annotations

import subprocess
import sys

import pytest

_HEAVY = {
    "jinja2",
    "rich",
    "cryptography",
    "securesystemslib",
    "tree_sitter",
    "pathspec",
    "orjson",
    "msgspec",
    "numpy",
    "scipy",
}


def _names_loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def _modules_loaded_by(code: str) -> set[str]:
    return {name.partition(".")[0] for name in _names_loaded_by(code)}


_VERSION = """\
import repotrial.cli
sys.argv = ['repotrial', '--version']
try: repotrial.cli.main()
except SystemExit: pass
"""


@pytest.mark.parametrize("code", ["import repotrial", _VERSION], ids=["import", "version"])
def test_light_things_load_nothing_heavy(code: str) -> None:
    assert not _modules_loaded_by(code) & _HEAVY


@pytest.mark.parametrize("package", ["repotrial.contract", "repotrial.trace", "repotrial.source"])
def test_packages_leave_heavy_libraries_for_those_who_need_them(package: str) -> None:
    assert not _modules_loaded_by(f"import {package}") & {
        "rich",
        "cryptography",
        "securesystemslib",
        "tree_sitter",
    }


def test_a_noun_loads_no_other() -> None:
    code = "import repotrial.cli\ntry: repotrial.cli.main(['cache', '--help'])\nexcept SystemExit: pass"
    loaded = _names_loaded_by(code)
    assert "repotrial.cli._cache" in loaded
    assert not {"repotrial.cli._run", "repotrial.cli._contract"} & loaded
    assert not {name for name in loaded if name.startswith("repotrial.api.")}


@pytest.mark.parametrize(
    ("verb", "unwanted"),
    [
        ("verify_run", {"repotrial.run", "repotrial.isolation", "repotrial.authoring"}),
        ("list_runs", {"repotrial.run", "repotrial.isolation", "repotrial.authoring"}),
        ("check_contract", {"repotrial.run", "repotrial.isolation", "repotrial.score"}),
        ("find_certificate", {"repotrial.fleet", "repotrial.isolation", "repotrial.retrieval"}),
    ],
)
def test_a_verb_loads_no_more_than_it_needs(verb: str, unwanted: set[str]) -> None:
    assert not unwanted & _names_loaded_by(f"from repotrial import api\napi.{verb}")


def test_rates_and_their_intervals_do_without_the_slow_half_of_scipy() -> None:
    """It loads for most of a second, and every `run summary` would wait for it."""
    code = (
        "from repotrial.stats import build_clusters, estimate_clustered_rate\n"
        "estimate_clustered_rate(build_clusters([('a', 0.0), ('b', 1.0), ('b', 0.0)]))"
    )
    assert "scipy.stats" not in _names_loaded_by(code)
