"""For every rule that looks at fields: contracts that it reports, leaves alone, and is not fooled by."""

from __future__ import annotations

from typing import Any

from repotrial.contract import Inventory
from support.lint_contracts import DROP, Case, evasion, pin, quiet, speaks, unit

__all__ = ["FIELD_CASES"]

PINNED = "docker.io/library/python:3.12@sha256:" + "a" * 64
ALLOW = {"kind": "allow-list", "hosts": ["registry.example.org"]}
GIT = {"kind": "git", "source": "repo.bundle", "commit": "4" * 40}
ARCHIVE = {"kind": "archive", "source": "snapshot.tar"}
OTHER = {"id": "other", "gate": "build", "run": "make", "timeout_seconds": 60}
EXIT_CODE = [{"format": "exit-code"}]
RENAMED_OUT = b"""\
diff --git a/tests/x.py b/textkit/x.py
similarity index 100%
rename from tests/x.py
rename to textkit/x.py
"""
QUOTED_NAME = rb"""--- "a/tests/\303\244.py"
+++ "b/tests/\303\244.py"
@@ -1 +1 @@
-a
+b
"""
QUOTED_RENAME = rb"""diff --git "a/tests/\303\244.py" "b/textkit/\303\244.py"
similarity index 100%
rename from "tests/\303\244.py"
rename to "textkit/\303\244.py"
"""


def image(reference: str) -> dict[str, Any]:
    return {"environment": {"image": {"kind": "reference", "reference": reference}}}


def service(**change: Any) -> dict[str, Any]:
    readiness = {"kind": "port", "port": 5432}
    return {"environment": {"services": [{"id": "db", "run": "postgres", "readiness": readiness, **change}]}}


def step(**change: Any) -> dict[str, Any]:
    return {"setup": [{"run": "true", "timeout_seconds": 9}, {"run": "make", "timeout_seconds": 9, **change}]}


def mount(**change: Any) -> dict[str, Any]:
    return {"environment": {"mounts": [{"target": "/opt/data", **change}]}}


def check(**change: Any) -> dict[str, Any]:
    return {"checks": [unit(**change)]}


def network(*hosts: str) -> dict[str, Any]:
    return {"policy": {"network": {"kind": "allow-list", "hosts": list(hosts), "recording": "net"}}}


def artifact(source: str) -> dict[str, Any]:
    given = {"id": "data", "source": source, "digest": f"sha256:{'0' * 64}", "target": "/opt/data"}
    return {"environment": {"artifacts": [given]}}


def listing(fail_to_pass: list[str], pass_to_pass: list[str]) -> dict[str, Inventory]:
    return {"unit": Inventory(fail_to_pass=tuple(fail_to_pass), pass_to_pass=tuple(pass_to_pass))}


