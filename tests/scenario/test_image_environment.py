"""An environment that is an image: packages laid into it, and an example that runs in one from end to end.

The image is made of this machine's own files by `examples/make_image.py`; no daemon is used.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from repotrial.environment import Store, import_image, list_store, remove_images
from repotrial.trace import Exited, ImageEnvironment
from support.command_line import call
from support.errors import raises_code
from support.examples import EXAMPLES
from support.images import ImageBuilder, file
from support.installations import Trial, open_trial, shell
from support.packages import write_wheel


def _load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_image", EXAMPLES.parent / "make_image.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not os.access("/usr/bin/ldd", os.X_OK):
        pytest.skip("no ldd, which finds the libraries that an image of this machine's programs needs")
    path = tmp_path_factory.mktemp("image") / "image.tar"
    _load_script().write_image(path)
    return path


def _write(trial: Trial, image: Path, lock: str, *, version: str = ">=3.8") -> None:
    trial.write(
        f'python = {{ lock = "requirements.lock", version = "{version}" }}\n',
        files={"requirements.lock": lock, "image.tar": image.read_bytes()},
        image='"oci:image.tar"',
    )


def _settings(index: Path) -> dict[str, str]:
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PATH": os.environ["PATH"]}


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    """One for all tests: an installer is made once for a cache."""
    with open_trial() as trial:
        yield trial


def test_packages_of_a_lock_are_laid_into_an_image(trial: Trial, image: Path) -> None:
    index = trial.place / "index"
    other = f"cp{sys.version_info[0]}{sys.version_info[1] + 7}"
    lock = write_wheel(index, "parcel", requires=("crate", 'never ; python_version < "3.0"'))
    lock += write_wheel(index, "crate")
    # For another system only: the marker is that of the image's interpreter, not of ours.
    lock += write_wheel(index, "elsewhere", tag=f"{other}-{other}-win_amd64").replace(
        " --hash", ' ; sys_platform == "win32" --hash'
    )
    _write(trial, image, lock)
    with trial.open(variables=_settings(index)) as installation:
        assert isinstance(installation.facts.environment, ImageEnvironment)
        script = "parcel && crate && python -c 'import parcel; print(parcel.__file__, parcel.__cached__)'"
        result = shell(installation, f"{script}; ls /usr/bin/pip 2>&1; echo $PATH")
    assert result.exit == Exited(code=0), result.stderr.prefix
    lines = result.stdout.prefix.decode().splitlines()
    assert lines[:2] == ["parcel 1.0 runs", "crate 1.0 runs"]
    source, cached = lines[2].split()
    assert source.startswith("/opt/repotrial/python/lib/python3.")
    assert "/__pycache__/parcel.cpython-3" in cached
    assert lines[-1] == "/opt/repotrial/python/bin:/usr/bin"
    assert list(trial.cache.glob("store/python/*/tree/lib/python*/site-packages/__pycache__/parcel.*.pyc"))
    assert trial.list_leftovers() == []


def test_second_use_of_packages_in_an_image_needs_no_index(trial: Trial, image: Path) -> None:
    index = trial.place / "index"
    _write(trial, image, write_wheel(index, "parcel"))
    trial.open(variables=_settings(index)).close()
    before = len(list_store(Store(trial.cache / "store")))
    with trial.open(variables={"PIP_NO_INDEX": "1", "PATH": os.environ["PATH"]}) as installation:
        assert shell(installation, "parcel").stdout.prefix == b"parcel 1.0 runs\n"
    assert len(list_store(Store(trial.cache / "store"))) == before


def test_wheel_for_another_interpreter_does_not_get_into_an_image(trial: Trial, image: Path) -> None:
    index = trial.place / "index"
    _write(trial, image, write_wheel(index, "foreign", tag="cp38-cp38-win_amd64"))
    with raises_code("package-platform"):
        trial.open(variables=_settings(index))
    assert trial.list_leftovers() == []


def test_incomplete_lock_for_an_image_is_refused_by_what_is_missing(trial: Trial, image: Path) -> None:
    index = trial.place / "index"
    _write(trial, image, write_wheel(index, "parcel", requires=("crate",)))
    with raises_code("package-lock-invalid", match="crate"):
        trial.open(variables=_settings(index))


def test_interpreter_of_another_version_in_an_image_is_refused(trial: Trial, image: Path) -> None:
    index = trial.place / "index"
    _write(trial, image, write_wheel(index, "parcel"), version=">=4.0")
    with raises_code("image-packages", match=r"expected >=4\.0, found 3\."):
        trial.open(variables=_settings(index))


def test_image_in_the_store_is_named_by_its_digest_and_its_absence_says_how_to_get_it(
    trial: Trial, image: Path
) -> None:
    kept = import_image(str(image), store=Store(trial.cache / "store"))
    trial.write(image=f'"{kept.reference}"')
    with trial.open() as installation:
        assert shell(installation, "cat readme").stdout.prefix == b"hello\n"
        with raises_code("image-in-use"):
            remove_images([kept.digest], store=Store(trial.cache / "store"))
    remove_images([kept.digest], store=Store(trial.cache / "store"))
    with raises_code("image-not-stored") as raised:
        trial.open()
    assert "repotrial image import" in raised.value.hint


def test_interpreter_that_lies_about_itself_builds_nothing(trial: Trial) -> None:
    """A program called python3 that prints what it likes: no tag, no path, no byte code comes of it."""
    busybox = Path("/usr/bin/busybox")
    if not busybox.is_file():
        pytest.skip("no static shell (busybox) for an image of its own")
    builder = ImageBuilder()
    builder.run["Env"] = ["PATH=/bin"]
    builder.add_layer(
        file("bin/sh", busybox.read_bytes(), mode=0o755),
        file("bin/python3", b'#!/bin/sh\necho \'{"path": "/etc"}\'\n', mode=0o755),
    ).write_archive(trial.place / "image.tar")
    _write(trial, trial.place / "image.tar", write_wheel(trial.place / "index", "parcel"))
    with raises_code("image-packages", match="describes itself"):
        trial.open(variables=_settings(trial.place / "index"))


def test_example_in_an_image_runs_from_end_to_end(
    trial: Trial, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = trial.place / "textkit"
    _load_script().write_contract(directory, image)
    runs = trial.place / "runs"
    assert call(capsys, "contract", "lock", directory).status == 0
    options = ("--runs", runs, "--cache", trial.cache)
    # As a user waits for it: the packages come from the index that this machine has.
    ended = call(capsys, "run", "start", directory, "--agent", "reference", "--agent", "noop", *options)
    if "package-index-unreachable" in ended.err:
        pytest.skip("no package index on this machine, and the example's packages are not kept yet")
    listed = json.loads(call(capsys, "run", "list", runs, "--json").out)
    assert {entry["agent"]: entry["status"] for entry in listed} == {
        "reference": "success",
        "noop": "failure",
    }, ended
