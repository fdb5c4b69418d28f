"""`environment.python` inside an image: wheels that fit the image's interpreter, laid out by the host's pip.

- The image's interpreter is asked in a sandbox, without a network, what it is. Nothing else of it runs.
- pip of this machine chooses, verifies and unpacks the wheels for that interpreter (`--platform`, `--abi`,
  `--python-version`): no code of a package runs, and nothing inside ever reaches an index.
- Markers of the lock and of the packages are evaluated with what the image's interpreter says of itself.
- The image's interpreter compiles the packages in a sandbox, into a directory of its own; from there plain
  files of the expected names are taken, and nothing else.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from repotrial._core.beneath import open_beneath
from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.remove_tree import remove_tree
from repotrial.contract import PythonEnvironment
from repotrial.environment._packages import (
    PACKAGE_LOCK_INVALID,
    parse_requirements,
    read_log,
    render_requirements,
    verify_built,
)
from repotrial.environment._process import execute_program
from repotrial.environment._python_env import (
    PIP_SYMPTOMS,
    PYTHON_TARGET,
    REQUIREMENTS,
    PythonBuilder,
    PythonPackages,
)
from repotrial.environment._python_tree import relocate_tree
from repotrial.environment._store import Facts, StoreKind
from repotrial.environment._tools import meets
from repotrial.isolation import CommandResult
from repotrial.trace import Exited

_LAYOUT = "repotrial/image-python-tree@1"
_MARKERS = Path(__file__).with_name("_markers_child.py")
_OLDEST_GLIBC = {"x86_64": 5, "i686": 5}
_OLDEST_GLIBC_ELSEWHERE = 17
_NAMED_GLIBC = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
_SCHEME_PREFIX = "../../"
_MAX_COMPILED_BYTES = 64 * 1024**2

_ASK = """\
import glob, json, os, platform, sys, sysconfig
version = ".".join(map(str, sys.implementation.version[:3]))
print(json.dumps({
    "path": os.path.realpath(sys.executable), "abi": sysconfig.get_config_var("SOABI") or "",
    "machine": platform.machine(), "libc": list(platform.libc_ver()),
    "cache_tag": sys.implementation.cache_tag, "musl": bool(glob.glob("/lib/ld-musl-*")),
    "markers": {
        "implementation_name": sys.implementation.name, "implementation_version": version,
        "os_name": os.name, "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": "", "platform_system": platform.system(), "platform_version": "",
        "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]), "sys_platform": sys.platform,
    },
}))
"""


IMAGE_PACKAGES = ErrorCode(
    "image-packages",
    MachineError,
    "Packages from a lock cannot be laid into an image: it has no interpreter that they could be for, "
    "or not the one that the contract wants.",
    hint="use an image that has the interpreter, or install the packages in the image itself",
)


class ImagePython(msgspec.Struct, frozen=True, kw_only=True):
    """What an image's interpreter says of itself."""

    path: str
    """Its program, as the image has it."""
    abi: str
    machine: str
    libc: tuple[str, str]
    musl: bool
    cache_tag: str
    markers: dict[str, str]

    @property
    def version(self) -> str:
        return self.markers["python_full_version"]

    def iter_platforms(self) -> Iterator[str]:
        """What wheels for it may be tagged with, the newest first."""
        if self.musl:
            yield from (f"musllinux_1_{minor}_{self.machine}" for minor in (2, 1))
        elif self.libc[0] == "glibc":
            newest = int(self.libc[1].split(".")[1])
            oldest = _OLDEST_GLIBC.get(self.machine, _OLDEST_GLIBC_ELSEWHERE)
            for minor in range(newest, oldest - 1, -1):
                yield f"manylinux_2_{minor}_{self.machine}"
                if minor in _NAMED_GLIBC:
                    yield f"{_NAMED_GLIBC[minor]}_{self.machine}"
        yield f"linux_{self.machine}"


