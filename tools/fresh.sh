#!/usr/bin/env bash
# A new user on a new machine: a clean clone of the last commit, an empty home, empty caches, nothing beside it. The clone
# sets itself up and runs the demo, and then plans on machines that lack something. As root, this is done as another user.
set -euo pipefail
cd "$(dirname "$0")/.."
most_lines=120
uid=65533

git diff --quiet HEAD 2>/dev/null || echo "fresh: changes that are not committed are not tried"
place=$(mktemp -d "${TMPDIR:-/tmp}/repotrial-fresh-XXXXXX")
clean_up() {
    chmod -R u+w "$place" 2>/dev/null || true
    rm -rf "$place"
}
trap clean_up EXIT
mkdir "$place/home" "$place/tmp"
git clone --quiet --no-hardlinks . "$place/clone"

path=$PATH
as_user=()
if [ "$(id -u)" = 0 ]; then
    chmod 755 "$place"
    chown -R "$uid:$uid" "$place"/*
    # Root's own programs are closed to others.
    path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    as_user=(setpriv --reuid "$uid" --regid "$uid" --clear-groups)
fi
# How to reach a package index is the machine's affair; everything else begins empty.
variables=(HOME="$place/home" TMPDIR="$place/tmp" PATH="$path" LANG=C.UTF-8)
for name in {http,https,no}_proxy {HTTP,HTTPS,NO}_PROXY PIP_INDEX_URL PIP_CERT SSL_CERT_FILE NODE_EXTRA_CA_CERTS; do
    if [ -n "${!name:-}" ]; then variables+=("$name=${!name}"); fi
done
in_clone() { "${as_user[@]}" env -i "${variables[@]}" "$BASH" -c 'cd "$0" && exec "$@"' "$place/clone" "$@"; }

fail() {
    echo "fresh: $*" >&2
    exit 1
}
# listen: passes lines on, and ends when nothing is said for 10 s.
listen() {
    local line
    while true; do
        IFS= read -r -t 10 line
        case $? in
            0) printf '%s\n' "$line" ;;
            1) return 0 ;;
            *) fail "nothing was said for 10 s" ;;
        esac
    done
}
said=$place/demo.txt
in_clone make --no-print-directory demo 2>&1 | listen | tee "$said" || fail "the demo ended with an error"
lines=$(grep -vc '^  … ' "$said")
[ "$lines" -le "$most_lines" ] || fail "expected a story of at most $most_lines lines, found $lines"
if grep -E '  (invalid|acceptance-error)  G1|could not be conducted' "$said"; then
    fail "expected every planned run to be conducted, found the lines above"
fi
in_clone .venv/bin/pytest -q -p no:cacheprovider tests/scenario/test_lacking_machines.py
echo "fresh: a new user's clone set itself up and ran the demo, $lines lines, in $SECONDS s"
