"""Small contracts in three languages, to cheat on: each judge shares its process with the product."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from repotrial.authoring import lock_contract
from repotrial.authoring._certify._cheats._common import Cheat, build_patch
from repotrial.environment import Installation, SandboxRequest
from repotrial.isolation import Bind, CommandSpec
from repotrial.trace import Exited
from support.contracts import write_contract

__all__ = ["LANGUAGES", "Language", "is_naively_accepted", "write_language"]

WORDS: Final = ("ab", "cd", "ef", "gh", "ij", "kl", "mn", "op")
CONTRACT: Final = """\
schema = "repotrial/contract@1"
id = "joining-{name}"
title = "The second word is left out"
kind = "bug-fix"
ecosystem = "{name}"
reference = "reference.patch"

[clarify]
modules = ["{module}"]

[repository]
kind = "directory"
source = "repo"

[environment]
image = "host"
tools = {tools}

[[checks]]
id = "unit"
gate = "acceptance"
files = [{{ from = "checks/unit", to = "{folder}" }}]
negative = [{{ from = "negative/unit", to = "{folder}" }}]
run = '''{command}'''
results = [{{ format = "{format}", path = "{results}" }}]
inventory = "checks/unit.json"
judge = "in-process"
baseline = "fail"
timeout_seconds = 300

[policy]
writable = ["src/**", "tests/**", "test/**"]
"""


@dataclass(frozen=True, kw_only=True)
class Language:
    """A product with a mistake, its hidden tests, and how they are run."""

    name: str
    tools: dict[str, str]
    module: str
    wrong: str
    right: str
    files: dict[str, str]
    """Other files of the snapshot."""
    folder: str
    """Where hidden tests go."""
    oracle: str
    """The name of their file."""
    build_tests: Callable[[str], str]
    """Hidden tests, with this behind the second word of every expectation."""
    build_id: Callable[[str], str]
    """The id of the test of a word."""
    known: str
    """The id of the test that passes anyway."""
    format: str
    results: str
    failure: str
    """What a results file of a suite that failed has, as a pattern."""
    command: str
    projects: dict[str, str] = field(default_factory=dict)
    """Commands of the project's own: for its tests, and for everything that starts with its files."""
    runner: tuple[str, ...] = ()
    """Programs that only these commands need."""


def _write_javascript(behind: str) -> str:
    cases = [(f"words with {word}", word) for word in WORDS] + [("the beginning", "")]
    tests = "".join(
        f"\ntest('{title}', () => {{\n  assert.equal(join('x', '{word}'), 'x-{word}{behind}');\n}});\n"
        for title, word in cases
    )
    head = "import assert from 'node:assert/strict';\nimport { test } from 'node:test';\n"
    return f"{head}\nimport {{ join }} from '../src/index.js';\n{tests}"


def _write_c(behind: str) -> str:
    claims = {f"words_with_{word}": f'strcmp(join("x", "{word}"), "x-{word}{behind}")' for word in WORDS}
    claims["the_beginning"] = f'strncmp(join("x", "ab"), "x-{behind}", {2 + len(behind)})'
    tests = "".join(f"\nTEST({test}) {{\n    assert({claim} == 0);\n}}\n" for test, claim in claims.items())
    return f'#include "harness.h"\n#include "join.h"\n{tests}'


def _write_rust(behind: str) -> str:
    claims = {f"words_with_{word}": f'join("x", "{word}"), "x-{word}{behind}"' for word in WORDS}
    claims["the_beginning"] = f'&join("x", "ab")[..2], "x-{behind}"'
    tests = "".join(
        f"\n#[test]\nfn {test}() {{\n    assert_eq!({claim});\n}}\n" for test, claim in claims.items()
    )
    return f"use joining::*;\n{tests}"


