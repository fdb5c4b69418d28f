"""Instances of SWE-bench as contracts: what each part becomes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial.authoring import (
    CreatedContract,
    SwebenchContract,
    create_contract_from_swebench,
    load_swebench_instances,
    lock_contract,
)
from repotrial.authoring._swebench_instance import SwebenchInstance, parse_node_id
from repotrial.change import read_change
from repotrial.contract import GitRepository, Inventory, LoadedContract, load_contract
from support.errors import raises_code
from support.repositories import Files, RepositoryMaker
from support.swebench import (
    BASE,
    FIX,
    INSTANCE_ID,
    TESTS,
    build_row,
    drop_modes,
    make_instance,
    write_jsonl,
)


def import_one(
    tmp_path: Path, *, is_embedded: bool = True, lock: Path | None = None, **changes: Any
) -> tuple[CreatedContract, LoadedContract]:
    row = make_instance(tmp_path / "repo", **changes)
    options = SwebenchContract(
        instance=msgspec.convert(row, SwebenchInstance),
        source=str(tmp_path / "repo"),
        directory=tmp_path / "contract",
        python_lock=lock,
        is_embedded=is_embedded,
    )
    created = create_contract_from_swebench(options)
    return created, load_contract(tmp_path / "contract")


def codes_of(created: CreatedContract) -> set[str]:
    return {problem.code for problem in created.problems}


def test_every_part_of_an_instance_has_its_place(tmp_path: Path) -> None:
    created, loaded = import_one(tmp_path)
    directory = tmp_path / "contract"
    check = loaded.contract.checks[0]
    assert (created.id, loaded.contract.id) == ("example-clamp-12", "example-clamp-12")
    assert loaded.contract.title == "Values above the bound stay"
    assert loaded.statement == "# Values above the bound stay\n\nExpected 9 for 30 in 0..9, got 30.\n"
    assert (directory / "checks/tests/tests/test_clamp.py").read_text() == TESTS["tests/test_clamp.py"]
    assert loaded.reference is not None
    assert b"+    return min(high, max(low, value))" in loaded.reference
    assert "tests/test_clamp.py" in (check.run or "")
    assert "tests/test_clamp.py" in loaded.contract.policy.protected
    assert not any(path.name == "hints.md" for path in directory.rglob("*"))
    assert codes_of(created) == {"draft-packages-unstated", "draft-statement-issue"}
    assert lock_contract(directory).is_written


def test_an_issue_of_one_line_is_a_statement_too(tmp_path: Path) -> None:
    issue = "clamp(30, 0, 9) must return 9; it returns 30."
    _, loaded = import_one(tmp_path, problem_statement=f"{issue}\n\n")
    assert loaded.statement == f"# {issue}\n\n{issue}\n"
    assert lock_contract(tmp_path / "contract").is_written


def test_test_ids_are_those_that_pytest_writes_into_its_results(tmp_path: Path) -> None:
    _, loaded = import_one(tmp_path)
    assert loaded.inventories["tests"] == Inventory(
        fail_to_pass=(
            "tests.test_clamp.TestHigh::test_integer",
            "tests.test_clamp.TestHigh::test_float[above::it]",
        ),
        pass_to_pass=(
            "tests.test_clamp::test_low",
            "tests.test_clamp::test_inside",
            "tests.test_clamp.TestHigh::test_float[below it]",
        ),
    )


def test_a_lock_file_becomes_the_environment(tmp_path: Path) -> None:
    lock = tmp_path / "pins.txt"
    lock.write_text("iniconfig==2.0.0 --hash=sha256:" + "0" * 64 + "\n")
    _, loaded = import_one(tmp_path, lock=lock)
    python = loaded.contract.environment.python
    assert python is not None
    assert (tmp_path / "contract" / python.lock).read_bytes() == lock.read_bytes()


def test_a_lock_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with raises_code("contract-option-invalid", match=r"missing\.txt"):
        import_one(tmp_path, lock=tmp_path / "missing.txt")
    assert not (tmp_path / "contract").exists()


def test_a_repository_that_is_not_embedded_is_named_with_its_commit(tmp_path: Path) -> None:
    created, loaded = import_one(tmp_path, is_embedded=False)
    assert isinstance(loaded.contract.repository, GitRepository)
    assert loaded.contract.repository.commit == created.base_commit
    assert "draft-source-local" in codes_of(created)


def test_deleted_renamed_and_binary_test_files_are_carried_along(tmp_path: Path) -> None:
    tests = {**TESTS, "tests/new_data.txt": BASE["tests/old_data.txt"], "tests/picture.bin": b"\0\1\2" * 99}
    _, loaded = import_one(tmp_path, tests=tests, removed=("tests/old_data.txt",))
    (overlay,) = loaded.contract.checks[0].files
    place = tmp_path / "contract" / "checks/tests/tests"
    assert overlay.delete == ("tests/old_data.txt",)
    assert (place / "picture.bin").read_bytes() == b"\0\1\2" * 99
    assert (place / "new_data.txt").read_text() == "4\n"


def test_a_file_that_is_no_test_is_laid_too_and_told(tmp_path: Path) -> None:
    created, _ = import_one(tmp_path, tests={**TESTS, "setup.cfg": "[tool:pytest]\n"})
    (problem,) = (each for each in created.problems if each.code == "draft-overlay-other-file")
    assert "'setup.cfg'" in problem.message


def test_tests_that_no_list_names_are_told(tmp_path: Path) -> None:
    created, _ = import_one(tmp_path, PASS_TO_PASS="[]")
    (problem,) = (each for each in created.problems if each.code == "draft-test-unlisted")
    assert "'tests.test_clamp::test_low'" in problem.message


@pytest.mark.parametrize("piece", ["tests/test_clamp.py::TestHigh::test_float[below", "[100%]"])
def test_a_piece_of_a_log_stays_out_where_it_only_has_to_stay_and_is_told(tmp_path: Path, piece: str) -> None:
    created, loaded = import_one(tmp_path, PASS_TO_PASS=[piece])
    assert "draft-test-cut" in codes_of(created)
    assert loaded.inventories["tests"].pass_to_pass == ()


def test_a_patch_without_its_last_newline_is_mended(tmp_path: Path) -> None:
    row = make_instance(tmp_path / "other")
    _, loaded = import_one(tmp_path, patch=row["patch"].rstrip("\n"))
    assert loaded.reference == row["patch"].encode()


class _Moded:
    """A repository with an executable file, a file that moves and a link; its fix leaves the link alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.maker = RepositoryMaker(path)
        files: Files = {
            "bin/clamp": "#!/bin/sh\nexec python -m clamp\n",
            "clamp/bounds.py": "LOW = 0\nHIGH = 9\n" * 20,
        }
        self.maker.commit({**BASE, **files})
        (path / "bin/clamp").chmod(0o755)
        (path / "link.py").symlink_to("clamp/__init__.py")
        self.base = self.maker.commit()
        self.maker.git("mv", "clamp/bounds.py", "clamp/limits.py")
        fixed = self.maker.commit(
            {
                **FIX,
                "bin/clamp": "#!/bin/sh\nexec python3 -m clamp\n",
                "clamp/limits.py": "LOW = 0\nHIGH = 9\n" * 20 + "STEP = 1\n",
                "clamp/new.py": "NEW = 1\n",
            }
        )
        self.patch = self.maker.git("diff", "--find-renames", self.base, fixed).decode()
        self.maker.git("checkout", "-q", "--detach", self.base)
        self.test_patch = self.maker.git("diff", self.base, self.maker.commit(TESTS)).decode()

    def create(self, directory: Path, *, patch: str) -> LoadedContract:
        row = build_row(self.base, patch, drop_modes(self.test_patch))
        instance = msgspec.convert(row, SwebenchInstance)
        create_contract_from_swebench(
            SwebenchContract(instance=instance, source=str(self.path), directory=directory, is_embedded=True)
        )
        return load_contract(directory)


