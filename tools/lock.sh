#!/usr/bin/env bash
# Resolves the dependencies into the lock files; versions that are locked already stay where they still fit (delete a
# file to have the newest). `minimum.lock` has the oldest versions that pyproject.toml allows. Needs uv (pip install uv).
set -euo pipefail
compile=(uv pip compile pyproject.toml --generate-hashes --universal --python-version 3.11 --no-header --no-annotate --quiet)
"${compile[@]}" -o requirements/runtime.lock
"${compile[@]}" --group dev --all-extras -o requirements/dev.lock
"${compile[@]}" --resolution lowest-direct -o requirements/minimum.lock
