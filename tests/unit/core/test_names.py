"""Names that others gave, in one form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.escaping import normalize_name


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("astropy__Astropy-12907", "astropy-astropy-12907"),
        ("owner/Repo_X 1", "owner-repo-x-1"),
        ("--a--", "a"),
        ("Straße", "strasse"),
        ("ÄÖ", ""),
        ("", ""),
    ],
)
def test_names_that_differ_only_in_case_and_separators_are_the_same(name: str, form: str) -> None:
    assert normalize_name(name) == form


@given(st.text())
def test_the_form_of_a_form_is_itself(name: str) -> None:
    assert normalize_name(normalize_name(name)) == normalize_name(name)
