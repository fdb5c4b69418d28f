#!/usr/bin/env bash
# The inner loop: style and layers first, then types beside the tests of the rooms that touch no machine.
set -euo pipefail
bin=$1/bin
rooms=(core change contract trace transcripts cost stats shell policy judging score retrieval analysis report interop house)
folders=()
for room in "${rooms[@]}"; do
    if [ -d "tests/unit/$room" ]; then folders+=("tests/unit/$room"); fi
done
"$bin/ruff" check --quiet .
"$bin/ruff" format --check --quiet .
"$bin/lint-imports" | tail -n 1
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$bin/mypy" >"$said" 2>&1 &
types=$!
"$bin/pytest" -q -n 2 --dist worksteal "${folders[@]}"
wait "$types" || { cat "$said"; exit 1; }
cat "$said"
echo "check: all of it held, in $SECONDS s"
