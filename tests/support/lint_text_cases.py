"""The same for the rules that read texts and values: leaks, vagueness, secrets."""

from __future__ import annotations

from typing import Any

from support.lint_contracts import REFERENCE, STATEMENT, Case, evasion, quiet, speaks, unit

__all__ = ["TEXT_CASES"]

LEAK = "total = sum(cell_width(char) for char in word)"


def say(text: str) -> str:
    """The sound statement with something added."""
    return f"{STATEMENT}\n{text}\n"


def variables(**values: str) -> dict[str, Any]:
    return {"environment": {"variables": values}}


LINES = [
    speaks("reference-in-statement", "verbatim", statement=say(LEAK)),
    quiet("reference-in-statement", "the sound statement"),
    quiet(
        "reference-in-statement", "a line that the snapshot has", statement=say("Today: `total = len(word)`.")
    ),
    quiet(
        "reference-in-statement",
        "imports and short lines",
        statement=say("`import unicodedata`, `return total`"),
    ),
    quiet(
        "reference-in-statement",
        "an error whose wording is the interface",
        statement=say('It must raise ValueError("width must be positive").'),
        reference=REFERENCE.replace(b"import unicodedata", b'raise ValueError("width must be positive")'),
    ),
    quiet(
        "reference-in-statement",
        "an error that is returned",
        statement=say("It must return `Err(Error::UnknownSymbol(id))`."),
        reference=REFERENCE.replace(b"import unicodedata", b"return Err(Error::UnknownSymbol(id));"),
    ),
    quiet(
        "reference-in-statement",
        "a value that is returned as it is",
        statement=say("It must return `{ ok: false, error: 'expired' }`."),
        reference=REFERENCE.replace(b"import unicodedata", b"return { ok: false, error: 'expired' };"),
    ),
    quiet(
        "reference-in-statement",
        "the wording of a documentation file",
        statement=say("The page says: width = 10 (in terminal cells)."),
        reference=b"--- a/docs/a.md\n+++ b/docs/a.md\n@@ -0,0 +1 @@\n+width = 10 (in terminal cells)\n",
    ),
    evasion(
        "reference-in-statement",
        "spaces and quotes",
        statement=say("total=sum( cell_width(char)for char in word )"),
    ),
    evasion(
        "reference-in-statement", "in a fence, indented", statement=say(f"```python\n        {LEAK}\n```")
    ),
    evasion(
        "reference-in-statement",
        "quoted over two lines",
        statement=say("> total = sum(cell_width(char)\n> for char in word)"),
    ),
    evasion("reference-in-statement", "as a diff", statement=say(f"```diff\n+    {LEAK}\n```")),
    evasion("reference-in-statement", "escaped for Markdown", statement=say(LEAK.replace("_", "\\_"))),
    evasion(
        "reference-in-statement", "invisible characters", statement=say(LEAK.replace("sum", "su\u200bm"))
    ),
    evasion(
        "reference-in-statement",
        "full-width letters",
        statement=say(LEAK.replace("total", "\uff54\uff4f\uff54\uff41\uff4c")),
    ),
    evasion(
        "reference-in-statement",
        "without its keyword",
        statement=say("2 if unicodedata.east_asian_width(char) in 'WF' else 1"),
    ),
    evasion("reference-in-statement", "as a hint", contract={"clarify": {"hints": [f"try {LEAK}"]}}),
    evasion("reference-in-statement", "in the title", contract={"title": LEAK}),
    evasion(
        "reference-in-statement",
        "in the behavior",
        contract={"clarify": {"behavior": [f"afterwards {LEAK}"]}},
    ),
]

