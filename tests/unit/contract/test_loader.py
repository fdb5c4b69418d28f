from __future__ import annotations

import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from repotrial.contract import check_directory, load_contract
from support.contracts import (
    COMMIT,
    DIGEST,
    FIXTURE_NAMES,
    FIXTURES,
    MINIMAL,
    codes_of,
    copy_fixture,
    problems_of,
    write_contract,
)
from support.errors import raises_code

CHECKS = MINIMAL.index("[[checks]]")
HEAD = MINIMAL[:CHECKS]
ENVIRONMENT = MINIMAL.index("[environment]")


def with_check(lines: str) -> str:
    return MINIMAL + lines


def with_environment(lines: str) -> str:
    return MINIMAL.replace('image = "host"\n', f'image = "host"\n{lines}\n')


def with_repository(lines: str) -> str:
    return MINIMAL.replace("[environment]", f"{lines}\n\n[environment]")


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_a_real_contract_loads_without_a_problem(name: str) -> None:
    loaded, problems = check_directory(FIXTURES / name)
    assert problems == []
    assert loaded is not None
    assert loaded.contract.id == name
    assert loaded.statement.startswith("# ")
    assert loaded.inventories
    assert [pin.path for pin in loaded.files] == sorted({pin.path for pin in loaded.files})


def test_the_loaded_contract_has_everything_that_the_directory_says() -> None:
    loaded = load_contract(FIXTURES / "django-booking-overlap")
    assert loaded.reference is not None
    assert loaded.reference.startswith(b"--- a/bookings")
    assert set(loaded.inventories) == {"unit", "concurrency"}
    assert loaded.contract.limits.cost_usd == Decimal("6.50")
    assert loaded.lock is None
    assert {pin.path: pin.is_executable for pin in loaded.files} == {
        "checks/integration.json": False,
        "checks/integration/test_concurrent_requests.py": False,
        "checks/unit.json": False,
        "checks/unit/test_overlap_rules.py": False,
        "environment/requirements.lock": False,
        "environment/trial_settings.py": False,
        "setup/static.sh": True,
    }
    text = (FIXTURES / "django-booking-overlap" / "contract.toml").read_text().splitlines()
    line = loaded.locate("environment.services[0].readiness.timeout_seconds")
    assert line is not None
    assert text[line - 1].startswith("readiness = ")


def test_the_statement_and_the_repository_are_not_pinned() -> None:
    loaded = load_contract(FIXTURES / "autotools-c-ring")
    paths = {pin.path for pin in loaded.files}
    assert paths == {"checks/suite.json", "checks/tests/order.c", "checks/tests/wrap.c", "setup/configure.sh"}