PINS = [
    speaks("unpinned-image", "a tag alone", contract=image("python:3.12")),
    quiet("unpinned-image", "a tag and a digest", contract=image(PINNED)),
    evasion("unpinned-image", "a digest that is cut short", contract=image("python@sha256:abc")),
    evasion("unpinned-image", "a digest with a tail", contract=image(f"{PINNED}-slim")),
    evasion(
        "unpinned-image",
        "a service's image",
        contract=service(image={"kind": "reference", "reference": "postgres:16"}),
    ),
    speaks("unpinned-source", "an archive", contract={"repository": ARCHIVE}),
    speaks(
        "unpinned-source", "a directory", contract={"repository": {"kind": "directory", "source": "repo"}}
    ),
    quiet("unpinned-source", "a commit"),
    quiet("unpinned-source", "a digest", contract={"repository": ARCHIVE | {"digest": "sha256:" + "a" * 64}}),
    quiet("unpinned-source", "a lock", contract={"repository": ARCHIVE}, is_locked=True),
    evasion("unpinned-source", "a version name", contract={"repository": ARCHIVE | {"describe": "v1.0"}}),
    speaks("host-without-tools", "none", contract={"environment": {"tools": DROP}}),
    quiet(
        "host-without-tools",
        "an image",
        contract={"environment": {"tools": DROP} | image(PINNED)["environment"]},
    ),
    evasion("host-without-tools", "a lock", contract={"environment": {"tools": DROP}}, is_locked=True),
    speaks("unpinned-mount", "the host's", contract=mount(kind="host-read-only", source="/srv")),
    quiet("unpinned-mount", "scratch space", contract=mount(kind="tmpfs")),
    evasion("unpinned-mount", "no source given", contract=mount(kind="host-read-only")),
    speaks("network-in-setup", "a live host", contract=step(network=ALLOW)),
    quiet(
        "network-in-setup",
        "recorded",
        contract=step(network=ALLOW | {"recording": "net"}),
        files=(pin("net/a.json"),),
    ),
    evasion(
        "network-in-setup",
        "a recording that is not there",
        contract=step(network=ALLOW | {"recording": "net"}),
    ),
    quiet("network-in-setup", "replayed", contract=step(network={"kind": "replay", "recording": "net"})),
    evasion("network-in-setup", "an output instead", contract=step(network=ALLOW, outputs=["vendor"])),
    speaks("network-in-run", "a live host", contract={"policy": {"network": ALLOW}}),
    quiet("network-in-run", "recorded", contract=network("docs.python.org"), files=(pin("net"),)),
    evasion("network-in-run", "a recording that is not there", contract=network("docs.python.org")),
    evasion(
        "network-in-run",
        "a hard rule",
        contract={"policy": {"network": ALLOW, "violations": {"network": "hard"}}},
    ),
    speaks("network-in-check", "a live host", contract=check(network=ALLOW)),
    quiet(
        "network-in-check",
        "recorded",
        contract=check(network=ALLOW | {"recording": "net"}),
        files=(pin("net/web.jsonl"),),
    ),
    evasion(
        "network-in-check",
        "a recording that is not there",
        contract=check(network=ALLOW | {"recording": "net"}),
    ),
    speaks("network-wildcard", "everything", contract=network("*")),
    quiet(
        "network-wildcard", "below a domain", contract=network("*.files.example.org", "index.example.org:443")
    ),
    evasion("network-wildcard", "a top-level domain", contract=network("*.com")),
    evasion("network-wildcard", "with a port and a dot", contract=network("*.com.:443")),
    evasion("network-wildcard", "in the middle", contract=network("api.*.com")),
    evasion("network-wildcard", "in setup", contract=step(network=ALLOW | {"hosts": ["*"]})),
    evasion("network-wildcard", "in a check", contract=check(network=ALLOW | {"hosts": ["*"]})),
]

CHECKS = [
    speaks("check-without-timeout", "none", contract=check(timeout_seconds=DROP)),
    quiet("check-without-timeout", "one"),
    evasion(
        "check-without-timeout",
        "the second check",
        contract={"checks": [unit(), OTHER | {"timeout_seconds": None}]},
    ),
    speaks("setup-without-timeout", "none", contract=step(timeout_seconds=None)),
    quiet("setup-without-timeout", "one", contract=step()),
    evasion(
        "setup-without-timeout", "timeout(1)", contract=step(run="timeout 60 make", timeout_seconds=None)
    ),
    speaks("no-mandatory-acceptance", "optional only", contract=check(mandatory=False)),
    quiet("no-mandatory-acceptance", "one"),
    evasion(
        "no-mandatory-acceptance",
        "a mandatory build",
        contract={"checks": [unit(mandatory=False), OTHER]},
    ),
    speaks("build-gate-unsaid", "no build check", contract={"scoring": DROP}),
    quiet("build-gate-unsaid", "why is said"),
    quiet("build-gate-unsaid", "a build check", contract={"scoring": DROP, "checks": [unit(), OTHER]}),
    evasion(
        "build-gate-unsaid",
        "a build check that cannot fail",
        contract={"scoring": DROP, "checks": [unit(), {**OTHER, "mandatory": False}]},
    ),
    speaks("layer-not-mandatory", "one optional check", contract=check(mandatory=False)),
    quiet(
        "layer-not-mandatory",
        "one of two is mandatory",
        contract={"checks": [unit(), unit(id="slow", mandatory=False)]},
    ),
    evasion(
        "layer-not-mandatory",
        "a mandatory build check in the same layer",
        contract={"checks": [unit(mandatory=False), OTHER | {"layer": "unit"}]},
    ),
    speaks("missing-baseline", "none", contract=check(baseline=DROP)),
    quiet("missing-baseline", "a build check", contract={"checks": [unit(), OTHER]}),
    evasion("missing-baseline", "optional", contract=check(baseline=DROP, mandatory=False)),
    speaks("no-failing-check", "all pass", contract=check(baseline="pass"), inventories=listing([], ["a"])),
    quiet("no-failing-check", "an id that fails", contract=check(baseline=DROP)),
    quiet("no-failing-check", "a check that fails", inventories={}),
    evasion("no-failing-check", "an optional check fails", contract=check(mandatory=False)),
    speaks(
        "forgeable-exit-code", "in process", contract=check(results=EXIT_CODE, inventory=DROP), inventories={}
    ),
    quiet("forgeable-exit-code", "structured results"),
    quiet(
        "forgeable-exit-code",
        "out of process",
        contract=check(results=EXIT_CODE, inventory=DROP, judge="out-of-process"),
    ),
    evasion(
        "forgeable-exit-code",
        "in a list of runners",
        contract=check(run=DROP, results=DROP, runners=[{"run": "make", "results": EXIT_CODE}]),
    ),
    speaks("missing-negative-suite", "C", contract={"ecosystem": "c"}),
    quiet("missing-negative-suite", "Python derives its own"),
    quiet(
        "missing-negative-suite",
        "a suite",
        contract={"ecosystem": "c"} | check(negative=[{"from": "checks/wrong", "to": "tests/wrong"}]),
    ),
    evasion(
        "missing-negative-suite",
        "C with a Python environment",
        contract={"ecosystem": "c", "environment": {"python": {"lock": "requirements.txt"}}},
    ),
    evasion("missing-negative-suite", "no ecosystem", contract={"ecosystem": DROP}),
]