def test_a_changed_file_without_a_mode_keeps_the_one_of_the_tree(tmp_path: Path) -> None:
    repository = _Moded(tmp_path / "repo")
    patch = drop_modes(repository.patch)
    assert "100755" not in patch
    loaded = repository.create(tmp_path / "contract", patch=patch)
    reference = loaded.reference or b""
    # What git itself says of the same change, but for the length of its names.
    assert [(file.path, file.old_path, file.mode) for file in read_change(reference).files] == [
        ("bin/clamp", None, "100755"),
        ("clamp/__init__.py", None, "100644"),
        ("clamp/limits.py", "clamp/bounds.py", "100644"),
        ("clamp/new.py", None, "100644"),
    ]
    assert drop_modes(reference.decode()) == patch
    repository.maker.git("checkout", "-q", "--detach", repository.base)
    repository.maker.git("apply", "--index", "-", stdin=reference)
    found = repository.maker.git("diff", "--cached", "--find-renames", repository.base).decode()
    assert found == repository.patch
    stated = repository.create(tmp_path / "stated", patch=repository.patch)
    assert stated.reference == repository.patch.encode()


def test_a_change_without_a_mode_in_the_place_of_a_link_is_refused(tmp_path: Path) -> None:
    """Git would write through the link, or change where it leads."""
    repository = _Moded(tmp_path / "repo")
    through = drop_modes(repository.patch).replace("clamp/__init__.py", "link.py")
    with raises_code("swebench-instance-invalid", match=r"expected a plain file 'link\.py'"):
        repository.create(tmp_path / "contract", patch=through)
    assert not (tmp_path / "contract").exists()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"FAIL_TO_PASS": []}, "swebench-instance-invalid", "FAIL_TO_PASS: expected test ids, found none"),
        ({"FAIL_TO_PASS": "__import__('os')"}, "swebench-instance-invalid", "expected a JSON list"),
        ({"FAIL_TO_PASS": ["test_x (tests.C)"]}, "swebench-instance-invalid", "expected ids of pytest"),
        ({"FAIL_TO_PASS": ["tests/test_clamp.py::test_a[b"]}, "swebench-instance-invalid", "one that is cut"),
        (
            {"FAIL_TO_PASS": ["tests/test_gone.py::test_a"]},
            "swebench-instance-invalid",
            "'tests/test_gone.py'",
        ),
        ({"patch": ""}, "swebench-instance-invalid", "patch: expected a patch, found nothing"),
        ({"patch": "this is no patch"}, "swebench-instance-invalid", "expected a patch that applies"),
        (
            {"test_patch": "diff --git a/../x b/../x\n"},
            "swebench-instance-invalid",
            "test_patch: expected a patch",
        ),
        ({"fix": {**FIX, **TESTS}}, "swebench-instance-invalid", "'tests/test_clamp.py' in both"),
    ],
)
def test_what_cannot_be_a_contract_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, Any], error: str, words: str
) -> None:
    with raises_code(error, match=words):
        import_one(tmp_path, **changes)
    assert not (tmp_path / "contract").exists()