def test_loading_needs_no_second_parser(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from repotrial.contract import load_contract;"
        "loaded = load_contract(Path(sys.argv[1]));"
        "assert not any(name.startswith('tree_sitter') for name in sys.modules);"
        "assert loaded.locate('checks[0]'); assert 'tree_sitter' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(write_contract(tmp_path))], check=True)


def test_the_error_counts_the_problems_and_shows_the_first(tmp_path: Path) -> None:
    text = MINIMAL.replace('"bug-fix"', '"bug"') + "".join(f"key{number} = 1\n" for number in range(9))
    with raises_code("contract-invalid") as caught:
        load_contract(write_contract(tmp_path, text))
    assert caught.value.code == "contract-invalid"
    assert len(caught.value.details) == 10
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{tmp_path}: expected a sound contract, found 10 problems:"
    assert lines[1].startswith("  contract.toml:4: kind: expected ")
    assert lines[-1] == "  … and 5 more"


def test_problems_of_all_files_come_together_in_the_order_of_the_lines(tmp_path: Path) -> None:
    text = HEAD.replace('"minimal"', '"Not An Id"') + (
        '[[checks]]\nid = "unit"\ngate = "acceptance"\nrun = "x"\ninventory = "unit.json"\nneeds = ["gone"]\n'
        '[[checks]]\nid = "unit"\ngate = "acceptance"\nfiles = [{ from = "missing", to = "tests" }]\n'
    )
    problems = problems_of(
        tmp_path,
        text,
        files={
            "unit.json": '{"fail_to_pass": ["a", "a"], "x": 1}',
            "statement.md": "",
            "contract.lock.json": "{",
        },
    )
    assert [(problem.file, problem.line, problem.code) for problem in problems] == [
        ("contract.toml", 2, "value-invalid"),
        ("contract.toml", 19, "id-unknown"),
        ("contract.toml", 20, "check-without-command"),
        ("contract.toml", 21, "id-duplicate"),
        ("contract.toml", 23, "file-missing"),
        ("contract.lock.json", 1, "json-syntax"),
        ("statement.md", None, "file-empty"),
        ("unit.json", None, "key-unknown"),
    ]


RULES: dict[str, tuple[str, str, str]] = {
    "a repeated check id": (
        with_check('[[checks]]\nid = "unit"\ngate = "build"\nrun = "x"\n'),
        "id-duplicate",
        "checks[1].id",
    ),
    "a repeated setup id": (
        with_check('[[setup]]\nid = "s"\nrun = "x"\n[[setup]]\nid = "s"\nrun = "y"\n'),
        "id-duplicate",
        "setup[1].id",
    ),
    "a repeated artifact id": (
        with_environment(
            "artifacts = ["
            f'{{ id = "a", source = "https://example.org/a", digest = "{DIGEST}", target = "/a" }},'
            f'{{ id = "a", source = "https://example.org/b", digest = "{DIGEST}", target = "/b" }}]'
        ),
        "id-duplicate",
        "environment.artifacts[1].id",
    ),
    "a need that names nothing": (with_check('needs = ["gone"]\n'), "id-unknown", "checks[0].needs[0]"),
    "a service that names nothing": (
        with_check('services = ["db"]\n'),
        "id-unknown",
        "checks[0].services[0]",
    ),
    "an invariant that names nothing": (
        with_check('[policy]\ninvariants = ["gone"]\n'),
        "id-unknown",
        "policy.invariants[0]",
    ),
    "a maintainability check that names nothing": (
        with_check('[scoring]\nmaintainability = ["gone"]\n'),
        "id-unknown",
        "scoring.maintainability[0]",
    ),
    "a need of itself": (with_check('needs = ["unit"]\n'), "needs-cycle", "checks[0].needs[0]"),
    "a need of a later check": (
        with_check('needs = ["b"]\n[[checks]]\nid = "b"\ngate = "build"\nrun = "x"\n'),
        "needs-order",
        "checks[0].needs[0]",
    ),
    "needs in a circle": (
        with_check('needs = ["b"]\n[[checks]]\nid = "b"\ngate = "build"\nrun = "x"\nneeds = ["unit"]\n'),
        "needs-cycle",
        "checks[0].needs[0]",
    ),
    "no command": (MINIMAL.replace('run = "make check"\n', ""), "check-without-command", "checks[0].run"),
    "results without a command": (
        MINIMAL.replace('run = "make check"', 'results = [{ format = "tap" }]\nrunners = [{ run = "x" }]'),
        "run-missing",
        "checks[0].results",
    ),
    "a directory without a command": (
        MINIMAL.replace('run = "make check"', 'cwd = "sub"\nrunners = [{ run = "x" }]'),
        "run-missing",
        "checks[0].cwd",
    ),
    "passes without the rule": (
        with_check("passes_required = 1\n"),
        "repeats-inconsistent",
        "checks[0].passes_required",
    ),
    "the rule without passes": (
        with_check('rule = "passes-required"\n'),
        "repeats-inconsistent",
        "checks[0].passes_required",
    ),
    "more passes than repeats": (
        with_check('rule = "passes-required"\npasses_required = 3\nrepeats = 2\n'),
        "repeats-inconsistent",
        "checks[0].passes_required",
    ),
    "a floor above the ceiling": (
        with_check("[limits]\nmemory_mb = { request = 2, kill = 1 }\n"),
        "band-reversed",
        "limits.memory_mb",
    ),
    "a negative amount": (with_check("[limits]\ncost_usd = -0.01\n"), "negative-amount", "limits.cost_usd"),
    "a weight above one": (
        with_check("[scoring]\nweights = { minimal = 1.1, trace = 0, maintainable = 0 }\n"),
        "weight-out-of-range",
        "scoring.weights.minimal",
    ),
    "a negative decay": (with_check("[scoring]\nlambda = -1\n"), "weight-out-of-range", "scoring.lambda"),
    "tools beside an image": (
        MINIMAL.replace(
            'image = "host"', 'image = { kind = "reference", reference = "a" }\ntools = { git = ">=2" }'
        ),
        "tools-without-host",
        "environment.tools",
    ),
    "a variable both set and absent": (
        with_environment('variables = { A = "1" }\nabsent = ["A"]'),
        "variable-contradiction",
        "environment.variables.A",
    ),
    "a check's variable that must be absent": (
        with_environment('absent = ["A"]') + 'variables = { A = "1" }\n',
        "variable-contradiction",
        "checks[0].variables.A",
    ),
    "a variable that is a secret": (
        with_environment('variables = { A = "1" }\nsecrets = [{ name = "A", reason = "r" }]'),
        "variable-contradiction",
        "environment.variables.A",
    ),
    "a secret that is absent": (
        with_environment('absent = ["A"]\nsecrets = [{ name = "A", reason = "r" }]'),
        "variable-contradiction",
        "environment.secrets[0].name",
    ),
    "a host mount without its source": (
        with_environment('mounts = [{ target = "/m", kind = "host-read-only" }]'),
        "mount-inconsistent",
        "environment.mounts[0].source",
    ),
    "a host mount that climbs": (
        with_environment('mounts = [{ target = "/m", kind = "host-read-only", source = "/srv/../etc" }]'),
        "mount-inconsistent",
        "environment.mounts[0].source",
    ),
    "scratch space with a source": (
        with_environment('mounts = [{ target = "/m", kind = "tmpfs", source = "/srv" }]'),
        "mount-inconsistent",
        "environment.mounts[0].source",
    ),
    "a cache with a size": (
        with_environment('mounts = [{ target = "/m", kind = "cache", size_mb = 5 }]'),
        "mount-inconsistent",
        "environment.mounts[0].size_mb",
    ),
    "two mounts on one place": (
        with_environment('mounts = [{ target = "/m", kind = "cache" }, { target = "/m/", kind = "tmpfs" }]'),
        "target-duplicate",
        "environment.mounts[1].target",
    ),
    "an unknown protocol": (
        with_repository('protocols = ["ext"]'),
        "protocol-unknown",
        "repository.protocols[0]",
    ),
    "a source of a forbidden protocol": (
        MINIMAL.replace('"repo.bundle"', '"ext::sh -c true"'),
        "protocol-unknown",
        "repository.source",
    ),
    "a source that looks like an option": (
        MINIMAL.replace('"repo.bundle"', '"--upload-pack=touch x"'),
        "source-unsafe",
        "repository.source",
    ),
    "a submodule's source that looks like an option": (
        with_repository(f'submodules = [{{ path = "s", commit = "{COMMIT}", source = "-x" }}]'),
        "source-unsafe",
        "repository.submodules[0].source",
    ),
    "an artifact out of the file system": (
        with_environment(
            f'artifacts = [{{ id = "a", source = "file:///etc/passwd", digest = "{DIGEST}", target = "/a" }}]'
        ),
        "source-unsafe",
        "environment.artifacts[0].source",
    ),
    "an artifact with other bytes": (
        with_environment(
            f'artifacts = [{{ id = "a", source = "statement.md", digest = "{DIGEST}", target = "/a" }}]'
        ),
        "artifact-digest",
        "environment.artifacts[0].digest",
    ),
    "a service that sleeps while checks run": (
        with_environment(
            'services = [{ id = "db", run = "x", phases = ["act"], '
            'readiness = { kind = "port", port = 5432 } }]'
        )
        + 'services = ["db"]\n',
        "service-phase",
        "checks[0].services[0]",
    ),
    "the statement among the oracle's files": (
        MINIMAL.replace('kind = "bug-fix"', 'kind = "bug-fix"\nstatement = "oracle/a.c"')
        + 'files = [{ from = "oracle", to = "tests" }]\n',
        "oracle-shared",
        "checks[0].files[0].from",
    ),
    "two overlays on one file": (
        with_check('files = [{ from = "oracle/a.c", to = "t/a.c" }, { from = "oracle", to = "t" }]\n'),
        "overlay-collision",
        "checks[0].files[1].to",
    ),
    "an overlay below a file": (
        with_check('files = [{ from = "oracle/a.c", to = "t" }, { from = "oracle", to = "t" }]\n'),
        "overlay-collision",
        "checks[0].files[1].to",
    ),
    "an overlay of an empty directory": (
        with_check('files = [{ from = "empty", to = "tests" }]\n'),
        "file-empty",
        "checks[0].files[0].from",
    ),
    "the contract as its own oracle": (
        with_check('files = [{ from = "contract.toml", to = "t" }]\n'),
        "file-reserved",
        "checks[0].files[0].from",
    ),
    "a directory where a file must be": (
        with_check('inventory = "oracle"\n'),
        "file-wrong-kind",
        "checks[0].inventory",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_contradiction_is_named_with_its_place(tmp_path: Path, rule: str) -> None:
    text, code, field = RULES[rule]
    (tmp_path / "empty").mkdir()
    problems = problems_of(tmp_path, text, files={"oracle/a.c": "int a;\n", "oracle/b.c": "int b;\n"})
    assert (code, field) in codes_of(problems)
    assert {problem.code for problem in problems} == {code}
    assert all(problem.severity == "error" and problem.line for problem in problems)


def test_the_whole_directory_is_no_oracle(tmp_path: Path) -> None:
    text = with_check('files = [{ from = ".", to = "t" }]\n')
    assert codes_of(problems_of(tmp_path, text)) == [
        ("file-wrong-kind", "checks[0].files[0].from"),
        ("oracle-shared", "checks[0].files[0].from"),
    ]


def test_a_circle_is_written_out(tmp_path: Path) -> None:
    text = with_check('needs = ["b"]\n[[checks]]\nid = "b"\ngate = "build"\nrun = "x"\nneeds = ["unit"]\n')
    (problem,) = problems_of(tmp_path, text)
    assert problem.message.endswith("found unit → b → unit")


def test_rules_speak_about_the_sound_parts_of_an_unsound_contract(tmp_path: Path) -> None:
    text = with_check(
        'services = ["db"]\nneeds = ["unit"]\n[limits]\ncost_usd = -1\n'
        '[policy]\ninvariants = ["unit", "gone"]\n'
    ).replace('kind = "bug-fix"', 'kind = "unheard-of"')
    assert codes_of(problems_of(tmp_path, text)) == [
        ("choice-unknown", "kind"),
        ("id-unknown", "checks[0].services[0]"),
        ("needs-cycle", "checks[0].needs[0]"),
        ("negative-amount", "limits.cost_usd"),
        ("id-unknown", "policy.invariants[1]"),
    ]


def test_two_directories_may_be_laid_over_one_place(tmp_path: Path) -> None:
    text = with_check('files = [{ from = "one", to = "t" }, { from = "two", to = "t" }]\n')
    assert problems_of(tmp_path, text, files={"one/a.c": "", "two/b.c": ""}) == []


def test_hints_about_an_inventory_are_in_its_language(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, with_check('inventory = "unit.json"\n'), files={"unit.json": b"{}"})
    assert problem.hint == 'add "fail_to_pass": […]'


@pytest.mark.parametrize(
    ("inventory", "code", "field"),
    [
        ('{"fail_to_pass": ["a", "a"]}', "inventory-id", "fail_to_pass[1]"),
        ('{"fail_to_pass": ["a"], "pass_to_pass": ["a"]}', "inventory-contradiction", "pass_to_pass[0]"),
        ('{"fail_to_pass": [" "]}', "inventory-id", "fail_to_pass[0]"),
        ('{"fail_to_pass": [5]}', "value-invalid", "fail_to_pass[0]"),
        ('{"failtopass": []}', "key-unknown", "failtopass"),
        ("[]", "value-invalid", ""),
        ("{", "json-syntax", ""),
        ('{"fail_to_pass": [], "fail_to_pass": ["a"]}', "json-syntax", ""),
        ("\xff", "file-not-utf8", ""),
    ],
)
def test_an_unsound_inventory_is_named(tmp_path: Path, inventory: str, code: str, field: str) -> None:
    text = with_check('inventory = "unit.json"\n')
    problems = problems_of(tmp_path, text, files={"unit.json": inventory.encode("latin-1")})
    assert problems[0].file == "unit.json"
    assert (problems[0].code, problems[0].field) == (code, field)


@pytest.mark.parametrize(
    ("schema", "code", "words"),
    [
        (
            "repotrial/contract@3",
            "schema-unknown",
            "this version reads repotrial/contract@1 and repotrial/contract@2 only",
        ),
        ("repotrial/contract@3.1", "schema-unknown", "this version reads"),
        ("repotrial/lock@1", "schema-unknown", "this version reads"),
        ("repotrial/contract", "value-invalid", 'expected "repotrial/contract@2"'),
        ("1", "value-invalid", 'expected "repotrial/contract@2"'),
    ],
)
def test_another_major_is_refused_with_an_explanation(
    tmp_path: Path, schema: str, code: str, words: str
) -> None:
    text = MINIMAL.replace("repotrial/contract@1", schema) + "unknown = 1\n"
    problems = problems_of(tmp_path, text)
    assert (problems[0].code, problems[0].field, problems[0].line) == (code, "schema", 1)
    assert words in problems[0].message
    assert len(problems) == (1 if code == "schema-unknown" else 2)


def test_a_newer_minor_is_read_but_its_new_keys_are_not_ignored(tmp_path: Path) -> None:
    text = MINIMAL.replace("contract@1", "contract@1.7")
    assert problems_of(tmp_path, text) == []
    (problem,) = problems_of(tmp_path, text + "novelty = 1\n")
    assert problem.code == "key-unknown"
    assert "written for repotrial/contract@1.7; a newer RepoTrial may know this key" in problem.hint


SECOND = MINIMAL.replace("contract@1", "contract@2")
NO_BUILD = '[scoring]\nbuild_gate = "none: nothing is built"\n'


def test_the_second_version_refuses_a_build_gate_that_is_not_spoken_of(tmp_path: Path) -> None:
    """S2: where the first version is read with a warning, the second is refused."""
    (problem,) = problems_of(tmp_path, SECOND)
    assert (problem.code, problem.severity, problem.field) == ("build-gate-unsaid", "error", "checks")
    assert 'the line build_gate = "none: why"' in problem.hint
    assert problems_of(tmp_path / "said", SECOND + NO_BUILD) == []
    assert problems_of(tmp_path / "first", MINIMAL) == []
    build = '[[checks]]\nid = "types"\ngate = "build"\nrun = "make types"\n'
    assert problems_of(tmp_path / "built", SECOND + build) == []
    (both,) = problems_of(tmp_path / "both", SECOND + build + NO_BUILD)
    assert both.field == "scoring.build_gate"


@pytest.mark.parametrize(
    ("field", "environment", "policy"),
    [
        ("policy.test_tools", "", 'stages = "single"\ntest_tools = ["/usr/bin/pytest"]'),
        ("policy.dependencies.manifests", "", 'dependencies = { rule = "free", manifests = ["setup.cfg"] }'),
        ("environment.isolation", 'isolation = "L1"', ""),
        (
            "environment.services[0].image",
            'services = [{ id = "db", run = "db", image = { kind = "reference", reference = "db@sha256:'
            + "0" * 64
            + '" }, readiness = { kind = "port", port = 5432 } }]',
            "",
        ),
    ],
)
def test_the_second_version_refuses_a_key_that_nothing_enforces(
    tmp_path: Path, field: str, environment: str, policy: str
) -> None:
    """C7: named with its line and what to do; the first version is read."""
    text = SECOND.replace('image = "host"\n', f'image = "host"\n{environment}\n')
    text += f"{NO_BUILD}[policy]\n{policy}\n"
    (problem,) = problems_of(tmp_path, text)
    assert (problem.code, problem.field) == ("key-not-enforced", field)
    assert problem.hint
    assert problems_of(tmp_path / "first", text.replace("contract@2", "contract@1")) == []


def test_broken_syntax_does_not_hide_missing_files(tmp_path: Path) -> None:
    directory = write_contract(tmp_path, MINIMAL + "oops\n", files={"contract.lock.json": "[]"})
    (directory / "statement.md").unlink()
    _, problems = check_directory(directory)
    assert [(problem.file, problem.code) for problem in problems] == [
        ("contract.toml", "toml-syntax"),
        ("contract.lock.json", "value-invalid"),
        ("statement.md", "file-missing"),
    ]


def test_a_missing_file_is_compared_with_its_neighbors(tmp_path: Path) -> None:
    text = with_check('inventory = "checks/unit.jsn"\n')
    (problem,) = problems_of(tmp_path, text, files={"checks/unit.json": '{"fail_to_pass": ["a"]}'})
    assert problem.message == 'expected "checks/unit.jsn", found nothing there'
    assert problem.hint == 'did you mean "checks/unit.json"?'


def test_a_recording_may_still_have_to_be_made(tmp_path: Path) -> None:
    policy = '[policy]\nnetwork = { kind = "allow-list", hosts = ["example.org"], recording = "r.json" }\n'
    assert problems_of(tmp_path, with_check(policy)) == []
    replay = '[policy]\nnetwork = { kind = "replay", recording = "r.json" }\n'
    assert codes_of(problems_of(tmp_path, with_check(replay))) == [
        ("file-missing", "policy.network.recording")
    ]


def test_an_artifact_beside_the_contract_needs_its_digest(tmp_path: Path) -> None:
    text = with_environment(
        'artifacts = [{ id = "a", source = "data.bin", target = "/a", '
        'digest = "sha256:3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7" }]'
    )
    assert problems_of(tmp_path, text, files={"data.bin": "data"}) == []


@pytest.mark.parametrize("name", ["nothing", "file"])
def test_a_directory_that_is_none_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    loaded, (problem,) = check_directory(tmp_path / name)
    assert loaded is None
    assert "expected a contract directory" in problem.message
    assert problem.hint


def test_a_directory_reached_through_a_link_is_fine(tmp_path: Path) -> None:
    write_contract(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    assert load_contract(tmp_path / "link").contract.id == "minimal"


def test_an_empty_directory_lacks_its_contract(tmp_path: Path) -> None:
    _, (problem,) = check_directory(tmp_path)
    assert (problem.code, problem.file) == ("file-missing", "contract.toml")


@pytest.mark.parametrize("name", ["contract.toml", "statement.md", "contract.lock.json"])
def test_a_file_without_permission_is_named(tmp_path: Path, name: str) -> None:
    directory = write_contract(tmp_path, files={"contract.lock.json": "{}"})
    (directory / name).chmod(0)
    if os.access(directory / name, os.R_OK):
        pytest.skip("this user may read everything")
    _, problems = check_directory(directory)
    assert any(problem.code == "file-unreadable" and name in str(problem) for problem in problems)


def test_a_problem_in_the_lock_says_how_to_make_a_new_one(tmp_path: Path) -> None:
    directory = copy_fixture("autotools-c-ring", tmp_path)
    (directory / "contract.lock.json").write_text('{"schema": "repotrial/lock@7"}')
    loaded, (problem,) = check_directory(directory)
    assert loaded is None
    assert (problem.file, problem.code) == ("contract.lock.json", "schema-unknown")
    assert "repotrial contract lock" in problem.hint


PINNED = f"example/app@{DIGEST}"


@pytest.mark.parametrize(
    ("word", "table"),
    [
        ("oci:image.tar", '{ kind = "archive", path = "image.tar" }'),
        ("oci-archive:image.tar", '{ kind = "archive", path = "image.tar" }'),
        ("docker-archive:image.tar", '{ kind = "docker-archive", path = "image.tar" }'),
        (PINNED, f'{{ kind = "reference", reference = "{PINNED}" }}'),
    ],
)
def test_an_image_in_one_word_is_the_same_contract(tmp_path: Path, word: str, table: str) -> None:
    files = {"image.tar": b"any bytes"}
    for name, image in (("word", f'"{word}"'), ("table", table)):
        write_contract(tmp_path / name, MINIMAL.replace('"host"', image), files=files)
    assert load_contract(tmp_path / "word").contract == load_contract(tmp_path / "table").contract
    assert load_contract(tmp_path / "word").files == load_contract(tmp_path / "table").files


def test_an_image_of_a_service_in_one_word_is_read(tmp_path: Path) -> None:
    service = f"""
[[environment.services]]
id = "base"
run = "serve"
image = "{PINNED}"
readiness = {{ kind = "port", port = 80 }}
"""
    loaded = load_contract(write_contract(tmp_path, MINIMAL + service))
    assert [image.reference for _, image in loaded.contract.environment.iter_image_references()] == [PINNED]


@pytest.mark.parametrize("word", ["oci:../image.tar", "oci:/image.tar", "docker-archive:"])
def test_an_image_in_one_word_that_leads_out_of_the_contract_is_refused(tmp_path: Path, word: str) -> None:
    (problem,) = problems_of(tmp_path, MINIMAL.replace('"host"', f'"{word}"'))
    assert problem.field == "environment.image.path"
    assert problem.line is not None


def test_an_image_file_that_is_not_there_is_named_with_its_line(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, MINIMAL.replace('"host"', '"oci:image.tar"'))
    assert "image.tar" in problem.message


def test_a_word_that_is_no_image_is_refused_and_a_tag_is_a_reference_without_a_pin(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path / "word", MINIMAL.replace('"host"', '"machine"'))
    assert problem.field == "environment.image"
    loaded = load_contract(write_contract(tmp_path / "tag", MINIMAL.replace('"host"', '"python:3.12"')))
    ((_, image),) = loaded.contract.environment.iter_image_references()
    assert not image.is_pinned