NAMES = [
    speaks("new-name-in-statement", "a helper", statement=say("A helper cell_width would do.")),
    quiet(
        "new-name-in-statement", "a name that is there", statement=say("See `measure` and east_asian_width.")
    ),
    quiet(
        "new-name-in-statement",
        "a declared entry point",
        statement=say("Add `cell_width(char)`."),
        contract={"clarify": {"entry_points": ["textkit.wrap.cell_width"]}},
    ),
    quiet(
        "new-name-in-statement",
        "a plain word",
        statement=say("Text must be wide."),
        reference=REFERENCE.replace(b"cell_width", b"wide"),
    ),
    evasion(
        "new-name-in-statement",
        "a plain word between backticks",
        statement=say("Add a function `wide()`."),
        reference=REFERENCE.replace(b"cell_width", b"wide"),
    ),
    evasion("new-name-in-statement", "escaped", statement=say("A helper cell\\_width would do.")),
    evasion(
        "new-name-in-statement", "as a hint", contract={"clarify": {"hints": ["write cell_width first"]}}
    ),
    evasion(
        "new-name-in-statement",
        "a C function",
        statement=say("Write cell_count()."),
        reference=b"--- a/w.c\n+++ b/w.c\n@@ -1 +1,2 @@\n int x;\n+static int cell_count(const char *s)\n",
    ),
    speaks("reference-file-in-statement", "its path", statement=say("The bug is in textkit/wrap.py.")),
    quiet(
        "reference-file-in-statement", "another file", statement=say("See textkit/unwrap.py and wrap.pyc.")
    ),
    quiet(
        "reference-file-in-statement",
        "given on purpose",
        statement=say("The bug is in textkit/wrap.py."),
        contract={"clarify": {"modules": ["textkit"]}},
    ),
    evasion("reference-file-in-statement", "below the root", statement=say("Look at ./textkit/wrap.py")),
    evasion("reference-file-in-statement", "another platform", statement=say("Look at textkit\\wrap.py")),
    evasion("reference-file-in-statement", "in capitals", statement=say("Look at `TextKit/Wrap.py`")),
    evasion(
        "reference-file-in-statement",
        "its name alone",
        statement=say("Look at wrapping.py"),
        reference=REFERENCE.replace(b"wrap.py", b"wrapping.py"),
    ),
    speaks(
        "check-name-in-statement", "a test id", statement=say("Make tests/test_wrap.py::test_wide_text pass.")
    ),
    quiet("check-name-in-statement", "none"),
    quiet("check-name-in-statement", "a test that passes already", statement=say("Keep test_plain green.")),
    evasion("check-name-in-statement", "the file's name", statement=say("Hidden tests are in test_wrap.py")),
    evasion("check-name-in-statement", "the function", statement=say("Think of `test_wide_text`.")),
    evasion("check-name-in-statement", "the source", statement=say("See checks/unit/test_wrap.py")),
    evasion("check-name-in-statement", "the inventory", statement=say("See checks/unit.json")),
    evasion(
        "check-name-in-statement", "as a hint", contract={"clarify": {"hints": ["run tests/test_wrap.py"]}}
    ),
]

STATEMENTS = [
    speaks("empty-statement", "nothing", statement=""),
    quiet("empty-statement", "one word", statement="Go"),
    quiet("empty-statement", "code alone", statement="```\nfill()\n```\n"),
    evasion("empty-statement", "an empty fence", statement="```\n```\n"),
    evasion("empty-statement", "a heading", statement="# Fix the wrapping\n"),
    evasion("empty-statement", "an empty template", statement="<!-- Describe what is expected. -->\n"),
    evasion("empty-statement", "an open comment", statement="<!-- Describe what is expected."),
    evasion("empty-statement", "invisible characters", statement="\u200b\ufeff\n"),
    speaks("vague-statement", "a wish", statement="Make wrapping better.\n"),
    quiet(
        "vague-statement",
        "an empty form, which another rule reports",
        statement="# T\n\n<!-- What should be -->\n",
    ),
    quiet(
        "vague-statement", "what was observed", statement="`add(MAX, 2)` panics in builds for debugging.\n"
    ),
    quiet("vague-statement", "the sound statement"),
    quiet(
        "vague-statement",
        "behavior in the contract",
        statement="Bitte reparieren.\n",
        contract={"clarify": {"behavior": ["keine Zeile ist breiter als gefordert"]}},
    ),
    quiet(
        "vague-statement", "short, with an example", statement="`fill('x', 0)` should raise a ValueError.\n"
    ),
    evasion(
        "vague-statement",
        "the word in a heading",
        statement="# What it should do in the end\n\nFix wrapping.\n",
    ),
    evasion(
        "vague-statement",
        "in a comment",
        statement="Fix it.\n<!-- Say what must be true after the change. -->\n",
    ),
    evasion(
        "vague-statement", "in a fence", statement="Fix it.\n```\nthe result must be right, always\n```\n"
    ),
    evasion(
        "vague-statement",
        "blank behavior",
        statement="Fix it.\n",
        contract={"clarify": {"behavior": [" ", "-"]}},
    ),
    evasion("vague-statement", "many words, no behavior", statement="wrapping and filling " * 20),
]

PEM = "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3Blbn"
TOKEN = "ghp_" + "a1B2c3D4e5" * 4

