"""What commands do, and which files they touch."""

from __future__ import annotations

import pytest

from repotrial.shell import find_classes, find_file_accesses, is_test_command, parse_shell
from repotrial.shell._programs import COMMAND_CLASSES, CommandClass

CLASSES: dict[CommandClass, list[str]] = {
    "read": [
        "ls",
        "cat x | head",
        "grep -rn x . 2>/dev/null",
        "sed -n 1,5p x",
        "git status",
        "git log -5",
        "git show HEAD:x",
        "git stash list",
        "git branch -a",
        "find . -name x",
        "pip list",
        "echo hi > /dev/null",
        "python --version",
        "black --check .",
        "ruff check .",
        "cat x > /tmp/y",
        "which npm",
        "tar -tzf x.tgz",
        "cd src && ls",
    ],
    "other": ["python script.py", "./tool", "$X", "node app.js", "python -c 'print(1)'", "bash run.sh"],
    "write": [
        "echo x > y",
        "sed -i s/a/b/ x",
        "rm x",
        "cat <<'EOF' > x\ny\nEOF",
        "git commit -am x",
        "git checkout -- x",
        "find . -delete",
        "find . -exec rm {} +",
        "python -c \"open('x', 'w').write('y')\"",
        "black .",
        "ls | tee out",
        "apply_patch < x",
        "perl -pi -e s/a/b/ x",
    ],
    "build": ["make", "cargo build", "npm run build", "gcc x.c", "python setup.py build", "go build ./..."],
    "test": [
        "pytest",
        "python -m pytest -q | tail",
        "python3.12 -m unittest",
        "npm test",
        "npm run test:unit",
        "npx jest",
        "cargo test",
        "go test ./...",
        "make check",
        "make -C x test",
        "tox -e py",
        "./run_tests.sh",
        "python manage.py test",
        "node --test",
        "bash -lc 'cd x && uv run pytest'",
        "ctest",
        "coverage run -m pytest",
        "./gradlew test",
        "mvn -q test",
        "python test_x.py",
        "timeout 60 yarn test",
    ],
    "install": [
        "pip install x",
        "python -m pip install -e .",
        "npm ci",
        "uv pip install x",
        "poetry add x",
        "cargo add x",
        "go get x",
        "apt-get install x",
        "yarn",
    ],
    "git-history": ["git reflog", "git log --all", "git rev-list --all", "git fsck", "git for-each-ref"],
    "network": ["curl http://x", "git fetch", "git clone x", "ssh x", "npm publish", "ping x"],
    "system": ["mount x y", "docker ps", "kill 1", "mkfs.ext4 /dev/x", "unshare -r ls", "systemctl stop x"],
    "privilege": ["sudo ls", "su -c ls", "chmod u+s x", "sudo apt-get install x", "setcap x y"],
}
_CASES = [(kind, text) for kind, texts in CLASSES.items() for text in texts]


@pytest.mark.parametrize(("kind", "text"), _CASES, ids=[text for _, text in _CASES])
def test_a_command_has_its_class(kind: CommandClass, text: str) -> None:
    assert max(find_classes(parse_shell(text)), key=COMMAND_CLASSES.index) == kind
    assert is_test_command(text) is (kind == "test")


def test_a_script_has_the_strongest_class_of_its_commands_and_keeps_the_others() -> None:
    script = parse_shell("cat x; pip install y && pytest > out")
    assert find_classes(script) == {"read", "install", "test"}
    assert COMMAND_CLASSES.index("install") > COMMAND_CLASSES.index("test")


def test_a_program_with_arguments_is_a_test_command_like_its_line() -> None:
    assert is_test_command(["sh", "-c", "cd a && python -m pytest -k 'x y'"])
    assert is_test_command(["/usr/bin/python3", "-m", "pytest"])
    assert not is_test_command(["cat", "pytest.ini"])
    assert not is_test_command(["echo", "run pytest; npm test"])
    assert not is_test_command("grep -rn pytest .")


