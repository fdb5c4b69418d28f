#!/usr/bin/env bash
# Installs a lock and then the named things into a virtual environment: install_lock.sh VENV LOCK [pip's words for them].
# A lock is complete, so nothing is resolved: pip 23.2, which comes with Python 3.11 and 3.12, takes a newer release
# for `name[extra]` than the pinned one and then refuses it, because it is not pinned. `pip check` sees what is missing.
set -euo pipefail
venv=$1 lock=$2
shift 2
# Modules are compiled when they are first imported, and most never are.
"$venv/bin/pip" install --quiet --quiet --no-deps --require-hashes --no-compile -r "$lock"
[ $# = 0 ] || "$venv/bin/pip" install --quiet --quiet --no-deps --no-build-isolation "$@"
said=$("$venv/bin/pip" check) || { echo "$lock is not complete: $said" >&2; exit 1; }