SECRETS = [
    speaks("secret-in-variables", "by name", contract=variables(REGISTRY_TOKEN="correct-horse-battery")),
    quiet(
        "secret-in-variables",
        "plain settings",
        contract=variables(LANG="C.UTF-8", MAX_TOKENS="4096", SORT_KEY="name"),
    ),
    quiet(
        "secret-in-variables",
        "stand-ins",
        contract=variables(DB_PASSWORD="postgres", SECRET_KEY="insecure-test-key"),
    ),
    quiet(
        "secret-in-variables",
        "elsewhere",
        contract=variables(TOKEN="$OTHER", PASSWORD_FILE="/run/secrets/db"),
    ),
    quiet(
        "secret-in-variables",
        "digests and commits",
        contract=variables(BASE="4f" * 32, ID="sha256:" + "ab" * 32),
    ),
    quiet(
        "secret-in-variables",
        "a local database",
        contract=variables(DATABASE_URL="postgres://postgres:postgres@localhost/app"),
    ),
    quiet(
        "secret-in-variables",
        "words and numbers in a row",
        contract=variables(
            OPTIONS="--experimental-vm-modules --max_old_space_size=4096",
            REPORT="coverage-report-2024-05-12-linux-x64",
        ),
    ),
    quiet(
        "secret-in-variables",
        "the name of a class",
        contract=variables(PASSWORD_HASHERS="django.contrib.auth.hashers.MD5PasswordHasher"),
    ),
    quiet(
        "secret-in-variables",
        "a test account whose password is its name",
        contract=variables(DATABASE_URL="postgresql://app:app@localhost/app"),
    ),
    evasion("secret-in-variables", "the database's own name", contract=variables(PGPASSWORD="hunter22")),
    evasion("secret-in-variables", "some key", contract=variables(LICENSE_KEY="correct-horse-battery")),
    evasion("secret-in-variables", "an innocent name", contract=variables(BUILD_LABEL=TOKEN)),
    evasion("secret-in-variables", "a stand-in in front", contract=variables(A="test-" + TOKEN)),
    evasion(
        "secret-in-variables",
        "words with more than words",
        contract=variables(ADMIN_PASSWORD="MyRootPass!Zq"),
    ),
    evasion(
        "secret-in-variables", "random characters", contract=variables(SALT="q7Zx0Lr4Tn8Wb2Vy6Kd1Hs5Jm3Pf9Gc")
    ),
    evasion("secret-in-variables", "a private key", contract=variables(IDENTITY=PEM)),
    evasion("secret-in-variables", "lower case", contract=variables(api_key="correct-horse-battery")),
    evasion(
        "secret-in-variables", "in a URL", contract=variables(INDEX="https://bot:kR7pX2vQ@pypi.example.org")
    ),
    evasion(
        "secret-in-variables",
        "in a check",
        contract={"checks": [unit(variables={"X_TOKEN": "correct-horse"})]},
    ),
    evasion(
        "secret-in-variables",
        "in a runner",
        contract={"checks": [unit(runners=[{"run": "make", "variables": {"X_TOKEN": "correct-horse"}}])]},
    ),
    evasion(
        "secret-in-variables",
        "in a setup step",
        contract={
            "setup": [{"run": "make", "timeout_seconds": 9, "variables": {"X_TOKEN": "correct-horse"}}]
        },
    ),
    speaks(
        "secret-in-text",
        "a command",
        contract={"setup": [{"run": f"curl -H '{TOKEN}'", "timeout_seconds": 9}]},
    ),
    quiet(
        "secret-in-text",
        "a reference",
        contract={"setup": [{"run": "curl https://u:$T@example.org", "timeout_seconds": 9}]},
    ),
    evasion(
        "secret-in-text",
        "the source",
        contract={"repository": {"kind": "git", "source": "https://u:kR7pX2vQ@h/r", "commit": "4" * 40}},
    ),
    evasion("secret-in-text", "the statement", statement=say(f"Use {TOKEN} to fetch.")),
    evasion("secret-in-text", "a hint", contract={"clarify": {"hints": [f"use {TOKEN}"]}}),
    evasion("secret-in-text", "a check", contract={"checks": [unit(run=f"make TOKEN={TOKEN}")]}),
    speaks(
        "secret-shown-to-agent",
        "act",
        contract={"environment": {"secrets": [{"name": "K", "reason": "r", "phases": ["act"]}]}},
    ),
    quiet(
        "secret-shown-to-agent",
        "accept",
        contract={"environment": {"secrets": [{"name": "K", "reason": "r"}]}},
    ),
    evasion(
        "secret-shown-to-agent",
        "among others",
        contract={
            "environment": {
                "secrets": [{"name": "K", "reason": "r", "phases": ["setup", "act"], "is_required": False}]
            }
        },
    ),
]

TEXT_CASES: list[Case] = [*LINES, *NAMES, *STATEMENTS, *SECRETS]
