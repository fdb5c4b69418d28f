"""Lines of code that stand alone: comments and strings told apart as far as one line allows.

A line of a modified file may lie inside a comment or a string that begins elsewhere. Where that is possible,
the line is taken for code: a flag too many costs a look, a flag too few hides a trick.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from repotrial.change import AddedLine

FlagConfidence: TypeAlias = Literal["code", "text"]
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
    "library-patching": "replaces a part of a library for all that share the process",
    "link-outside": "leads out of the repository",
    "loader-variable": "changes how programs and interpreters start",
    "native-code": "reaches beneath the interpreter",
    "object-graph": "walks the objects of the whole process",
    "opaque-line": "has a line too long to be read",
    "page-cache": "asks what other processes left in memory",
    "process-files": "reaches for files of running processes",
    "source-encoding": "is read in an encoding that can hide code",
    "submodule": "brings a repository whose content is not in the change",
    "test-reading": "reads files of tests, where expected values are",
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
    "native-code": "ctypes _ctypes cffi process_vm_readv process_vm_writev",
    "object-graph": "get_objects get_referrers get_referents",
    "process-files": "getppid",
    "page-cache": "mincore cachestat fincore posix_fadvise preadv2 RWF_NOWAIT",
    "tracing": "settrace setprofile addaudithook",
}

WORDS = {word: code for code, words in _WORDS_BY_CODE.items() for word in words.split()}
"""Names that mean only one thing, in whatever language they stand."""

# Of a process, by whatever spelling of its number; `/proc/cpuinfo` and the like are of the machine.
_PROCESS_FILES = r"/proc/(?:self|thread-self|[0-9{%$*/'\"`]|$)"
WORD_PATTERN = re.compile(
    rf"(?<![A-Za-z0-9_])(?:(?:{'|'.join(sorted(WORDS))}|REPOTRIAL_\w+)(?![A-Za-z0-9_])|{_PROCESS_FILES})"
)


def find_word_code(word: str) -> str | None:
    """The code that a name, or the path of a process's file, asks for."""
    if re.match(_PROCESS_FILES, word) is not None:
        return "process-files"
    return "harness-detection" if word.startswith("REPOTRIAL_") else WORDS.get(word)


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """Something found in a line, before it becomes a flag."""

    code: str
    line: int
    column: int = 0
    """Where in the line it begins, from 0."""
    confidence: FlagConfidence = "code"


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
    confidence: FlagConfidence
    """Whether it would run or is only mentioned."""