def ask_image_python(
    run: Callable[[tuple[str, ...]], CommandResult], wanted: PythonEnvironment
) -> ImagePython:
    """Let the image's interpreter describe itself.

    Args:
        run: Runs a program in a sandbox on the image, without a network.
        wanted: What the contract asks for.

    Raises:
        IMAGE_PACKAGES: there is none, or another one than the contract wants.
    """
    found = None
    for name in ("python3", "python"):
        result = run((name, "-I", "-S", "-c", _ASK))
        if result.exit == Exited(code=0):
            found = result
            break
    if found is None:
        raise IMAGE_PACKAGES.error("environment.python: expected a Python in the image, found none that runs")
    try:
        python = msgspec.json.decode(found.stdout.prefix, type=ImagePython)
        # Tags are built from what it says: if they cannot be, it said nothing of use.
        _split_version(python), list(python.iter_platforms())
    except (msgspec.MsgspecError, KeyError, ValueError, IndexError) as error:
        raise IMAGE_PACKAGES.error(
            f"environment.python: expected a Python that describes itself, found: {error}"
        ) from error
    if wanted.version is not None and not meets(python.version, wanted.version):
        raise IMAGE_PACKAGES.error(
            f"environment.python.version: expected {wanted.version}, found {python.version} in the image"
        )
    return python


def open_image_python(
    environment: PythonEnvironment,
    *,
    base: Path,
    python: ImagePython,
    image_digest: Digest,
    builder: PythonBuilder,
    compile_tree: Callable[[Path, Path], None],
) -> PythonPackages:
    """Find the packages of a lock for an image in the store, or lay them out there.

    Args:
        environment: As the contract names it.
        base: The contract's directory.
        python: The interpreter of the image.
        image_digest: Which image.
        builder: This machine's own installer, with its store and its way to an index.
        compile_tree: Lets the image's interpreter compile a tree into an empty directory.

    Raises:
        PACKAGE_LOCK_INVALID: the lock is not one, or is not complete.
        PACKAGE_HASH_MISSING: a package in it has no hash.
        PACKAGE_HASH_MISMATCH: the index served something else.
        PACKAGE_INDEX_UNREACHABLE: no index could be reached.
        PACKAGE_PLATFORM: a package has no wheel for the image's interpreter.
        PACKAGE_BUILD_FAILED: the installation failed for another reason.
        STORE_TAMPERED: the environment in the store was changed.
    """
    lock_path = base / environment.lock
    try:
        lock = lock_path.read_bytes()
    except OSError as error:
        raise PACKAGE_LOCK_INVALID.error(f"{lock_path}: expected a lock, found: {error.strerror}") from error
    requirements = render_requirements(parse_requirements(lock, environment.lock))
    facts: Facts = {
        "image_digest": image_digest,
        "interpreter": python.path,
        "lock_digest": digest_bytes(lock),
        "version": python.version,
    }
    key = canonical_digest({"layout": _LAYOUT, **{name: str(value) for name, value in facts.items()}})

    def build(tree: Path, held: int) -> Facts:
        _lay_out(tree, requirements, python=python, builder=builder, held=held)
        compiled = tree.parent / "compiled"
        compiled.mkdir()
        compile_tree(tree, compiled)
        _take_byte_code(tree, compiled, cache_tag=python.cache_tag)
        remove_tree(compiled)
        return {**facts, "machine_settings": builder.setting_names}

    entry = builder.store.make(StoreKind.PYTHON, key, build)
    return PythonPackages(path=entry.path, tree_digest=entry.record.tree_digest, entry=entry)


