#!/usr/bin/env bash
# Resolves the dependencies anew into the two lock files. Needs uv (pip install uv).
set -euo pipefail
compile=(uv pip compile pyproject.toml --generate-hashes --universal --python-version 3.11 --no-header --no-annotate --quiet)
"${compile[@]}" -o requirements/runtime.lock
"${compile[@]}" --group dev -o requirements/dev.lock