INVENTORIES = [
    speaks("check-without-inventory", "junit", contract=check(inventory=DROP)),
    speaks("check-without-inventory", "undecided", contract=check(inventory=DROP, results=DROP)),
    quiet("check-without-inventory", "one"),
    quiet(
        "check-without-inventory", "exit code on purpose", contract=check(inventory=DROP, results=EXIT_CODE)
    ),
    quiet("check-without-inventory", "a build", contract={"checks": [unit(), OTHER]}),
    evasion(
        "check-without-inventory",
        "an exit code beside junit",
        contract=check(inventory=DROP, results=[*EXIT_CODE, {"format": "junit"}]),
    ),
    evasion(
        "check-without-inventory",
        "a second runner that says nothing",
        contract=check(inventory=DROP, results=EXIT_CODE, runners=[{"run": "make more"}]),
    ),
    evasion(
        "check-without-inventory",
        "junit in the build gate",
        contract={"checks": [unit(), unit(id="b", gate="build", inventory=DROP)]},
    ),
    speaks("mute-inventory", "an exit code", contract=check(results=EXIT_CODE)),
    quiet("mute-inventory", "junit"),
    evasion(
        "mute-inventory", "a runner without results", contract=check(results=DROP, runners=[{"run": "make"}])
    ),
    speaks("empty-inventory", "no ids", inventories=listing([], [])),
    quiet("empty-inventory", "one id", inventories=listing([], ["a"])),
    evasion("empty-inventory", "a blank id", inventories=listing([" "], [])),
    speaks(
        "decisive-test-skippable",
        "may be skipped",
        contract=check(expected_skips=["a"]),
        inventories=listing(["a"], []),
    ),
    quiet(
        "decisive-test-skippable",
        "a guard may be skipped",
        contract=check(expected_skips=["b"]),
        inventories=listing(["a"], ["b"]),
    ),
    evasion(
        "decisive-test-skippable",
        "among others",
        contract=check(expected_skips=["b", "a"]),
        inventories=listing(["c", "a"], ["b"]),
    ),
    speaks("baseline-contradiction", "passes before", contract=check(baseline="pass")),
    quiet("baseline-contradiction", "fails before"),
    evasion(
        "baseline-contradiction",
        "one id of many",
        contract=check(baseline="pass"),
        inventories=listing(["a"], ["b", "c"]),
    ),
    evasion("baseline-contradiction", "said to fail, and nothing does", inventories=listing([], ["b", "c"])),
    quiet(
        "baseline-contradiction",
        "guards what works",
        contract=check(baseline="pass"),
        inventories=listing([], ["b"]),
    ),
]