_NODE: Final = "node --test --test-reporter=junit --test-reporter-destination="
JAVASCRIPT: Final = Language(
    name="javascript",
    tools={"node": ">=20.10"},
    module="src/index.js",
    wrong="export function join(first, second) {\n  return `${first}-${second.slice(1)}`;\n}\n",
    right="export function join(first, second) {\n  return `${first}-${second}`;\n}\n",
    files={
        "package.json": json.dumps(
            {
                "name": "joining",
                "type": "module",
                "scripts": {"test": f"{_NODE}$REPOTRIAL_RESULTS/junit.xml $SUITE/*.test.js"},
            }
        ),
        "test/known.test.js": _write_javascript(""),
    },
    folder="acceptance",
    oracle="hidden.test.js",
    build_tests=_write_javascript,
    build_id="test::words with {}".format,
    known="test::the beginning",
    format="junit",
    results="junit.xml",
    failure=r"<(failure|error)\b",
    command=f'{_NODE}"$REPOTRIAL_RESULTS/junit.xml" acceptance/*.test.js',
    runner=("npm",),
    projects={"tests": "SUITE=test npm test --silent", "all": "SUITE=acceptance npm test --silent"},
)
HARNESS: Final = """\
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct { const char *name; void (*function)(void); } tests[64];
static int count;

#define TEST(test)                                   \\
    static void test(void);                          \\
    __attribute__((constructor)) static void add_##test(void) { \\
        tests[count].name = #test;                   \\
        tests[count++].function = test;              \\
    }                                                \\
    static void test(void)

int main(void) {
    int failures = 0;
    for (int number = 0; number < count; number++) {
        int status = 1;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            tests[number].function();
            _exit(0);
        }
        waitpid(child, &status, 0);
        failures += status != 0;
        printf("%s %d - %s\\n", status ? "not ok" : "ok", number + 1, tests[number].name);
    }
    printf("1..%d\\n", count);
    return failures != 0;
}
"""
SOURCE: Final = """\
#include <stdio.h>

#include "join.h"

const char *join(const char *first, const char *second) {
    static char text[64];
    snprintf(text, sizeof text, "%s-%s", first, SECOND);
    return text;
}
"""
MAKEFILE: Final = """\
CFLAGS = -O0 -Isrc -I.
SUITE = tests
suite: $(wildcard $(SUITE)/*.c) $(wildcard src/*.c)
	cc $(CFLAGS) -o $@ $^
"""
C: Final = Language(
    name="c",
    tools={"gcc": ">=9", "make": ">=4.0"},
    module="src/join.c",
    wrong=SOURCE.replace("SECOND", "second + 1"),
    right=SOURCE.replace("SECOND", "second"),
    files={
        "src/join.h": "const char *join(const char *first, const char *second);\n",
        "harness.h": HARNESS,
        "Makefile": MAKEFILE,
        "tests/known.c": _write_c(""),
    },
    folder="acceptance",
    oracle="hidden.c",
    build_tests=_write_c,
    build_id="words_with_{}".format,
    known="the_beginning",
    format="tap",
    results="all.tap",
    failure=r"(?m)^not ok",
    command='make -s suite SUITE=acceptance && ./suite > "$REPOTRIAL_RESULTS/all.tap"',
    projects={"tests": 'make -s suite && ./suite > "$REPOTRIAL_RESULTS/all.tap"'},
)
_CARGO: Final = 'cargo test --offline {} -- --test-threads 1 > "$REPOTRIAL_RESULTS/all.txt"'
RUST: Final = Language(
    name="rust",
    tools={"cargo": ">=1.70", "rustc": ">=1.70", "gcc": ">=9"},
    module="src/lib.rs",
    wrong='pub fn join(first: &str, second: &str) -> String {\n    format!("{first}-{}", &second[1..])\n}\n',
    right='pub fn join(first: &str, second: &str) -> String {\n    format!("{first}-{second}")\n}\n',
    files={
        "Cargo.toml": '[package]\nname = "joining"\nversion = "0.1.0"\nedition = "2021"\n',
        "Cargo.lock": 'version = 3\n\n[[package]]\nname = "joining"\nversion = "0.1.0"\n',
        "tests/known.rs": _write_rust(""),
    },
    folder="tests",
    oracle="hidden.rs",
    build_tests=_write_rust,
    build_id="words_with_{}".format,
    known="the_beginning",
    format="libtest",
    results="all.txt",
    failure="FAILED",
    command=_CARGO.format("--test hidden"),
    projects={"tests": _CARGO.format("--tests")},
)
LANGUAGES: Final = {language.name: language for language in (JAVASCRIPT, C, RUST)}


def write_language(language: Language, directory: Path) -> Path:
    """The contract, locked; every test fails on its snapshot."""
    text = CONTRACT.format(
        name=language.name,
        module=language.module,
        tools="{ " + ", ".join(f'{name} = "{wanted}"' for name, wanted in language.tools.items()) + " }",
        folder=language.folder,
        command=language.command,
        format=language.format,
        results=language.results,
    )
    reference = build_patch({language.module: language.wrong}, {language.module: language.right})
    ids = [language.build_id(word) for word in WORDS]
    snapshot = {**language.files, language.module: language.wrong}
    files: dict[str, str | bytes] = {
        **{f"repo/{path}": content for path, content in snapshot.items()},
        f"checks/unit/{language.oracle}": language.build_tests(""),
        f"negative/unit/{language.oracle}": language.build_tests("z"),
        "checks/unit.json": json.dumps({"fail_to_pass": ids, "pass_to_pass": [language.known]}),
        "reference.patch": reference,
    }
    write_contract(directory, text, files=files)
    lock_contract(directory)
    return directory


def is_naively_accepted(language: Language, installation: Installation, cheat: Cheat | None) -> bool:
    """What an oracle says that judges where the agent worked, and believes exit code and results file.

    It runs the project's own tests, and what the project says how to run, where the trick is about these.
    """
    is_open = cheat is not None and cheat.variant == "open"
    is_about_tests = is_open and cheat is not None and cheat.name.endswith("-tests")
    command = language.projects.get("tests" if is_about_tests else "all" if is_open else "", language.command)
    oracle = f"{language.folder}/{language.oracle}"
    lay = "" if is_about_tests else f"mkdir -p {language.folder} && cp /opt/naive/oracle {oracle}"
    with installation.open_workspace() as workspace, installation.open_scratch() as scratch:
        scratch.write("change.patch", cheat.patch if cheat else b"")
        scratch.write("script", (cheat.script or b"") if cheat else b"")
        scratch.write("oracle", language.build_tests("").encode())
        scratch.write("command", command.encode())
        script = f"""
            export HOME=/tmp/home REPOTRIAL_RESULTS=/tmp/home/results
            mkdir -p /tmp/home/results
            if test -s /opt/naive/change.patch; then git apply /opt/naive/change.patch || exit 99; fi
            /bin/sh /opt/naive/script || exit 98
            {lay}
            export PATH="$HOME/.local/bin:$PATH"
            sh -c "$(cat /opt/naive/command)" >&2
            code=$?
            cat "$REPOTRIAL_RESULTS"/{language.results} 2> /dev/null
            exit $code
        """
        with installation.open_sandbox(
            workspace, SandboxRequest(phase="accept", binds=(Bind(source=scratch.path, target="/opt/naive"),))
        ) as sandbox:
            done = sandbox.run(CommandSpec(argv=("/bin/bash", "-c", script), timeout_seconds=600))
    said = done.stdout.prefix.decode()
    assert done.exit not in (Exited(code=98), Exited(code=99)), (said, done.stderr.prefix)
    return done.exit == Exited(code=0) and not re.search(language.failure, said)
