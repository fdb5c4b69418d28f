#!/usr/bin/env bash
# Makes the development environment: Debian packages where it may, and a virtual environment with exactly the
# locked Python packages. What this machine cannot do is said in one line, with the way to get it.
set -euo pipefail
venv=$1

# need COMMAND PACKAGE WORD [OPTION]: `required` stops without it, `wanted` only says what will be skipped.
need() {
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        { apt-get install -y -qq ${4:-} "$2" || { apt-get update -qq && apt-get install -y -qq ${4:-} "$2"; }; } >/dev/null 2>&1 || true
        command -v "$1" >/dev/null && return
    fi
    echo "setup: $1 is missing; get it with: apt-get install $2" >&2
    [ "$3" = wanted ]
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "setup: no Python >= 3.11 with venv; get it with: apt-get install python3 python3-venv, or set PYTHON=" >&2
    return 1
}

need git git required
need bwrap bubblewrap wanted
need node nodejs wanted
need gcc gcc wanted
# runc first: podman depends on one of crun and runc, and crun refuses machines with both versions of control groups.
need runc runc wanted
need podman podman wanted
need busybox busybox-static wanted
# Without what it recommends, which is a desktop.
need chromium chromium wanted --no-install-recommends

python=$(find_python)
"$python" -m venv --clear "$venv"
tools/install_lock.sh "$venv" requirements/dev.lock -e .
tools/fetch_examples.sh "$venv" || true # without it, what needs the archive is skipped
