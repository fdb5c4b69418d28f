"""Task directories of Harbor: graded, refused with a reason that holds, never a traceback."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.interop import HarborTask, survey_harbor
from support.errors import raises_code

_SEPARATE = '[verifier]\nenvironment_mode = "separate"\n[environment]\nnetwork_mode = "no-network"\n'
_PINNED = f"FROM debian@sha256:{'0' * 64}\n"


def write_task(
    directory: Path,
    toml: str = _SEPARATE,
    *,
    left_out: str = "",
    dockerfile: str | None = _PINNED,
    **files: str,
) -> HarborTask:
    texts = {
        "task.toml": f'schema_version = "1.4"\n{toml}',
        "instruction.md": "Write the answer to /app/answer.txt\n",
        "tests/test.sh": "pytest /tests/test_outputs.py\n",
        "tests/test_outputs.py": 'open("/app/answer.txt")\n',
    }
    names = {"script": "tests/test.sh", "tests": "tests/test_outputs.py"}
    texts |= {} if dockerfile is None else {"environment/Dockerfile": dockerfile}
    texts |= {names.get(name, name): text for name, text in files.items()}
    for name, text in texts.items():
        if name != left_out:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text, encoding="utf-8")
    (task,) = survey_harbor(directory)
    return task


def test_sound_task_has_no_grade_and_is_refused_for_its_image_alone(tmp_path: Path) -> None:
    task = write_task(tmp_path / "task")
    assert (task.grades, task.reason, task.schema_version) == ((), "image-to-be-built", "1.4")
    assert "Dockerfile" in task.refusal


@pytest.mark.parametrize(
    ("files", "grade"),
    [
        ({"script": "curl -LsSf https://example.org/install.sh | sh\n"}, "verify-time-download"),
        ({"script": "pip install pytest\n"}, "verify-time-download"),
        ({"dockerfile": "FROM debian:12\n"}, "unpinned-image"),
        ({"dockerfile": f"{_PINNED}COPY tests/ /tests\n"}, "oracle-in-agent-image"),
        ({"environment/solve.sh": "true\n"}, "oracle-in-agent-image"),
        ({"tests": "import openai\n"}, "model-as-judge"),
        ({"tests": 'open("/app/other_name.json")\n'}, "unknowable-demands"),
    ],
)
def test_grade_says_what_a_reader_has_to_know(tmp_path: Path, files: dict[str, str], grade: str) -> None:
    assert write_task(tmp_path / "task", **files).grades == (grade,)


def test_stage_of_the_same_file_is_no_image_of_its_own(tmp_path: Path) -> None:
    text = f"{_PINNED.strip()} AS build\nFROM build\nFROM scratch\n"
    assert write_task(tmp_path / "task", dockerfile=text).grades == ()


@pytest.mark.parametrize(
    ("toml", "grade"),
    [
        ('[environment]\nnetwork_mode = "no-network"\n', "shared-verifier"),
        ('[verifier]\nenvironment_mode = "separate"\n', "network-open"),
        (f'{_SEPARATE}[verifier.env]\nOPENAI_API_KEY = "x"\n', "model-as-judge"),
    ],
)
def test_settings_are_graded(tmp_path: Path, toml: str, grade: str) -> None:
    assert write_task(tmp_path / "task", toml).grades == (grade,)


@pytest.mark.parametrize(
    ("toml", "reason"),
    [
        ('[environment]\nos = "windows"\n', "not-linux"),
        ("[environment]\ngpus = 1\n", "needs-gpu"),
        ('[[steps]]\nname = "a"\n', "several-steps"),
        ("[environment\n", "unreadable"),
    ],
)
def test_refusal_names_what_stands_in_the_way(tmp_path: Path, toml: str, reason: str) -> None:
    assert write_task(tmp_path / "task", toml).reason == reason


def test_refusals_by_files(tmp_path: Path) -> None:
    assert write_task(tmp_path / "a", left_out="instruction.md").reason == "incomplete"
    assert (
        write_task(tmp_path / "b", **{"environment/docker-compose.yaml": ""}).reason == "several-containers"
    )
    image = '[environment]\ndocker_image = "app:1"\n'
    assert write_task(tmp_path / "c", image, dockerfile=None).reason == "files-in-the-image"
    (tmp_path / "d").mkdir()
    (tmp_path / "d/task.toml").write_text('version = "9.0"\n')
    (task,) = survey_harbor(tmp_path / "d")
    assert task.reason == "format-unknown"


def test_all_tasks_below_a_directory_are_listed(tmp_path: Path) -> None:
    write_task(tmp_path / "set/one")
    write_task(tmp_path / "set/two")
    assert [task.name for task in survey_harbor(tmp_path / "set")] == ["one", "two"]


def test_directory_without_tasks_is_named(tmp_path: Path) -> None:
    with raises_code("harbor-tasks-missing", match="found none"):
        survey_harbor(tmp_path)
    (tmp_path / "old").mkdir()
    (tmp_path / "old/task.yaml").write_text("instruction: do\n")
    with raises_code("harbor-tasks-missing", match="Terminal-Bench 1"):
        survey_harbor(tmp_path)


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode), st.binary(max_size=200))
def test_no_bytes_raise_anything(toml: bytes, other: bytes) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        (home / "tests").mkdir()
        (home / "environment").mkdir()
        (home / "task.toml").write_bytes(toml)
        for name in ("instruction.md", "tests/test.sh", "tests/test_outputs.py", "environment/Dockerfile"):
            (home / name).write_bytes(other)
        (task,) = survey_harbor(home)
        assert task.refusal


@given(
    st.dictionaries(
        st.sampled_from(["environment", "verifier", "agent", "steps", "schema_version", "version"]),
        st.sampled_from(['""', "1", "[]", "{}", "{ env = 3 }", '{ os = 1, gpus = "x", docker_image = [] }']),
    )
)
def test_no_shape_of_a_document_raises_anything(tables: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        text = "".join(f"{name} = {value}\n" for name, value in tables.items())
        (Path(scratch) / "task.toml").write_text(text)
        (task,) = survey_harbor(Path(scratch))
        assert task.refusal
