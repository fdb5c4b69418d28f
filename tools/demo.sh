#!/usr/bin/env bash
# What RepoTrial does, on its own examples: contracts, trials, verdicts, evidence. Leaves everything in demo-out/.
# No key and no network at run time: packages are fetched once, into a cache of the demo's own.
set -euo pipefail
bin=$1/bin
out=demo-out
rm -rf "$out"
mkdir -p "$out"
export XDG_CONFIG_HOME=$PWD/$out/config
export COLUMNS=${COLUMNS:-140}

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "${*/$bin\//}"; "$@"; }
expect_failure() {
    printf '\033[2m$ %s\033[0m\n' "${*/$bin\//}"
    if "$@"; then echo "demo: this should have been refused" >&2; exit 1; fi
}

say "The example contracts are sound, and their pins hold"
tools/fetch_examples.sh "$1" || echo "(one example needs a package archive that could not be fetched; it is left out)"
contracts=()
for contract in examples/contracts/*; do
    if "$bin/repotrial" contract check "$contract" >/dev/null 2>&1; then contracts+=("$contract"); fi
done
run "$bin/repotrial" contract check "${contracts[@]}"
run "$bin/repotrial" contract lock --check "${contracts[@]}"

say "What this machine can isolate"
if ! run "$bin/repotrial" doctor; then
    echo "(trials need a sandbox: see the fixes above; \`repotrial doctor --fix\` installs what it may)"
    exit 0
fi
cache=$(mktemp -d "${TMPDIR:-/tmp}/repotrial-demo-XXXXXX")
chmod 755 "$cache"
trap 'chmod -R u+w "$cache"; rm -rf "$cache"' EXIT
# A real agent is fetched meanwhile, if a registry answers in time; it is kept for the next demo.
agents_cache=${REPOTRIAL_AGENT_CACHE:-$PWD/.agent-cache}
install_agent() { timeout 60 "$bin/repotrial" agent install "$1" --cache "$agents_cache"; }
{ install_agent pi || install_agent goose; } >"$out/agent-install.txt" 2>&1 &
installing=$!

say "Two contracts are certified: the snapshot fails, the reference passes, cheats do not"
for name in textkit-wide-chars reclog-recovery; do
    cp -r "examples/contracts/$name" "$out/$name"
    run "$bin/repotrial" contract certify "$out/$name" --quick --jobs 2 --cache "$cache"
done
say "The certificates that the examples came with"
for contract in "${contracts[@]}"; do
    printf '%-26s ' "$(basename "$contract")"
    "$bin/repotrial" contract show "$contract" | grep -m 1 -oE 'certified \(.*|not certified.*|no certificate.*' || echo "no certificate"
done

say "Six agents on four contracts"
for name in feedmill-upgrade spoolq-hardening stockbook-quantities tillbook-state; do
    agents=(--agent noop --agent reference)
    for script in examples/agents/"$name"/*.sh; do agents+=(--agent "script:$script"); done
    run "$bin/repotrial" run start "examples/contracts/$name" "${agents[@]}" --jobs 2 --runs "$out/runs" --cache "$cache" \
        | grep -vE '^ +[0-9.]+s '
done

say "A real agent: its own program in a sandbox, with a script in the place of its model"
wait "$installing" || true
installed=$("$bin/repotrial" agent list --cache "$agents_cache" --json | "$bin/python" -c \
    'import json, sys; print(*(agent["name"] for agent in json.load(sys.stdin) if agent["is_installed"]))')
case " $installed " in *" pi "*) agent=pi ;; *" goose "*) agent=goose ;; *) agent= ;; esac
if [ -n "$agent" ]; then
    for script in honest wrong; do
        runs=$([ "$script" = honest ] && echo "$out/runs" || echo "$out/misled")
        run "$bin/repotrial" run start examples/contracts/querycache-stale --agent "$agent" \
            --upstream "script:examples/agents/querycache-stale/$script.toml" --runs "$runs" --cache "$agents_cache" \
            | grep -vE '^ +[0-9.]+s ' || echo "(could not be conducted here)"
    done
else
    echo "(left out: no real agent could be installed here within a minute; see $out/agent-install.txt)"
fi

say "All verdicts: patch validity, build, acceptance, safety"
run "$bin/repotrial" run list "$out/runs"
run "$bin/repotrial" run summary "$out/runs"

say "Why the cheat failed, in the record's own words; and as a page"
cheat=$(ls -d "$out"/runs/tillbook-state-cheat-*)
run "$bin/repotrial" run show "$cheat" --verdict
run "$bin/repotrial" run page "$cheat" -o "$out/cheat.html"

say "The record holds, and the same change gets the same verdict again"
run "$bin/repotrial" run verify "$out"/runs/*
run "$bin/repotrial" run replay "$(ls -d "$out"/runs/tillbook-state-honest-*)" \
    --contract examples/contracts/tillbook-state --runs "$out/replays" --cache "$cache"

say "The same record after somebody gave it a few passing tests"
cp -r "$cheat" "$out/forged"
sed -i 's/"passed_count":[0-9]*/"passed_count":99/' "$out/forged/trace.jsonl"
expect_failure "$bin/repotrial" run verify "$out/forged"

say "Done. Look at $out/cheat.html in a browser; runs are in $out/runs; the documentation starts at docs/README.md"
