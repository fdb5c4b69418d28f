#!/usr/bin/env bash
# Builds sdist and wheel, installs the wheel alone into a clean environment and uses it there.
set -euo pipefail
venv=$1
rm -rf dist .wheel-venv
"$venv/bin/python" -m build --no-isolation --outdir dist . >/dev/null
"$venv/bin/python" -m venv .wheel-venv
tools/install_lock.sh .wheel-venv requirements/runtime.lock dist/repotrial-*.whl
# From another folder, so that nothing is taken from the source tree by accident.
root=$PWD
cd /
"$root/.wheel-venv/bin/repotrial" --version
for contract in "$root"/examples/contracts/*/; do
    # The archive of a real package may not have been fetched.
    if [ -f "$contract/vendor.txt" ] && [ ! -d "$contract/vendor" ]; then continue; fi
    "$root/.wheel-venv/bin/repotrial" contract check "$contract" --quiet
done
echo "wheel: installed and tried"
