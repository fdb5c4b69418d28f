"""What a person should look at: the record, and the words that ask for it."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

Confidence: TypeAlias = Literal["code", "text"]
"""`code`: it would run; `text`: a comment, a docstring or prose mentions it."""

REASONS = {
    "always-equal": "defines equality that holds for everything",
    "assertion-patching": "replaces assertions of the test framework",
    "binary-code": "brings code that cannot be read",
    "build-hook": "changes what build tools and package managers run by themselves",
    "builtins": "reaches for built-in names, which every module shares",
    "dynamic-code": "makes up code or module names at run time",
    "early-exit": "ends the process before the test framework can speak",
    "exit-hook": "runs code when the process ends, after the tests",
    "framework-internals": "reaches into the test framework",
    "frame-inspection": "reads frames of its callers, where expected values are",
    "harness-detection": "asks whether it is being tested",
    "hook-file": "is a file that test runners or interpreters load by themselves",
    "import-system": "changes what imports find",
    "link-outside": "leads out of the repository",
    "loader-variable": "changes how programs and interpreters start",
    "native-code": "reaches beneath the interpreter",
    "object-graph": "walks the objects of the whole process",
    "opaque-line": "has a line too long to be read",
    "source-encoding": "is read in an encoding that can hide code",
    "submodule": "brings a repository whose content is not in the change",
    "test-options": "changes which tests run, or how",
    "tracing": "watches or steers the execution of other code",
}
"""Code of a flag: why it asks for a look. Flags never decide anything."""

_WORDS_BY_CODE = {
    "builtins": "__builtins__ builtins",
    "early-exit": "_exit",
    "exit-hook": "atexit register_at_fork",
    "framework-internals": "_pytest pluggy pytest_plugins pytest11 hookimpl hookwrapper "
    "pytest_runtest_makereport pytest_runtest_call pytest_runtest_protocol pytest_collection_modifyitems "
    "pytest_pyfunc_call pytest_assertrepr_compare pytest_sessionfinish pytest_configure",
    "frame-inspection": "_getframe _current_frames currentframe getouterframes getinnerframes "
    "f_back f_locals f_globals tb_frame gi_frame cr_frame ag_frame",
    "harness-detection": "PYTEST_CURRENT_TEST PYTEST_VERSION REPOTRIAL REPOTRIAL_RESULTS JEST_WORKER_ID "
    "NODE_TEST_CONTEXT VITEST",
    "import-system": "meta_path path_hooks path_importer_cache sitecustomize usercustomize",
    "loader-variable": "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT NODE_OPTIONS PYTEST_ADDOPTS PYTEST_PLUGINS "
    "PYTHONSTARTUP PYTHONPATH BASH_ENV DYLD_INSERT_LIBRARIES RUSTC_WRAPPER",
    "native-code": "ctypes _ctypes cffi",
    "object-graph": "get_objects get_referrers get_referents",
    "tracing": "settrace setprofile addaudithook",
}

WORDS = {word: code for code, words in _WORDS_BY_CODE.items() for word in words.split()}
"""Names that mean only one thing, in whatever language they stand."""

WORD_PATTERN = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(sorted(WORDS))}|REPOTRIAL_\w+)(?![A-Za-z0-9_])")


def find_word_code(word: str) -> str | None:
    """The code that a name asks for."""
    return "harness-detection" if word.startswith("REPOTRIAL_") else WORDS.get(word)


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """Something found in a line, before it becomes a flag."""

    code: str
    line: int
    column: int = 0
    """Where in the line it begins, from 0."""
    confidence: Confidence = "code"


class ReviewFlag(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the change that asks for human review; never a verdict."""

    code: str
    """A key of the published reasons."""
    path: str
    """As the trace writes names."""
    line: int | None
    """In the file after the change; None where the file itself is the reason."""
    segment: str
    """The exact text that triggered it, bounded (S10); empty where the file itself is the reason."""
    why: str
    """The reason in words."""
    confidence: Confidence
    """Whether it would run or is only mentioned."""
