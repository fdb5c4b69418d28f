#!/usr/bin/env bash
# Fetches the archives of real packages that example contracts use. They are not kept in the tree: each example lists
# its archive with its hash in vendor.txt. Usage: fetch_examples.sh VENV
set -euo pipefail
venv=${1:?usage: fetch_examples.sh VENV}
cd "$(dirname "$0")/.."
for list in examples/contracts/*/vendor.txt; do
    example=$(dirname "$list")
    archive=$(sed -n 's|^source = "\(vendor/.*\)"$|\1|p' "$example/contract.toml")
    digest=$(sed -n 's|^digest = "sha256:\(.*\)"$|\1|p' "$example/contract.toml")
    if echo "$digest  $example/$archive" | sha256sum --check --status 2>/dev/null; then
        echo "examples: $archive is there"
        continue
    fi
    # The package's own build reads its metadata, in a scratch directory and after the hash was verified.
    if ! "$venv/bin/python" -m pip download --quiet --no-deps --no-binary :all: --require-hashes \
        --dest "$example/vendor" --requirement "$list"; then
        echo "examples: could not fetch $archive for $example; it is left out" >&2
        exit 1
    fi
    echo "examples: fetched $archive"
done
