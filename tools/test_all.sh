#!/usr/bin/env bash
# All tests with everything where `make test` samples, at the oldest versions of dependencies too, and what
# commands reach. A part that fails does not keep the others from running; the table at the end has them all.
set -euo pipefail
# shellcheck source=tools/tiers.sh
source "$(dirname "$0")/tiers.sh"

for tier in lint layers types all-unit all-adversarial all-scenario reached mutants; do
    run_tier "$tier" || true
done
show_table "seconds of each part"
