#!/usr/bin/env bash
# Everything that must hold, as tiers: what takes seconds first; what needs one core runs beside the tests,
# and shows what it said in one piece; real agents are installed meanwhile, and tried last. The time of each tier
# is printed at the end.
set -euo pipefail
said=$(mktemp -d)
times="$said/times"
beside=()
trap '[ ${#beside[@]} = 0 ] || kill "${beside[@]}" 2>/dev/null || true; rm -rf "$said"' EXIT

# run_tier NAME: makes it and notes its time and whether it held.
run_tier() {
    local started=$SECONDS word=held
    make --no-print-directory "$1" || word=FAILED
    echo "$1 $((SECONDS - started)) $word" >>"$times"
    [ "$word" = held ]
}

run_beside() {
    local tier
    for tier in "$@"; do
        run_tier "$tier" >"$said/$tier" 2>&1 || true
    done
}

run_beside agents &
beside+=($!)
run_tier lint
run_tier layers
run_beside types wheel fresh &
beside+=($!)
run_tier unit || true
run_tier real || true
wait "${beside[@]}"
beside=()
for tier in agents types wheel fresh; do
    echo "== $tier"
    cat "$said/$tier"
done
echo "== seconds of each tier (agents, types, wheel and fresh ran beside the others); $SECONDS in all"
column -t "$times" 2>/dev/null || cat "$times"
! grep -q ' FAILED$' "$times"