PATHS = [
    speaks("invalid-glob", "a reversed range", contract={"policy": {"protected": ["tests/[z-a]"]}}),
    speaks("invalid-glob", "a set in a set", contract={"policy": {"generated": ["[[:x:]]"]}}),
    quiet(
        "invalid-glob", "sound ones", contract={"policy": {"protected": ["tests/**", "!tests/[a-z]/*.py"]}}
    ),
    evasion("invalid-glob", "a comment", contract={"policy": {"writable": ["textkit/**", "#tests/**"]}}),
    evasion("invalid-glob", "only a negation", contract={"policy": {"protected": ["tests/**", "!"]}}),
    speaks("oracle-writable", "unprotected", contract={"policy": {"protected": []}}),
    quiet("oracle-writable", "protected"),
    quiet(
        "oracle-writable",
        "taken back",
        contract={"policy": {"writable": ["**", "!tests/**"], "protected": []}},
    ),
    evasion(
        "oracle-writable",
        "taken back, then given again",
        contract={"policy": {"writable": ["!tests/**", "**"], "protected": []}},
    ),
    evasion(
        "oracle-writable",
        "a hole in the protection",
        contract={"policy": {"protected": ["tests/**", "!tests/test_wrap.py"]}},
    ),
    evasion(
        "oracle-writable",
        "one file among several",
        contract={"policy": {"protected": ["tests/test_wrap.py"]}},
        files=(pin("checks/unit/test_wrap.py"), pin("checks/unit/deep/test_more.py")),
    ),
    evasion(
        "oracle-writable",
        "a protection that is a comment",
        contract={"policy": {"protected": ["#tests/**"]}},
    ),
    evasion(
        "oracle-writable",
        "a crooked target",
        contract=check(files=[{"from": "./checks//unit", "to": "docs/./extra"}])
        | {"policy": {"writable": ["docs/extra/**"]}},
    ),
    speaks(
        "oracle-shown",
        "checks inside the repository",
        contract={"repository": {"kind": "directory", "source": "checks"}},
    ),
    quiet("oracle-shown", "side by side", contract={"repository": {"kind": "directory", "source": "repo"}}),
    quiet(
        "oracle-shown", "a common prefix", contract={"repository": {"kind": "directory", "source": "check"}}
    ),
    evasion(
        "oracle-shown",
        "as a configuration file",
        contract={"environment": {"files": [{"source": "./checks/unit/test_wrap.py", "target": "/t.py"}]}},
    ),
    evasion("oracle-shown", "as a setup script", contract=step(scripts=["reference.patch"])),
    evasion("oracle-shown", "as an artifact", contract=artifact("reference.patch")),
    quiet("oracle-shown", "an artifact from elsewhere", contract=artifact("https://example.org/checks/unit")),
    evasion(
        "oracle-shown", "the whole contract", contract={"repository": {"kind": "directory", "source": "."}}
    ),
    speaks("judge-hooks-writable", "anything", contract={"policy": {"writable": ["**"]}}),
    quiet("judge-hooks-writable", "one package"),
    quiet("judge-hooks-writable", "not Python", contract={"ecosystem": "c", "policy": {"writable": ["**"]}}),
    evasion(
        "judge-hooks-writable",
        "protected at the root only",
        contract={"policy": {"protected": ["tests/test_wrap.py", "conftest.py", "!tests/conftest.py"]}},
    ),
]