ACCESSES = [
    ("cat a b", [("read", "a", None), ("read", "b", None)]),
    ("sed -n '10,20p' a", [("read", "a", (10, 20))]),
    ("sed -n '1,5p;9p' a", [("read", "a", (1, 5)), ("read", "a", (9, 9))]),
    ("sed -n '10,$p' a", [("read", "a", (10, None))]),
    ("sed -n '/x/,/y/p' a", [("read", "a", None)]),
    ("sed 20q a", [("read", "a", (1, 20))]),
    ("sed -i s/x/y/ a", [("write", "a", None)]),
    ("head -50 a", [("read", "a", (1, 50))]),
    ("head -n 5 a", [("read", "a", (1, 5))]),
    ("head a", [("read", "a", (1, 10))]),
    ("head -c 100 a", [("read", "a", None)]),
    ("tail -n +20 a", [("read", "a", (20, None))]),
    ("tail -20 a", [("read", "a", None)]),
    ("less a", [("read", "a", None)]),
    ("nl -ba a | sed -n '10,20p'", [("read", "a", (10, 20))]),
    ("cat a | head -5", [("read", "a", (1, 5))]),
    ("cat a | grep x", [("read", "a", None)]),
    ("awk 'NR>=10 && NR<=20' a", [("read", "a", (10, 20))]),
    ("awk 'NR==3' a", [("read", "a", (3, 3))]),
    ("wc -l a", [("read", "a", None)]),
    ("rg -n x src tests", [("search", "src", None), ("search", "tests", None)]),
    ("rg x", [("search", ".", None)]),
    ("rg -t py -g '*.py' x src", [("search", "src", None)]),
    ("rg --files src", [("list", "src", None)]),
    ("grep -rn x src --include '*.py'", [("search", "src", None)]),
    ("grep -e x a", [("search", "a", None)]),
    ("grep -r x", [("search", ".", None)]),
    ("find src tests -name '*.py'", [("list", "src", None), ("list", "tests", None)]),
    ("find -name x", [("list", ".", None)]),
    ("find . -exec grep -l x {} +", [("list", ".", None)]),
    ("ls", [("list", ".", None)]),
    ("ls -la src", [("list", "src", None)]),
    ("tree -L 2 src", [("list", "src", None)]),
    ("git grep -n x -- src", [("search", "src", None)]),
    ("git show HEAD~1:src/a.py", [("read", "src/a.py", None)]),
    ("git diff -- a", [("read", "a", None)]),
    ("git -C sub show HEAD:a", [("read", "sub/a", None)]),
    ("git ls-files src", [("list", "src", None)]),
    ("git blame -L 1,5 a", [("read", "a", None)]),
    ("python -c \"print(open('a').read())\"", [("read", "a", None)]),
    ("python - <<'E'\nfrom pathlib import Path\nPath('a').write_text('x')\nE", [("write", "a", None)]),
    ("cat < a > b", [("read", "a", None), ("write", "b", None)]),
    ("cp a b", [("read", "a", None), ("write", "b", None)]),
    ("cat > a <<'E'\nx\nE", [("write", "a", None)]),
    ("cd src && cat a ../b /c", [("read", "src/a", None), ("read", "b", None), ("read", "/c", None)]),
    ("for f in a b; do cat $f; done", [("read", "a", None), ("read", "b", None)]),
    ("bash -lc 'cat a'", [("read", "a", None)]),
    ("cat $X -", []),
    ("cd $X && cat a", []),
    ("cat a 2>/dev/null", [("read", "a", None)]),
    ("echo cat a", []),
]


@pytest.mark.parametrize(("text", "expected"), ACCESSES, ids=[text for text, _ in ACCESSES])
def test_files_that_a_command_touches_are_found(
    text: str, expected: list[tuple[str, str, tuple[int, int | None] | None]]
) -> None:
    found = [
        (each.kind, each.path, each.line_range and (each.line_range.first, each.line_range.last))
        for each in find_file_accesses(parse_shell(text))
    ]
    assert found == expected


def test_paths_start_from_the_given_directory() -> None:
    (access,) = find_file_accesses(parse_shell("cd pkg; cat a.py"), "/workspace")
    assert access.path == "/workspace/pkg/a.py"
