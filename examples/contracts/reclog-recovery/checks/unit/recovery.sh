#!/usr/bin/env bash
# Hidden acceptance tests of recovery, as TAP. Usage: recovery.sh PATH-OF-RECLOG
# They look at the command from outside only: what it prints, its exit status, the bytes of the file.
set -u
program=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
number=0
failures=0

# The program under trial is not told where results go.
unset REPOTRIAL_RESULTS
reclog() { timeout 10 "$program" "$@"; }

# it DESCRIPTION; body() { … }; run: one test, in an empty directory of its own; any command that fails ends it.
it() { title=$1; }
run() {
    number=$((number + 1))
    mkdir "$scratch/$number"
    (cd "$scratch/$number" || exit; set -e; body) >"$scratch/$number.out" 2>&1 </dev/null
    if [ $? -eq 0 ]; then
        echo "ok $number - $title"
    else
        failures=$((failures + 1))
        echo "not ok $number - $title"
        sed 's/^/# /' "$scratch/$number.out"
    fi
}

# same EXPECTED ACTUAL
same() {
    [ "$1" = "$2" ] || { printf 'expected: %s\nfound:    %s\n' "$1" "$2"; return 1; }
}

# output COMMAND…: standard output and, on a line of its own, the exit status.
output() {
    local code=0 text
    text=$("$@" 2>/dev/null) || code=$?
    printf '%s\n%s\n' "$text" "$code"
}

# poke FILE OFFSET BYTES: overwrites bytes in place.
poke() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }

# flip FILE OFFSET: changes one byte in place, whatever it is.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    poke "$1" "$2" "\\x$(printf %02x $((byte ^ 0x55)))"
}

# Each of these records is 25 bytes long in the file; the first begins at byte 8.
lines() { printf '%s\n' "$@" | reclog append log >/dev/null; }
batch() { printf '%s\n' "$@" | reclog append --batch log >/dev/null; }

it 'an unfinished batch is dropped whole'; body() {
    lines a
    batch b c d
    truncate -s -25 log
    same $'kept 1 records, dropped 50 bytes\n0' "$(output reclog recover log)"
    same $'clean: 1 records\n0' "$(output reclog check log)"
}
run

it 'records of an unfinished batch are not shown'; body() {
    lines a
    batch b c
    truncate -s -3 log
    same $'1\ta\n0' "$(output reclog dump log)"
}
run

it 'records of an unfinished batch are not counted'; body() {
    batch a b
    batch c d
    truncate -s -25 log
    same $'torn: 2 records, 25 bytes to drop\n1' "$(output reclog check log)"
}
run

it 'append continues after the last good record'; body() {
    lines a b
    truncate -s -1 log
    same $'appended 1 records, last sequence 2\n0' "$(echo c | output reclog append log)"
    same $'1\ta\n2\tc\n0' "$(output reclog dump log)"
    same $'clean: 2 records\n0' "$(output reclog check log)"
}
run

it 'append after an unfinished batch uses its sequence numbers again'; body() {
    lines a
    batch b c
    truncate -s -25 log
    same $'appended 2 records, last sequence 3\n0' "$(printf 'd\ne\n' | output reclog append --batch log)"
    same $'1\ta\n2\td\n3\te\n0' "$(output reclog dump log)"
}
run

it 'zeros at the end are a torn write'; body() {
    lines a b
    truncate -s +4096 log
    same $'torn: 2 records, 4096 bytes to drop\n1' "$(output reclog check log)"
    same $'kept 2 records, dropped 4096 bytes\n0' "$(output reclog recover log)"
    same 58 "$(stat -c %s log)"
}
run

it 'a last record that is partly zeros is a torn write'; body() {
    lines a
    head -c 600 /dev/zero | tr '\0' x | reclog append --raw log
    truncate -s 512 log
    truncate -s 657 log
    same $'torn: 1 records, 624 bytes to drop\n1' "$(output reclog check log)"
    same $'appended 1 records, last sequence 2\n0' "$(echo b | output reclog append log)"
    same $'1\ta\n2\tb\n0' "$(output reclog dump log)"
}
run

