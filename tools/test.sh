#!/usr/bin/env bash
# Everything that must hold, as tiers: what takes seconds first; what needs one core runs beside the tests,
# and shows what it said in one piece; real agents are installed meanwhile, and tried last. The time of each tier
# is printed at the end.
set -euo pipefail
# shellcheck source=tools/tiers.sh
source "$(dirname "$0")/tiers.sh"

run_beside agents &
beside+=($!)
run_tier lint
run_tier layers
run_beside types mutants-sample wheel fresh &
beside+=($!)
run_tier unit || true
run_tier real || true
wait "${beside[@]}"
beside=()
for tier in agents types mutants-sample wheel fresh; do
    echo "== $tier"
    cat "$said/$tier"
done
show_table "seconds of each tier (agents, types, mutants-sample, wheel and fresh ran beside the others)"
