from __future__ import annotations

import msgspec
import pytest

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial.trace import (
    ArchiveIdentity,
    GitIdentity,
    HostEnvironment,
    ImageEnvironment,
    Lockfile,
    ObservedHost,
    Submodule,
)
from repotrial.trace._binding import (
    DeclaredHost,
    DeclaredIdentity,
    DeclaredImage,
    Mismatch,
    ObservedIdentity,
    check_binding,
)

ONE, TWO = digest_bytes(b"1"), digest_bytes(b"2")
GIT = GitIdentity(commit="a" * 40, tree_digest=ONE, submodules=(Submodule(path="lib", commit="b" * 40),))
DECLARED = DeclaredIdentity(
    version_id=ONE,
    repository=GIT,
    environment=DeclaredHost(tools={"python": ">=3.11,<4", "git": ">=2.30"}),
    lockfiles=(Lockfile(path="a.lock", digest=ONE),),
)
OBSERVED = ObservedIdentity(
    version_id=ONE,
    repository=GIT,
    environment=ObservedHost(
        environment=HostEnvironment(observed_id=TWO), tools={"python": "3.12.1", "git": "2.43.0.windows.1"}
    ),
    lockfiles=(Lockfile(path="a.lock", digest=ONE),),
)


def fields(mismatches: list[Mismatch]) -> list[str]:
    return [mismatch.field for mismatch in mismatches]


def test_agreement_binds() -> None:
    assert check_binding(DECLARED, OBSERVED) == []


def test_all_mismatches_are_listed_with_both_sides() -> None:
    observed = ObservedIdentity(
        version_id=TWO,
        repository=GitIdentity(
            commit="c" * 40, tree_digest=TWO, submodules=(Submodule(path="other", commit="b" * 40),)
        ),
        environment=ObservedHost(environment=HostEnvironment(observed_id=TWO), tools={"python": "3.10.9"}),
        lockfiles=(Lockfile(path="a.lock", digest=TWO), Lockfile(path="b.lock", digest=ONE)),
    )
    found = check_binding(DECLARED, observed)
    assert fields(found) == [
        "contract.version_id",
        "repository.commit",
        "repository.tree_digest",
        "repository.submodules[lib]",
        "repository.submodules[other]",
        "environment.tools.git",
        "environment.tools.python",
        "lockfiles[a.lock]",
        "lockfiles[b.lock]",
    ]
    assert found[0] == Mismatch(field="contract.version_id", expected=ONE, found=TWO)
    assert found[3] == Mismatch(field="repository.submodules[lib]", expected="b" * 40, found="none")
    assert found[5].found == "unknown: not looked for"


def test_missing_fields_are_mismatches_with_their_reason() -> None:
    unknown = Unknown(reason="no access")
    observed = ObservedIdentity(
        version_id=unknown, repository=unknown, environment=unknown, lockfiles=unknown
    )
    found = check_binding(DECLARED, observed)
    assert fields(found) == ["contract.version_id", "repository", "environment", "lockfiles"]
    assert {mismatch.found for mismatch in found} == {"unknown: no access"}


def test_an_archive_in_place_of_a_clone_is_a_mismatch() -> None:
    archive = ArchiveIdentity(archive_digest=ONE, tree_digest=TWO)
    found = check_binding(DECLARED, msgspec.structs.replace(OBSERVED, repository=archive))
    assert fields(found) == ["repository.kind", "repository.tree_digest"]
    declared = msgspec.structs.replace(DECLARED, repository=archive)
    other = ArchiveIdentity(archive_digest=TWO, tree_digest=TWO)
    assert fields(check_binding(declared, msgspec.structs.replace(OBSERVED, repository=other))) == [
        "repository.archive_digest"
    ]


def test_image_and_host_do_not_stand_in_for_each_other() -> None:
    image = ImageEnvironment(reference="img@" + ONE, image_digest=ONE)
    declared = msgspec.structs.replace(DECLARED, environment=DeclaredImage(image_digest=ONE))
    assert check_binding(declared, msgspec.structs.replace(OBSERVED, environment=image)) == []
    assert fields(check_binding(declared, OBSERVED)) == ["environment"]
    assert fields(check_binding(DECLARED, msgspec.structs.replace(OBSERVED, environment=image))) == [
        "environment"
    ]
    other = ImageEnvironment(reference="img@" + TWO, image_digest=TWO)
    assert fields(check_binding(declared, msgspec.structs.replace(OBSERVED, environment=other))) == [
        "environment.image_digest"
    ]


@pytest.mark.parametrize(
    ("version", "constraint", "met"),
    [
        ("3.11", ">=3.11", True),
        ("3.11.0", "==3.11", True),
        ("3.9", ">=3.11", False),
        ("v20.1.0", ">=20,<23", True),
        ("23.0.0", ">=20,<23", False),
        ("3.11.5", "~=3.11.2", True),
        ("3.12.0", "~=3.11.2", False),
        ("3.12", "~=3.11", True),
        ("4.0", "~=3.11", False),
        ("1.80.0-nightly", ">1.79", True),
        ("2.0", "!=2.0", False),
        ("2.0", "<=2", True),
        ("unreadable", ">=1", False),
        ("1.0", "about one", False),
        ("9" * 5000, ">=1", True),
    ],
)
def test_version_constraints(version: str, constraint: str, met: bool) -> None:  # noqa: FBT001 -- a table
    declared = msgspec.structs.replace(DECLARED, environment=DeclaredHost(tools={"tool": constraint}))
    host = ObservedHost(environment=HostEnvironment(observed_id=ONE), tools={"tool": version})
    assert (check_binding(declared, msgspec.structs.replace(OBSERVED, environment=host)) == []) is met