it 'a last record without its header is a torn write'; body() {
    lines a b c
    poke log 58 '\0\0\0\0'
    same $'torn: 2 records, 25 bytes to drop\n1' "$(output reclog check log)"
}
run

it 'a log that is cut anywhere recovers to its complete batches'; body() {
    lines a
    batch b c
    lines d
    mv log whole
    local kept offset
    for offset in 8 9 20 31 32 33 34 56 57 58 59 70 82 83 84 95 106 107 108; do
        head -c "$offset" whole >log
        kept=0
        if ((offset >= 33)); then kept=1; fi
        if ((offset >= 83)); then kept=3; fi
        if ((offset >= 108)); then kept=4; fi
        reclog recover log >/dev/null
        same $'clean: '"$kept"$' records\n0' "$(output reclog check log)"
        echo new | reclog append log >/dev/null
        same $'clean: '"$((kept + 1))"$' records\n0' "$(output reclog check log)"
    done
}
run

it 'a log cut inside the file header is an empty one'; body() {
    local offset
    lines a
    mv log whole
    for offset in 1 4 7; do
        head -c "$offset" whole >log
        same $'torn: 0 records, '"$offset"$' bytes to drop\n1' "$(output reclog check log)"
        same $'appended 1 records, last sequence 1\n0' "$(echo a | output reclog append log)"
        cmp log whole
    done
}
run

it 'recover refuses damage before good records'; body() {
    lines a b c
    flip log 57
    cp log before
    same $'\n3' "$(output reclog recover log)"
    cmp log before
    same $'corrupt: 1 records before byte 33\n3' "$(output reclog check log)"
}
run

it 'append refuses damage before good records'; body() {
    lines a b c
    flip log 57
    cp log before
    same $'\n3' "$(echo d | output reclog append log)"
    cmp log before
}
run

it 'no damaged byte before a good record lets recover drop it'; body() {
    local offset
    lines a
    batch b c
    lines d
    mv log whole
    # Every byte of a frame in the middle, and some of its neighbors.
    for offset in 8 12 20 28 32 {33..57} 58 62 70 78 82; do
        cp whole log
        flip log "$offset"
        cp log before
        same $'\n3' "$(output reclog recover log)"
        cmp log before
    done
}
run

it 'recover refuses a log with a missing record'; body() {
    lines a b c
    { head -c 33 log; tail -c 25 log; } >shorter
    mv shorter log
    cp log before
    same $'\n3' "$(output reclog recover log)"
    cmp log before
}
run

it 'a copy of a record inside a torn record is no record'; body() {
    lines a b c d
    tail -c 25 log >frame
    rm log
    lines a
    { cat frame; echo more; } | reclog append --raw log
    truncate -s -2 log
    same $'torn: 1 records, 52 bytes to drop\n1' "$(output reclog check log)"
}
run

it 'a copy of a record inside a damaged last record is no record'; body() {
    lines a b c d
    tail -c 25 log >frame
    rm log
    lines a
    { cat frame; echo more; } | reclog append --raw log
    flip log 86
    same $'torn: 1 records, 54 bytes to drop\n1' "$(output reclog check log)"
    same $'kept 1 records, dropped 54 bytes\n0' "$(output reclog recover log)"
}
run

it 'dump stops at the last complete batch before damage'; body() {
    lines a
    batch b c
    lines d
    flip log 82
    same $'1\ta\n3' "$(output reclog dump log)"
}
run

it 'recovering twice changes nothing more'; body() {
    lines a b
    truncate -s -1 log
    reclog recover log
    cp log before
    same $'kept 1 records, dropped 0 bytes\n0' "$(output reclog recover log)"
    cmp log before
}
run

it 'clean logs of batches are read and continued'; body() {
    batch a b
    batch c
    same $'appended 1 records, last sequence 4\n0' "$(echo d | output reclog append log)"
    same $'1\ta\n2\tb\n3\tc\n4\td\n0' "$(output reclog dump log)"
}
run

it 'a file of another kind is never changed'; body() {
    echo RECKLESS >log
    cp log before
    same $'\n2' "$(output reclog recover log)"
    same $'\n2' "$(echo a | output reclog append log)"
    cmp log before
}
run

echo "1..$number"
[ "$failures" -eq 0 ]
