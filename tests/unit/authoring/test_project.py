from __future__ import annotations

import warnings

import msgspec
import pathspec
from hypothesis import given
from hypothesis import strategies as st

from repotrial.authoring._project import build_glob, drop_matching
from repotrial.contract import Policy

_NAME = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=12
)
_PATH = st.lists(_NAME.filter(lambda name: name not in {".", ".."}), min_size=1, max_size=3).map("/".join)


@given(_PATH)
def test_the_glob_of_a_path_covers_it_and_is_sound(path: str) -> None:
    glob = build_glob(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pathspec.GitIgnoreSpec.from_lines([glob]).match_file(path)


@given(_PATH.filter(lambda path: path[1:2] != ":"))
def test_the_glob_of_a_path_is_one_that_a_policy_holds(path: str) -> None:
    assert msgspec.convert({"protected": [build_glob(path)]}, Policy).protected == (build_glob(path),)


def test_plain_paths_are_their_own_globs() -> None:
    assert build_glob("tests/test_wrap.py") == "tests/test_wrap.py"
    assert build_glob("tests/test_[x].py") == "tests/test_?x?.py"


def test_globs_that_cover_the_reference_are_dropped() -> None:
    globs = ["**/conftest.py", "build/**", "**/*.o"]
    assert drop_matching(globs, ["src/conftest.py", "build/x.o"]) == ()
    assert drop_matching(globs, ["src/app.py"]) == tuple(globs)
