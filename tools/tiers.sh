# shellcheck shell=bash
# Sourced by test.sh and test_all.sh: parts of a long check, each noted with its time and whether it held.
said=$(mktemp -d)
times="$said/times"
beside=()
trap '[ ${#beside[@]} = 0 ] || kill "${beside[@]}" 2>/dev/null || true; rm -rf "$said"' EXIT

# run_tier NAME: makes it and notes its time and whether it held.
run_tier() {
    local started=$SECONDS word=held
    make --no-print-directory "$1" || word=FAILED
    echo "$1 $((SECONDS - started)) $word" >>"$times"
    [ "$word" = held ]
}

# run_beside NAME...: the same, one after another, with what they say kept for the end.
run_beside() {
    local tier
    for tier in "$@"; do
        run_tier "$tier" >"$said/$tier" 2>&1 || true
    done
}

# show_table TITLE: the parts, and failure if one of them failed.
show_table() {
    echo "== $1; $SECONDS in all"
    column -t "$times" 2>/dev/null || cat "$times"
    ! grep -q ' FAILED$' "$times"
}
