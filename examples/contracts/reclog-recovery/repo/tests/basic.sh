#!/usr/bin/env bash
# Tests of the command, as TAP. Usage: tests/basic.sh PATH-OF-RECLOG
set -u
program=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
number=0
failures=0

reclog() { timeout 10 "$program" "$@"; }

# it DESCRIPTION FUNCTION: one test, in an empty directory of its own; any command that fails ends it.
it() {
    number=$((number + 1))
    mkdir "$scratch/$number"
    (cd "$scratch/$number" || exit; set -e; "$2") >"$scratch/$number.out" 2>&1 </dev/null
    if [ $? -eq 0 ]; then
        echo "ok $number - $1"
    else
        failures=$((failures + 1))
        echo "not ok $number - $1"
        sed 's/^/# /' "$scratch/$number.out"
    fi
}

# same EXPECTED ACTUAL
same() {
    [ "$1" = "$2" ] || { printf 'expected: %s\nfound:    %s\n' "$1" "$2"; return 1; }
}

# status COMMAND…: prints the exit status and throws the output away.
status() { local code=0; "$@" >/dev/null 2>&1 || code=$?; echo "$code"; }

appends_lines() {
    same 'appended 2 records, last sequence 2' "$(printf 'a\nb\n' | reclog append log)"
    same 'appended 1 records, last sequence 3' "$(echo c | reclog append log)"
    same $'1\ta\n2\tb\n3\tc' "$(reclog dump log)"
}

appends_batches() {
    printf 'a\nb\n' | reclog append --batch log
    echo c | reclog append log
    same $'1\ta\n2\tb\n3\tc' "$(reclog dump log)"
    same 'clean: 3 records' "$(reclog check log)"
}

appends_raw_bytes() {
    printf 'x\0y\n\\z\377' | reclog append --raw log
    same $'1\tx\\x00y\\x0a\\\\z\\xff' "$(reclog dump log)"
}

keeps_empty_records() {
    printf '\n\n' | reclog append log
    same $'1\t\n2\t' "$(reclog dump log)"
}

accepts_no_input() {
    same 'appended 0 records, last sequence 0' "$(reclog append log </dev/null)"
    same 'clean: 0 records' "$(reclog check log)"
}

follows_the_format() {
    printf 'hi' | reclog append --raw log
    same '5245434c4f47310a524c0000020000000100000000000000ac2a93d8' "$(od -An -tx1 -v -N 28 log | tr -d ' \n')"
    same 34 "$(stat -c %s log)"
}

leaves_a_clean_log_alone() {
    echo a | reclog append log
    cp log before
    same 'kept 1 records, dropped 0 bytes' "$(reclog recover log)"
    cmp log before
}

drops_a_half_written_record() {
    printf 'a\nb\n' | reclog append log
    truncate -s -1 log
    same 'torn: 1 records, 24 bytes to drop' "$(reclog check log || true)"
    same 1 "$(status reclog check log)"
    same 'kept 1 records, dropped 24 bytes' "$(reclog recover log)"
    same 'clean: 1 records' "$(reclog check log)"
}

dumps_a_torn_log() {
    printf 'a\nb\n' | reclog append log
    truncate -s -1 log
    same $'1\ta' "$(reclog dump log 2>/dev/null)"
    same 0 "$(status reclog dump log)"
}

reports_damage() {
    printf 'a\nb\nc\n' | reclog append log
    printf X | dd of=log bs=1 seek=57 conv=notrunc status=none
    same 3 "$(status reclog check log)"
    same 3 "$(status reclog dump log)"
    same $'1\ta' "$(reclog dump log 2>/dev/null || true)"
}

refuses_other_files() {
    echo 'this is some other file' >log
    cp log before
    for command in dump check recover; do
        same 2 "$(status reclog "$command" log)"
    done
    same 2 "$(status reclog append log)"
    cmp log before
}

reports_a_missing_file() {
    same 2 "$(status reclog dump nowhere)"
    same 2 "$(status reclog check nowhere)"
}

explains_its_usage() {
    same 2 "$(status reclog)"
    same 2 "$(status reclog append)"
    same 2 "$(status reclog append --fast log)"
}

it 'append writes one record for each line' appends_lines
it 'append --batch writes records that dump shows like others' appends_batches
it 'append --raw keeps every byte' appends_raw_bytes
it 'empty lines are empty records' keeps_empty_records
it 'no input makes an empty log' accepts_no_input
it 'the file follows the documented format' follows_the_format
it 'recover leaves a clean log alone' leaves_a_clean_log_alone
it 'recover drops a half-written record' drops_a_half_written_record
it 'dump shows the good part of a torn log' dumps_a_torn_log
it 'damage before good records is reported' reports_damage
it 'files of other kinds are refused' refuses_other_files
it 'a missing file is reported' reports_a_missing_file
it 'wrong usage is explained' explains_its_usage
echo "1..$number"
[ "$failures" -eq 0 ]