def _lay_out(
    tree: Path, requirements: str, *, python: ImagePython, builder: PythonBuilder, held: int
) -> None:
    scratch = tree.parent / "scratch"
    scratch.mkdir()
    (scratch / REQUIREMENTS).write_text(requirements, encoding="utf-8")
    installer = str(builder.make_installer() / "bin/python")
    variables = builder.build_variables(scratch)
    markers = json.dumps(python.markers, sort_keys=True)
    chosen = execute_program(
        [installer, "-I", str(_MARKERS), str(scratch / REQUIREMENTS), markers],
        variables=variables,
        seconds=builder.seconds,
    )
    verify_built(chosen, "reading the lock's markers", ())
    (scratch / REQUIREMENTS).write_bytes(chosen.stdout)
    major, minor = _split_version(python)
    packages = tree / f"lib/python{major}.{minor}/site-packages"
    packages.mkdir(parents=True)
    (tree / "bin").mkdir()
    if chosen.stdout.strip():
        finished = execute_program(
            [
                *(installer, "-I", "-m", "pip", "install", "--target", str(packages), "-r", REQUIREMENTS),
                *(
                    "--require-hashes",
                    "--no-deps",
                    "--only-binary",
                    ":all:",
                    "--no-compile",
                    "--no-cache-dir",
                ),
                *("--implementation", "cp", "--python-version", f"{major}.{minor}"),
                *(word for platform in python.iter_platforms() for word in ("--platform", platform)),
                *(("--abi", _name_abi(python.abi)) if python.abi else ()),
                *("--no-warn-script-location", "--log", str(scratch / "pip.log")),
            ],
            variables=variables,
            seconds=builder.seconds,
            cwd=scratch,
            held_fds=(held,),
        )
        verify_built(finished, "pip", PIP_SYMPTOMS, log=read_log(scratch / "pip.log"))
    builder.verify_complete(tree, scratch, markers)
    remove_tree(scratch)
    _move_beside(tree, packages)
    relocate_tree(tree, Path(python.path), version=python.version)


def _split_version(python: ImagePython) -> tuple[int, int]:
    major, minor = python.version.split(".")[:2]
    return int(major), int(minor)


def _take_byte_code(tree: Path, compiled: Path, *, cache_tag: str) -> None:
    root = os.open(compiled, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for source in sorted(tree.glob("lib/**/*.py")):
            below = PurePosixPath(PYTHON_TARGET.lstrip("/"), source.relative_to(tree).as_posix())
            data = _read_beneath(root, below.with_name(f"{source.stem}.{cache_tag}.pyc"))
            if data is not None:
                target = source.parent / "__pycache__" / f"{source.stem}.{cache_tag}.pyc"
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(data)
    finally:
        os.close(root)


def _read_beneath(root: int, path: PurePosixPath) -> bytes | None:
    """A plain file that programs of the image wrote; None where there is none, or a link in its place."""
    try:
        handle = open_beneath(root, os.fsencode(path), os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        data = stream.read(_MAX_COMPILED_BYTES + 1)
    return data if len(data) <= _MAX_COMPILED_BYTES else None


def _name_abi(soabi: str) -> str:
    """`cpython-311-x86_64-linux-gnu` is `cp311`."""
    return "cp" + (soabi.split("-")[1] if soabi.startswith("cpython-") else soabi)


def _move_beside(tree: Path, packages: Path) -> None:
    """Scripts and data, which pip puts among the packages of a target directory, go where a venv has them."""
    for record in sorted(packages.glob("*.dist-info/RECORD")):
        rows = list(csv.reader(io.StringIO(record.read_text(encoding="utf-8"))))
        for row in rows:
            name = row[0].removeprefix(_SCHEME_PREFIX) if row else ""
            if not row or name == row[0] or ".." in Path(name).parts:
                continue
            if (packages / name).is_file():
                target = tree / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(packages / name, target)
            row[0] = f"../../../{name}"
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        record.write_text(text.getvalue(), encoding="utf-8")
    for path in sorted(packages.glob("*/"), reverse=True):
        if path.name in {"bin", "share", "etc", "include"} and not any(
            item.is_file() or item.is_symlink() for item in path.rglob("*")
        ):
            remove_tree(path)
