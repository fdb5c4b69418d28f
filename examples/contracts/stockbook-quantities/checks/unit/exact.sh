#!/usr/bin/env bash
# Hidden acceptance tests, as TAP: the command from outside, and what is left of the old interface in the sources.
# Usage: exact.sh PATH-OF-STOCKBOOK, in the root of the workspace
set -u
root=$PWD
program=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
number=0
failures=0

# The program under trial is not told where results go.
unset REPOTRIAL_RESULTS
stockbook() { timeout 10 "$program" "$@"; }

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

# moves LINE…: writes the list.
moves() { printf '2026-03-01 %s\n' "$@" >list; }

# refused COMMAND…: what it says on standard error; it must fail with status 1 and print nothing.
refused() {
    local code=0
    stockbook "$@" >stdout 2>stderr || code=$?
    same 1 "$code"
    same '' "$(cat stdout)"
    cat stderr
}

it 'ten tenths are one'; body() {
    moves 'in salt 0.1kg' 'in salt 0.1kg' 'in salt 0.1kg' 'in salt 0.1kg' 'in salt 0.1kg' \
        'in salt 0.1kg' 'in salt 0.1kg' 'in salt 0.1kg' 'in salt 0.1kg' 'in salt 0.1kg' 'out salt 1kg'
    same '11 movements' "$(stockbook check list)"
    same '' "$(stockbook balance list)"
}
run

it 'nothing is left of what was taken out'; body() {
    moves 'in oil 0.3l' 'out oil 0.1l' 'out oil 0.2l'
    same '' "$(stockbook balance list)"
}
run

it 'history shows exact amounts'; body() {
    moves 'in oil 1.1l' 'in oil 2.2l' 'out oil 3.3l'
    same '' "$(stockbook balance list)"
    same $'2026-03-01\tin\t1.1l\t1.1l\n2026-03-01\tin\t2.2l\t3.3l\n2026-03-01\tout\t3.3l\t0l' "$(stockbook history list oil)"
}
run

it 'large amounts are exact'; body() {
    moves 'in sand 9007199254740.993kg' 'in sand 1g'
    same $'sand\t9007199254740.994kg' "$(stockbook balance list)"
}
run

it 'units do not mix'; body() {
    moves 'in milk 1l' 'in milk 1kg'
    same 'stockbook: list:2: milk: l and kg do not mix' "$(refused balance list)"
}
run

it 'units do not mix when something is taken out'; body() {
    moves 'in milk 1l' 'out milk 500g'
    same 'stockbook: list:2: milk: l and kg do not mix' "$(refused check list)"
}
run

it 'amounts finer than a thousandth are refused'; body() {
    moves 'in salt 1.0005kg'
    same 'stockbook: list:1: finer than a thousandth: 1.0005kg' "$(refused check list)"
    moves 'in salt 0.5g'
    same 'stockbook: list:1: finer than a thousandth: 0.5g' "$(refused check list)"
}
run

it 'exponents and signs are refused'; body() {
    moves 'in salt 1e3kg'
    refused check list >message
    grep -q '^stockbook: list:1: ' message
    moves 'in milk 1l' 'in salt -1kg'
    same 'stockbook: list:2: not an amount: -1kg' "$(refused check list)"
}
run

it 'infinity is refused'; body() {
    moves 'in salt inf kg'
    refused check list >message
    grep -q '^stockbook: list:1: ' message
}
run

it 'an unknown unit is named'; body() {
    moves 'in salt 3lb'
    same 'stockbook: list:1: unknown unit: lb' "$(refused check list)"
}
run

it 'amounts that are too large are refused'; body() {
    moves 'in sand 99999999999999999999kg'
    same 'stockbook: list:1: amount too large' "$(refused check list)"
    moves 'in sand 9223372036854775kg' 'in sand 9223372036854775kg'
    same 'stockbook: list:2: sand: amount too large' "$(refused check list)"
}
run

it 'nothing can be taken out of nothing'; body() {
    moves 'out milk 1ml'
    same 'stockbook: list:1: milk: 0.001l is more than the 0l that is there' "$(refused check list)"
}
run

it 'a shortage of a thousandth is found'; body() {
    moves 'in milk 1l' 'out milk 1.001l'
    same 'stockbook: list:2: milk: 1.001l is more than the 1l that is there' "$(refused check list)"
}
run

it 'the old functions are gone'; body() {
    ! grep -rnE 'parse_amount|format_amount' "$root/crates"
}
run

it 'nothing deprecated is left'; body() {
    ! grep -rnE 'deprecated' "$root/crates"
}
run

it 'amounts are not floating-point numbers'; body() {
    ! grep -rnwE 'f64|f32' "$root/crates"
}
run

echo "1..$number"
[ "$failures" -eq 0 ]
