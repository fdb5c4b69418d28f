#!/usr/bin/env bash
# What RepoTrial does, on its own examples: contracts, trials, verdicts, evidence. Leaves everything in demo-out/.
# No key and no network at run time: packages are fetched once, into a cache of the demo's own.
# Work that does not need other work begins at once, in lanes; what it said is shown in the order of this file.
set -euo pipefail
bin=$1/bin
out=demo-out
rm -rf "$out"
mkdir -p "$out/said"
export XDG_CONFIG_HOME=$PWD/$out/config
export COLUMNS=${COLUMNS:-140}
SECONDS=0

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "${*/$bin\//}"; "$@"; }
expect_failure() {
    printf '\033[2m$ %s\033[0m\n' "${*/$bin\//}"
    if "$@"; then echo "demo: this should have been refused" >&2; exit 1; fi
}

# tell NAME COMMAND…: a step of a lane, to be shown later.
tell() {
    local name=$1 word=done
    shift
    "$@" >"$out/said/$name" 2>"$out/said/$name.progress" || word=failed
    mv "$out/said/$name" "$out/said/$name.$word"
}
lanes=()
# begin LANE: a function whose steps follow each other, beside everything else.
begin() {
    set -m
    "$1" &
    lanes+=($!)
    set +m
}
# show NAME: what a step said, as soon as it has.
show() {
    local said=$out/said/$1
    until [ -e "$said.done" ] || [ -e "$said.failed" ]; do
        jobs -r | grep -q . || break
        sleep 0.2
    done
    if [ -e "$said.done" ]; then
        cat "$said.done"
        return
    fi
    cat "$said.progress" "$said.failed" "$said" 2>/dev/null >&2 || true
    echo "demo: $1 did not come to its end" >&2
    exit 1
}
cache=$(mktemp -d "${TMPDIR:-/tmp}/repotrial-demo-XXXXXX")
chmod 755 "$cache"
clean_up() {
    for lane in "${lanes[@]}"; do kill -- "-$lane" 2>/dev/null || true; done
    wait 2>/dev/null || true
    chmod -R u+w "$cache"
    rm -rf "$cache"
}
trap clean_up EXIT

certified=(textkit-wide-chars reclog-recovery)
tried=(feedmill-upgrade spoolq-hardening stockbook-quantities tillbook-state)

certify_two() {
    local name
    for name in "${certified[@]}"; do
        cp -r "examples/contracts/$name" "$out/$name"
        tell "certify-$name" run "$bin/repotrial" contract certify "$out/$name" --quick --jobs 2 --cache "$cache"
    done
    tell certificates show_certificates
}
show_certificates() {
    local contract
    for contract in "${contracts[@]}"; do
        [[ " ${certified[*]} " = *" $(basename "$contract") "* ]] && continue
        printf '%-26s ' "$(basename "$contract")"
        "$bin/repotrial" contract show "$contract" | grep -m 1 -oE 'certified \(.*|not certified.*|no certificate.*' || echo "no certificate"
    done
}
# try_on NAME JOBS: six agents on one contract, in the order of their names.
try_on() {
    local agents=(--agent noop --agent reference) script said=$out/said/$1.all
    for script in examples/agents/"$1"/*.sh; do agents+=(--agent "script:$script"); done
    run "$bin/repotrial" run start "examples/contracts/$1" "${agents[@]}" --jobs "$2" --runs "$out/runs" --cache "$cache" >"$said"
    sed -n -e 1p -e '/^contract /p' "$said"
    grep "^$1 " "$said" | sort
    grep -E '^[0-9]+ runs:' "$said"
}
try_agents() {
    local name
    for name in "${tried[@]}"; do
        # The tests of one contract wait for time to pass.
        tell "try-$name" try_on "$name" "$([ "$name" = spoolq-hardening ] && echo 6 || echo 2)"
    done
}
# A real agent is fetched, if a registry answers in time, and kept for the next demo.
agents_cache=${REPOTRIAL_AGENT_CACHE:-$PWD/.agent-cache}
try_real_agent() {
    { install_agent pi || install_agent goose; } >"$out/agent-install.txt" 2>&1 || true
    tell real-agent let_it_work
}
install_agent() { timeout 60 "$bin/repotrial" agent install "$1" --cache "$agents_cache"; }
let_it_work() {
    local installed agent script runs
    installed=$("$bin/repotrial" agent list --cache "$agents_cache" --json | "$bin/python" -c \
        'import json, sys; print(*(agent["name"] for agent in json.load(sys.stdin) if agent["is_installed"]))')
    case " $installed " in *" pi "*) agent=pi ;; *" goose "*) agent=goose ;; *) agent= ;; esac
    if [ -z "$agent" ]; then
        echo "(left out: no real agent could be installed here within a minute; see $out/agent-install.txt)"
        return
    fi
    for script in honest wrong; do
        runs=$([ "$script" = honest ] && echo "$out/runs" || echo "$out/misled")
        run "$bin/repotrial" run start examples/contracts/querycache-stale --agent "$agent" \
            --upstream "script:examples/agents/querycache-stale/$script.toml" --runs "$runs" --cache "$agents_cache" \
            | grep -vE '^ +[0-9.]+s ' || echo "(could not be conducted here)"
    done
}

say "The example contracts are sound, and their pins hold"
tools/fetch_examples.sh "$1" || echo "(one example needs a package archive that could not be fetched; it is left out)"
contracts=()
for contract in examples/contracts/*; do
    archive=$(sed -n 's|^source = "\(vendor/.*\)"$|\1|p' "$contract/contract.toml")
    if [ -z "$archive" ] || [ -e "$contract/$archive" ]; then contracts+=("$contract"); fi
done
run "$bin/repotrial" contract check "${contracts[@]}"
run "$bin/repotrial" contract lock --check "${contracts[@]}"

say "What this machine can isolate"
if ! run "$bin/repotrial" doctor; then
    echo "(trials need a sandbox: see the fixes above; \`repotrial doctor --fix\` installs what it may)"
    exit 0
fi
begin certify_two
begin try_agents
begin try_real_agent

say "Two contracts are certified: the snapshot fails, the reference passes, cheats do not"
for name in "${certified[@]}"; do show "certify-$name"; done
say "The certificates that the other examples came with"
show certificates

say "Six agents on four contracts"
for name in "${tried[@]}"; do show "try-$name"; done

say "A real agent: its own program in a sandbox, with a script in the place of its model"
show real-agent

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

say "Done, in $SECONDS seconds. Look at $out/cheat.html in a browser; runs are in $out/runs; the documentation starts at docs/README.md"
