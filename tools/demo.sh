#!/usr/bin/env bash
# What RepoTrial does, on its own examples: contracts, trials, verdicts, evidence. Leaves everything in demo-out/.
# No key and no network at run time: packages are fetched once, into a cache of the demo's own.
# One line for each thing that holds; all of a command's output where it does not, and in demo-out/said/.
set -euo pipefail
bin=$1/bin
out=demo-out
rm -rf "$out"
mkdir -p "$out/said"
export XDG_CONFIG_HOME=$PWD/$out/config
export COLUMNS=${COLUMNS:-140}
SECONDS=0

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
name_command() { printf '\033[2m$ repotrial %s\033[0m\n' "$1"; }
# keep NAME WORDS…: runs the command, and keeps what it says.
keep() { "$bin/repotrial" "${@:2}" >"$out/said/$1.txt" 2>&1; }
fail() {
    cat "$out/said/$1.txt" >&2
    echo "demo: this should have been otherwise: $1" >&2
    exit 1
}
# holds NAME SHOWN WORDS…: the lines of a pattern out of what the command says, all of it if it fails.
holds() {
    keep "$1" "${@:3}" || fail "$1"
    grep -E "$2" "$out/said/$1.txt" || fail "$1"
}

lanes=()
# begin LANE: a function that works beside everything else; `finish` waits for it.
begin() {
    set -m
    "$@" &
    lanes+=($!)
    set +m
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

certify_two() {
    mkdir "$out/certified"
    cp -r examples/contracts/{textkit-wide-chars,reclog-recovery} "$out/certified"
    keep certify contract certify "$out"/certified/* --quick --jobs 2 --skip-unavailable --cache "$cache"
}

# A pilot of fifty runs on eight small contracts: frozen, stopped once, resumed, and refused its third stage.
pilot=$out/pilot/small
conduct_pilot() {
    cp -r examples/pilot "$out/pilot"
    keep pilot-init pilot init "$out/pilot/suite.toml" --arm "strong=script:$out/pilot/agents/strong/{contract}.sh" \
        --arm "weak=script:$out/pilot/agents/weak/{contract}.sh" --arm "capitals=script:$out/pilot/agents/capitals.sh" --out "$pilot"
    sed -i 's/^smallest_effect = .*/smallest_effect = 0.45/' "$pilot/pilot.toml"
    keep pilot-plan pilot plan "$pilot"
    keep pilot-freeze pilot freeze "$pilot"
    "$bin/repotrial" pilot run "$pilot" --jobs 2 --cache "$cache" >"$out/said/pilot-stopped.txt" 2>&1 &
    until [ "$(grep -c ' in (' "$out/said/pilot-stopped.txt" 2>/dev/null)" -ge 5 ] || ! kill -0 $!; do sleep 0.2; done
    kill -TERM $! || true
    wait $! || true
    keep pilot-run pilot run "$pilot" --jobs 2 --cache "$cache" || [ $? = 1 ]
}

# A real agent is fetched, if a registry answers in time, and kept for the next demo.
agents_cache=${REPOTRIAL_AGENT_CACHE:-$PWD/.agent-cache}
install_agent() { timeout 60 "$bin/repotrial" agent install "$1" --cache "$agents_cache"; }
try_real_agent() {
    local agent script
    for agent in pi goose; do
        install_agent "$agent" >>"$out/said/agent-install.txt" 2>&1 || continue
        echo "$agent" >"$out/said/agent.txt"
        for script in honest wrong; do
            keep "agent-$script" run start examples/contracts/querycache-stale --agent "$agent" --runs "$out/$agent-$script" \
                --upstream "script:examples/agents/querycache-stale/$script.toml" --cache "$agents_cache" || true
        done
        return
    done
}

say "The example contracts are sound, and their pins hold"
tools/fetch_examples.sh "$1" >"$out/said/fetch.txt" 2>&1 || tail -n 1 "$out/said/fetch.txt"
contracts=()
for contract in examples/contracts/*; do
    archive=$(sed -n 's|^source = "\(vendor/.*\)"$|\1|p' "$contract/contract.toml")
    if [ -z "$archive" ] || [ -e "$contract/$archive" ]; then contracts+=("$contract"); fi
done
name_command 'contract check examples/contracts/*'
holds check '^[0-9]+ contracts:' contract check "${contracts[@]}"
name_command 'contract lock --check examples/contracts/*'
holds lock '^[0-9]+ contracts:' contract lock --check "${contracts[@]}"

say "What this machine can isolate"
name_command doctor
if ! keep doctor doctor; then
    cat "$out/said/doctor.txt"
    echo "(trials need a sandbox: see the fixes above; \`repotrial doctor --fix\` installs what it may)"
    exit 0
fi
grep '^best' "$out/said/doctor.txt"
begin certify_two
certifying=$!
begin try_real_agent
trying=$!
begin conduct_pilot
piloting=$!

say "Six agents on four contracts; each contract has its own honest, wrong, cheating and breaking script"
agents=(--agent noop --agent reference)
for script in honest wrong cheat breaker; do agents+=(--agent "script:examples/agents/{contract}/$script.sh"); done
name_command "run start examples/contracts/{feedmill-upgrade,spoolq-hardening,stockbook-quantities,tillbook-state} \\
    --agent noop --agent reference --agent 'script:examples/agents/{contract}/honest.sh' \\
    --agent 'script:examples/agents/{contract}/wrong.sh' --agent 'script:examples/agents/{contract}/cheat.sh' \\
    --agent 'script:examples/agents/{contract}/breaker.sh' --jobs 4 --skip-unavailable --runs $out/runs"
"$bin/repotrial" run start examples/contracts/{feedmill-upgrade,spoolq-hardening,stockbook-quantities,tillbook-state} \
    "${agents[@]}" --jobs 4 --skip-unavailable --runs "$out/runs" --cache "$cache" 2>&1 | tee "$out/said/trials.txt" |
    grep --line-buffered -E '(honest|wrong|cheat|breaker) #.*\([0-9]+ of [0-9]+\)$|^left out|^[0-9]+ runs:' || fail trials

say "All verdicts: patch validity (G1), build (G2), acceptance (G3), safety (G4)"
"$bin/repotrial" run list "$out/runs" >"$out/said/list.txt"
name_command "run summary $out/runs --page $out/summary.html"
keep summary run summary "$out/runs" --page "$out/summary.html" || fail summary
sed '/^what it took/,$d' "$out/said/summary.txt"

say "Why the cheat failed, in the record's own words"
cheat=$(ls -d "$out"/runs/tillbook-state-cheat-*)
name_command "run why $cheat"
"$bin/repotrial" run why "$cheat"
keep page report build "$cheat" --out "$out/cheat.html" || fail page

say "The record holds, and the same change gets the same verdict again"
name_command "run verify $out/runs"
holds verify '^[0-9]+ runs:' run verify "$out/runs"
honest=$(ls -d "$out"/runs/tillbook-state-honest-*)
name_command "run replay $honest --contract examples/contracts/tillbook-state"
holds replay '^same|^  the|^  [0-9]+ test, build or lint command' run replay "$honest" --contract examples/contracts/tillbook-state --runs "$out/replays" --cache "$cache"

say "The cheat's record with a few more passing tests written into it is refused"
cp -r "$cheat" "$out/forged"
sed -i 's/"passed_count":[0-9]*/"passed_count":99/' "$out/forged/trace.jsonl"
name_command "run verify $out/forged"
if keep forged run verify "$out/forged"; then fail forged; fi
grep -E '^does not hold|tampered' "$out/said/forged.txt"

say "Two contracts are certified: the snapshot fails, the reference passes, known cheats are refused"
name_command "contract certify $out/certified/* --quick --jobs 2 --skip-unavailable"
wait "$certifying" || fail certify
grep -E '^(certified|left out)' "$out/said/certify.txt"
echo "$(grep -cE ' holds ' "$out/said/certify.txt") rules hold, $(grep -cE ' refused ' "$out/said/certify.txt") cheats are refused"

say "A pilot of two scripted arms and three baselines: planned, frozen, stopped once and resumed"
name_command "pilot plan $pilot; pilot freeze $pilot; pilot run $pilot --jobs 2"
wait "$piloting" || fail pilot-run
grep -E '^[0-9]+ tasks|^smallest effect' "$out/said/pilot-plan.txt"
grep -E '^frozen' "$out/said/pilot-freeze.txt"
grep -E '^stopped' "$out/said/pilot-stopped.txt"
grep -E '^stage 2 exit .*computable|^stage 3 entry .*not met|^end' "$out/said/pilot-run.txt"
name_command "pilot analyze $pilot"
holds pilot-analysis '^[*][*]Decision' pilot analyze "$pilot"
sed -n '/^| arm .* rate % .* interval/,/^$/p; /^| difference /,/^$/{/^$/!p}' "$out/said/pilot-analysis.txt"
name_command "report build $pilot --out $out/pilot.html"
keep pilot-page report build "$pilot" --out "$out/pilot.html" || fail pilot-page

say "A real agent: its own program in a sandbox, with a script in the place of its model"
wait "$trying" || fail agent-install
if [ -e "$out/said/agent.txt" ]; then
    for script in honest wrong; do
        name_command "run start examples/contracts/querycache-stale --agent $(<"$out/said/agent.txt") --upstream script:examples/agents/querycache-stale/$script.toml"
        keep "page-$script" report build "$out/$(<"$out/said/agent.txt")-$script" --out "$out/agent-$script.html" || true
        grep '^querycache-stale ' "$out/said/agent-$script.txt" || echo "(could not be conducted here: see $out/said/agent-$script.txt)"
    done
else
    echo "(left out: no real agent could be installed here within a minute; see $out/said/agent-install.txt)"
fi

say "Done, in $SECONDS seconds"
cat <<NEXT
The pilot as a page:    $out/pilot.html
The cheat as a page:    $out/cheat.html
All runs as a page:     $out/summary.html (repotrial report build; --run-pages adds a page of each)
The agent as a page:    $(ls "$out"/agent-*.html 2>/dev/null | tr '\n' ' ' || true)
Runs, one by one:       $1/bin/repotrial run list $out/runs
What commands printed:  $out/said/
Try it yourself:        docs/tutorial/first-contract.md, and docs/README.md for the rest
NEXT