REFERENCES = [
    speaks("missing-reference", "none", contract={"reference": DROP}),
    quiet("missing-reference", "one"),
    evasion("missing-reference", "a lock", contract={"reference": DROP}, is_locked=True),
    speaks("unreadable-reference", "prose", reference=b"change the loop\n"),
    quiet("unreadable-reference", "a diff"),
    quiet(
        "unreadable-reference",
        "a rename alone",
        reference=b"diff --git a/x.py b/y.py\nsimilarity index 100%\nrename from x.py\nrename to y.py\n",
    ),
    evasion("unreadable-reference", "nothing", reference=b""),
    evasion(
        "unreadable-reference", "a hunk that is cut off", reference=b"--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n-a\n"
    ),
    evasion(
        "unreadable-reference",
        "an endless number",
        reference=b"--- a/x\n+++ b/x\n@@ -" + b"9" * 5000 + b" +1 @@\n+a\n",
    ),
    speaks("reference-breaks-policy", "not writable", contract={"policy": {"writable": ["docs/**"]}}),
    speaks(
        "reference-breaks-policy", "protected", contract={"policy": {"protected": ["**/wrap.py", "tests/**"]}}
    ),
    speaks("reference-breaks-policy", "generated", contract={"policy": {"generated": ["textkit/"]}}),
    quiet("reference-breaks-policy", "allowed"),
    evasion(
        "reference-breaks-policy",
        "a rename out of a protected directory",
        reference=RENAMED_OUT,
    ),
    evasion(
        "reference-breaks-policy",
        "a quoted name",
        reference=QUOTED_NAME,
    ),
    evasion("reference-breaks-policy", "a quoted rename", reference=QUOTED_RENAME),
    speaks(
        "reference-touches-oracle",
        "a test",
        reference=b"--- a/tests/test_wrap.py\n+++ b/tests/test_wrap.py\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    quiet("reference-touches-oracle", "the product"),
    evasion(
        "reference-touches-oracle",
        "no prefixes",
        reference=b"--- tests/test_wrap.py\n+++ tests/test_wrap.py\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    evasion(
        "reference-touches-oracle",
        "deletion",
        reference=b"--- a/tests/test_wrap.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    ),
    speaks("reference-exceeds-limits", "lines", contract={"policy": {"max_lines_changed": 5}}),
    quiet(
        "reference-exceeds-limits",
        "as many as allowed",
        contract={"policy": {"max_lines_changed": 6, "max_files_changed": 1}},
    ),
    evasion(
        "reference-exceeds-limits",
        "files",
        contract={"policy": {"max_lines_changed": 99, "max_files_changed": 0}},
    ),
    speaks(
        "reference-exceeds-envelope", "lines", contract={"scoring": {"envelope": {"lines": 5, "files": 3}}}
    ),
    quiet(
        "reference-exceeds-envelope", "inside", contract={"scoring": {"envelope": {"lines": 6, "files": 1}}}
    ),
    evasion(
        "reference-exceeds-envelope",
        "no decay",
        contract={"scoring": {"lambda": "0", "envelope": {"lines": 1, "files": 1}}},
    ),
]

LIMITS = [
    speaks(
        "weights-sum",
        "too much",
        contract={"scoring": {"weights": {"minimal": "0.5", "trace": "0.5", "maintainable": "0.5"}}},
    ),
    quiet(
        "weights-sum",
        "a sum that floats would miss",
        contract={"scoring": {"weights": {"minimal": "0.1", "trace": "0.2", "maintainable": "0.7"}}},
    ),
    evasion(
        "weights-sum",
        "almost",
        contract={"scoring": {"weights": {"minimal": "0.33", "trace": "0.33", "maintainable": "0.33"}}},
    ),
    speaks("interface-weights", "too much", contract={"scoring": {"interface": {"ok": "1", "value": "0.5"}}}),
    quiet(
        "interface-weights",
        "a penalty beside",
        contract={"scoring": {"interface": {"ok": "0.8", "value": "0.2", "violation": "1"}}},
    ),
    evasion(
        "interface-weights",
        "a penalty that makes up for it",
        contract={"scoring": {"interface": {"ok": "1", "value": "0.2", "violation": "0.2"}}},
    ),
    speaks("limits-inconsistent", "a command", contract={"limits": {"wall_seconds": 200}}),
    quiet("limits-inconsistent", "equal", contract={"limits": {"wall_seconds": 600}}),
    evasion("limits-inconsistent", "a check", contract=check(timeout_seconds=1801)),
    evasion("limits-inconsistent", "a step", contract=step(timeout_seconds=1801)),
    speaks(
        "key-not-enforced",
        "tools to mask in a single stage",
        contract={"policy": {"stages": "single", "test_tools": ["/usr/bin/pytest"]}},
    ),
    quiet(
        "key-not-enforced",
        "tools to mask in stages",
        contract={"policy": {"stages": "explicit", "test_tools": ["/usr/bin/pytest"]}},
    ),
    evasion(
        "key-not-enforced",
        "manifests under a free rule",
        contract={"policy": {"dependencies": {"rule": "free", "manifests": ["setup.cfg"]}}},
    ),
    speaks("weak-isolation", "L1", contract={"environment": {"isolation": "L1"}}),
    quiet("weak-isolation", "L2", contract={"environment": {"isolation": "L2"}}),
    evasion("weak-isolation", "L0", contract={"environment": {"isolation": "L0"}}),
]

FIELD_CASES: list[Case] = [*PINS, *CHECKS, *INVENTORIES, *PATHS, *REFERENCES, *LIMITS]