_SUFFIXES = {
    "python": "py pyi pyw pyx pxd",
    "javascript": "js mjs cjs jsx ts tsx mts cts vue svelte",
    "c": "c h cc cpp cxx hh hpp hxx inc ipp",
    "shell": "sh bash zsh ksh mk cmake am ac in",
    "configuration": "toml cfg ini",
    "package": "json",
}
_NAMES = {
    "shell": "makefile gnumakefile cmakelists.txt configure justfile rakefile dockerfile meson.build",
    "configuration": "tox.ini pytest.ini setup.cfg pyproject.toml",
}
LANGUAGES = {suffix: language for language, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_LANGUAGE_OF_NAME = {name: language for language, names in _NAMES.items() for name in names.split()}

# Both end at the end of the line if nothing else ends them, so that a match never has to be tried again.
_STRING = r"""'(?:[^'\\]|\\(?:.|$))*(?:'|$)|"(?:[^"\\]|\\(?:.|$))*(?:"|$)"""
_TEMPLATE = r"|`(?:[^`\\]|\\(?:.|$))*(?:`|$)"
_HASH = re.compile(_STRING + r"|(?P<comment>#.*)", re.DOTALL)
_SLASHES = re.compile(_STRING + _TEMPLATE + r"|(?P<comment>//.*|/\*.*?(?:\*/|$))", re.DOTALL)
_PYTHON = re.compile(rf"(?P<string>{_STRING})|(?P<comment>#.*)", re.DOTALL)
_TRIPLE = re.compile(r"\"\"\"|'''")


def _compile(*rules: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((code, re.compile(pattern)) for code, pattern in rules)


_PATCHED = (
    "asyncio|base64|collections|csv|datetime|decimal|fnmatch|functools|hashlib|hmac|importlib|inspect|io|"
    "itertools|json|math|os(?!\\.environ\\b)|pathlib|pickle|re|shutil|sqlite3|ssl|statistics|subprocess|"
    "tempfile|textwrap|threading|time|tokenize|traceback|urllib|uuid|zlib"
)
"""Modules of the standard library whose parts nothing but a trick or a test replaces."""
_PATCHED_IN_NODE = (
    r"fs|fsp|fs\.promises|path|os|crypto|child_process|assert|util|Math|JSON|Date|Reflect|"
    r"(?:Array|String|Object|Map|Set|Promise|Function|Number|RegExp|Error)\.prototype"
)


def is_patched_library(name: str) -> bool:
    """Whether a full name is a module, or a part of one, that nothing but a trick or a test writes to."""
    return re.match(rf"(?:{_PATCHED})(?:\.|$)", name) is not None


_PATTERNS = {
    "python": _compile(
        ("always-equal", r"\b__(?:eq|ne)__['\"]?\s*[=:]\s*lambda\b"),
        ("always-equal", r"\bdef\s+__(?:subclass|instance)(?:hook|check)__"),
        ("assertion-patching", r"\bTestCase\.\w+\s*=(?!=)|\bsetattr\s*\(\s*(?:unittest\.)?TestCase\b"),
        ("dynamic-code", r"\b__import__\s*\(|\bimport_module\s*\((?!\s*['\"])|(?<![\w.])(?:exec|eval)\s*\("),
        ("early-exit", r"^(?:sys\.exit|exit|quit)\s*\(|^raise\s+SystemExit\b|\bos\.abort\b"),
        (
            "frame-inspection",
            r"\binspect\.(?:stack|trace)\b|\bfrom\s+inspect\s+import\b.{0,200}\b(?:stack|trace)\b",
        ),
        ("exit-hook", r"\bweakref\.finalize\b"),
        ("framework-internals", r"\bdef\s+pytest_\w+"),
        ("import-system", r"\bsys\.modules(?:\[[^\]]{0,200}\]\s*=(?!=)|\.(?:update|setdefault|pop)\b)"),
        ("import-system", r"\bdel\s+sys\.modules\b|\bsys\.modules\s*=(?!=)"),
        ("library-patching", rf"(?:^|;)\s*(?:{_PATCHED})(?:\.\w+){{1,3}}\s*=(?!=)"),
        ("library-patching", rf"(?<![\w.])setattr\s*\(\s*(?:{_PATCHED})(?:\.\w+)*\s*,"),
        ("object-graph", r"\b(?:import|from)\s+gc\b|\bgc\.\w+"),
        ("tracing", r"\bsys\.monitoring\b"),
    ),
    "javascript": _compile(
        ("assertion-patching", r"\b(?:assert|expect|test|it|describe)\.\w+\s*=(?![=>])"),
        (
            "assertion-patching",
            r"\bObject\.(?:is|defineProperty|assign)\s*(?:=(?!=)|\(\s*(?:assert|expect)\b)",
        ),
        ("dynamic-code", r"(?<![\w.])eval\s*\(|\bnew\s+Function\s*\(|\bvm\.run\w+\s*\("),
        ("early-exit", r"\bprocess\.(?:exit|reallyExit|abort|kill)\b|\bprocess\.exitCode\s*="),
        ("exit-hook", r"\bprocess\.(?:on|once|prependListener)\s*\(\s*['\"`](?:exit|beforeExit)"),
        ("frame-inspection", r"\bprepareStackTrace\b|\bcaptureStackTrace\b"),
        ("framework-internals", r"['\"`]node:test(?:/reporters)?['\"`]|['\"`](?:jest|mocha|vitest)[-/]\w+"),
        ("import-system", r"\brequire\.cache\b|\bModule\._(?:load|resolveFilename|cache|extensions)\b"),
        ("import-system", r"\brequire\.extensions\b|\bmodule\.register\s*\("),
        ("library-patching", rf"(?<![\w.])(?:{_PATCHED_IN_NODE})\.\w+\s*=(?![=>])"),
        ("library-patching", rf"\b(?:assign|defineProperty|set)\s*\(\s*(?:{_PATCHED_IN_NODE})\b"),
        ("loader-variable", r"\bprocess\.binding\b|\bexecArgv\b"),
    ),
    "c": _compile(
        ("assertion-patching", r"^\s*#\s*(?:define|undef)\s+(?:assert|static_assert|NDEBUG|ck_assert\w*)\b"),
        ("assertion-patching", r"^\s*#\s*define\s+(?:ASSERT|EXPECT|CHECK|REQUIRE|TEST)\w*"),
        ("early-exit", r"(?<!\w)_(?:exit|Exit)\s*\(|\bquick_exit\s*\(|(?<![\w.>])exit\s*\(\s*0\s*\)"),
        ("exit-hook", r"\b(?:on_exit|at_quick_exit)\s*\(|\b(?:__)?destructor(?:__)?\b"),
        ("import-system", r"\bdlsym\s*\(|\bRTLD_NEXT\b|\b__wrap_\w+"),
        ("loader-variable", r"\b(?:__)?constructor(?:__)?\b|\.init_array\b|\b_init\s*\("),
        ("tracing", r"\bptrace\s*\(|\bsignal\s*\(\s*SIG(?:ABRT|SEGV)"),
    ),
    "shell": _compile(
        ("build-hook", r"^\s*(?:override\s+|export\s+)?(?:SHELL|MAKEFLAGS|\.SHELLFLAGS|CC|CXX)\s*[:?+]?="),
        ("build-hook", r"^\.(?:DEFAULT|IGNORE|SILENT)\b|^(?:test|tests|check|all|install)\s*::?(?!=)"),
        (
            "build-hook",
            r"\$\(shell\b|\badd_custom_(?:command|target)\b|\bexecute_process\b|\bcore\.hooksPath\b",
        ),
        ("early-exit", r"^\s*exit\s+0\b"),
        ("exit-hook", r"\btrap\b.{0,200}\bEXIT\b"),
    ),
    "configuration": _compile(
        ("build-hook", r"\bcmdclass\b|\bbuild-backend\b|\bbackend-path\b|\bhooks?\b\s*[=\]]"),
        (
            "test-options",
            r"\[(?:tool[.:])?pytest\b|\b(?:addopts|python_(?:files|classes|functions)|testpaths)\b",
        ),
        (
            "test-options",
            r"\b(?:norecursedirs|collect_ignore|usefixtures|confcutdir|xfail_strict|conftest)\b",
        ),
        (
            "test-options",
            r"(?:^|[\s'\"])(?:-p\s+\w|--deselect|--ignore|--noconftest|--continue-on-collection)",
        ),
    ),
    "package": _compile(
        ("build-hook", r"\"(?:pre|post)[a-z]+\"\s*:|\"(?:prepare|install|gypfile)\"\s*:"),
        ("test-options", r"\"(?:test|jest|mocha|vitest|ava|c8|nyc)(?::\w+)?\"\s*:"),
    ),
    "other": (),
}
_MASKS = {"javascript": _SLASHES, "c": _SLASHES, "shell": _HASH, "configuration": _HASH}


def find_language(name: str) -> str:
    """What a file's name says about its content."""
    base = name.rpartition("/")[2].casefold()
    if base == "package.json":
        return "package"
    if base in _LANGUAGE_OF_NAME:
        return _LANGUAGE_OF_NAME[base]
    language = LANGUAGES.get(base.rpartition(".")[2], "other") if "." in base else "other"
    return "other" if language == "package" else language


def find_in_lines(lines: Sequence[AddedLine], language: str) -> Iterator[Sighting]:
    """What the lines hold, each on its own."""
    for line in lines:
        if language == "python":
            yield from _find_in_python(line)
        elif language == "other":
            yield from _match(line.number, "", line.text, language)
        else:
            code, remarks = _divide(line.text, _MASKS.get(language))
            yield from _match(line.number, code, remarks, language)
    if language == "python":
        yield from _find_always_equal(lines)


def _find_in_python(line: AddedLine) -> Iterator[Sighting]:
    # Names are compared as the interpreter does, which knows compatible characters as the same.
    for part in unicodedata.normalize("NFKC", line.text).split("\r"):
        plain = _TRIPLE.sub("   ", part)
        is_whole = plain == part
        code, remarks = list(plain), [" "] * len(plain)
        for found in _PYTHON.finditer(plain):
            quotes = 1 if found["comment"] is None else 0
            if _is_code(found, is_whole=is_whole):
                continue
            first, last = found.start() + quotes, found.end() - quotes
            remarks[first:last] = code[first:last]
            code[first:last] = " " * (last - first)
        yield from _match(line.number, "".join(code), "".join(remarks), "python")


def _is_code(found: re.Match[str], *, is_whole: bool) -> bool:
    """Whether what looks like a comment or a string may be none."""
    if found["comment"] is not None:
        return not is_whole  # it may be the end of a string
    text = found["string"]
    is_closed = len(text) > 1 and text.endswith(text[0])
    # `getattr(sys, "_getframe")` is as good as the name.
    return not is_closed or find_word_code(text[1:-1]) is not None


def _divide(text: str, mask: re.Pattern[str] | None) -> tuple[str, str]:
    """The line without its comments, and nothing but them."""
    if mask is None:
        return text, ""
    code, remarks = list(text), [" "] * len(text)
    for found in mask.finditer(text):
        comment = found["comment"]
        if comment is None or (comment.startswith("//") and "*/" in comment):
            continue
        first, last = found.span("comment")
        remarks[first:last] = code[first:last]
        code[first:last] = " " * (last - first)
    return "".join(code), "".join(remarks)


_SUITES = re.compile(
    r"""\b(?:open|Path|glob|iglob|rglob|listdir|scandir|walk|read_text|read_bytes|join)\s*\(.{0,80}?"""
    r"""['"][^'"]*(?:\bacceptance\b|\btests?/|\btest_)[^'"]*['"]"""
)


def find_test_reading(lines: Sequence[AddedLine]) -> Iterator[Sighting]:
    """Code of the product that looks into files of tests; a test may."""
    for line in lines:
        if (found := _SUITES.search(line.text)) is not None:
            yield Sighting(code="test-reading", line=line.number, column=found.start())


def _match(number: int, code: str, remarks: str, language: str) -> Iterator[Sighting]:
    for name, pattern in _PATTERNS[language]:
        if (found := pattern.search(code)) is not None:
            yield Sighting(code=name, line=number, column=found.start())
        elif (found := pattern.search(remarks)) is not None:
            yield Sighting(code=name, line=number, column=found.start(), confidence="text")
    for text, is_code in ((code, True), (remarks, False)):
        for found in WORD_PATTERN.finditer(text):
            name = find_word_code(found[0]) or ""
            yield Sighting(
                code=name, line=number, column=found.start(), confidence="code" if is_code else "text"
            )


def _find_always_equal(lines: Sequence[AddedLine]) -> Iterator[Sighting]:
    texts = {line.number: line.text.strip() for line in lines}
    for number, text in texts.items():
        following = texts.get(number + 1, "")
        for name, value in (("__eq__", "True"), ("__ne__", "False")):
            if re.match(rf"(?:async\s+)?def\s+{name}\b", text) and (
                re.match(rf"return\s+{value}\b", following) or re.search(rf":\s*return\s+{value}\b", text)
            ):
                yield Sighting(code="always-equal", line=number)
