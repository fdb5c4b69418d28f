#!/usr/bin/env bash
# What RepoTrial does today, on its own examples: contracts, then evidence. Leaves everything in demo-out/.
set -euo pipefail
bin=$1/bin
out=demo-out
rm -rf "$out"
mkdir -p "$out"
export XDG_CONFIG_HOME=$PWD/$out/config

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "${*/$bin\//}"; "$@"; }
expect_failure() {
    printf '\033[2m$ %s\033[0m\n' "${*/$bin\//}"
    if "$@"; then echo "demo: this should have been refused" >&2; exit 1; fi
}

say "The example contracts are sound, and their pins hold"
run "$bin/repotrial" contract check examples/contracts/*
run "$bin/repotrial" contract lock --check examples/contracts/*

say "One of them, as people read it"
run "$bin/repotrial" contract show examples/contracts/textkit-wide-chars

say "A contract with mistakes: all of them at once, with their lines"
cp -r examples/contracts/textkit-wide-chars "$out/broken"
sed -i 's/^timeout_seconds = 60$/timeout_second = 60/; s/^kind = "bug-fix"$/kind = "bugfix"/; s/^minimal = .*/minimal = 0.7/' "$out/broken/contract.toml"
echo 'import os' >>"$out/broken/checks/unit/extra.py"
expect_failure "$bin/repotrial" contract check "$out/broken"

say "A contract from a merged change of one's own"
git -c init.defaultBranch=main init -q "$out/app"
(
    cd "$out/app"
    git config user.email demo@example.org && git config user.name demo
    mkdir app tests
    printf 'def mean(values):\n    return sum(values) / len(values)\n' >app/__init__.py
    printf 'from app import mean\n\n\ndef test_mean():\n    assert mean([1, 3]) == 2\n' >tests/test_mean.py
    printf '[project]\nname = "app"\nversion = "1"\n' >pyproject.toml
    git add . && git commit -qm "Add mean"
    printf 'def mean(values):\n    values = list(values)\n    return sum(values) / len(values) if values else None\n' >app/__init__.py
    printf '\n\ndef test_mean_of_nothing_is_none():\n    assert mean([]) is None\n' >>tests/test_mean.py
    git commit -qam "mean([]) crashes

Calling mean with no values raises ZeroDivisionError. It must return None instead; iterators must work too."
)
run "$bin/repotrial" contract new "$out/mine" --repository "$out/app" --from-commit HEAD --embed
run "$bin/repotrial" contract lock "$out/mine"

say "What this machine can isolate, and a look around where the checks of a contract run"
if run "$bin/repotrial" doctor; then
    cache=$(mktemp -d "${TMPDIR:-/tmp}/repotrial-demo-XXXXXX")
    chmod 755 "$cache"
    trap 'chmod -R u+w "$cache"; rm -rf "$cache"' EXIT
    run "$bin/repotrial" sandbox exec --cache "$cache" examples/contracts/reclog-recovery -- \
        bash -c 'make -s all && bash tests/basic.sh ./reclog; id; ls /home; git log --oneline'
else
    echo "(the sandbox part is left out: see the fixes above)"
fi

say "A record of a run (written by hand: no agent ran, no check was executed), sealed, read and verified"
"$bin/python" tools/demo_record.py examples/contracts/textkit-wide-chars "$out/run" "$XDG_CONFIG_HOME/repotrial/seal-key.pem"
run "$bin/repotrial" run show "$out/run"
run "$bin/repotrial" run verify "$out/run"

say "The same record after somebody gave it a few passing tests"
cp -r "$out/run" "$out/forged"
sed -i 's/"passed_count":0/"passed_count":9/' "$out/forged/trace.jsonl"
expect_failure "$bin/repotrial" run verify "$out/forged"

say "Done. Everything is in demo-out/; the documentation starts at docs/README.md"