def test_tests_that_are_only_deleted_are_refused(tmp_path: Path) -> None:
    ids = ["tests/test_clamp.py::test_low"]
    with raises_code("change-without-tests"):
        import_one(tmp_path, tests={}, removed=("tests/old_data.txt",), FAIL_TO_PASS=ids, PASS_TO_PASS=[])


def test_a_test_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    link = "diff --git a/tests/link.py b/tests/link.py\nnew file mode 120000\n--- /dev/null\n"
    link += "+++ b/tests/link.py\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n"
    row = make_instance(tmp_path / "other")
    with raises_code("test-file-unsupported", match=r"link\.py"):
        import_one(tmp_path, test_patch=row["test_patch"] + link)


@pytest.mark.parametrize("form", ["object", "indented", "lines", "array"])
def test_a_file_holds_instances_in_any_of_the_usual_forms(tmp_path: Path, form: str) -> None:
    row = build_row("0" * 40, "", "")
    other = {**row, "instance_id": "example__clamp-13"}
    rows = [row] if form in ("object", "indented") else [row, other]
    path = write_jsonl(tmp_path / "instances", *rows)
    if form == "indented":
        path.write_text(json.dumps(row, indent=2))
    elif form == "array":
        path.write_text(json.dumps(rows))
    assert [instance.instance_id for instance in load_swebench_instances(path)] == [
        each["instance_id"] for each in rows
    ]
    assert [each.instance_id for each in load_swebench_instances(path, ["EXAMPLE-clamp_12"])] == [INSTANCE_ID]
    with raises_code("swebench-instance-unknown"):
        load_swebench_instances(path, ["example__clamp-14"])


@pytest.mark.parametrize("text", ["", "\n", "{", "[1]", '{"instance_id": "a"}', "\xff", "null", "[" * 9999])
def test_garbage_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "garbage"
    path.write_text(text, encoding="latin-1")
    with raises_code("swebench-instance-invalid"):
        load_swebench_instances(path)


@pytest.mark.parametrize("names", [("a__b-1", "A/b 1"), ("__",)])
def test_instances_that_cannot_be_told_apart_or_named_are_refused(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    row = build_row("0" * 40, "", "")
    path = write_jsonl(tmp_path / "instances", *({**row, "instance_id": name} for name in names))
    with raises_code("swebench-instance-invalid"):
        load_swebench_instances(path)


@pytest.mark.parametrize(
    ("text", "junit_id"),
    [
        ("tests/test_a.py::test_b", "tests.test_a::test_b"),
        ("a.py::B::C::test_d[x/y.py::z[1]]", "a.B.C::test_d[x/y.py::z[1]]"),
        ("t/test.py.d/test_a.py::test_b", "t.test.py.d.test_a::test_b"),
        ("test_a.py", None),
        ("test_a.py::", None),
        ("/abs/test_a.py::test_b", None),
        ("test_b (pkg.tests.Case)", None),
        ("", None),
    ],
)
def test_a_node_id_is_read(text: str, junit_id: str | None) -> None:
    node = parse_node_id(text)
    assert (None if node is None else node.junit_id) == junit_id
