#!/usr/bin/env bash
# Tests of the command, as TAP. Usage: tests/command.sh PATH-OF-STOCKBOOK
set -u
program=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
number=0
failures=0

# The program under trial is not told where results go.
unset REPOTRIAL_RESULTS
stockbook() { timeout 10 "$program" "$@"; }

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

balance_adds_up() {
    moves 'in flour 12.5kg' 'out flour 750g' 'in milk 6l' 'in eggs 30pc'
    same $'eggs\t30pc\nflour\t11.75kg\nmilk\t6l' "$(stockbook balance list)"
}

used_up_is_left_out() {
    moves 'in milk 6l' 'out milk 6l'
    same '' "$(stockbook balance list)"
}

history_shows_the_stock() {
    moves 'in milk 6l' 'in flour 1kg' 'out milk 250ml'
    same $'2026-03-01\tin\t6l\t6l\n2026-03-01\tout\t0.25l\t5.75l' "$(stockbook history list milk)"
}

comments_and_blank_lines() {
    printf '# list\n\n2026-03-01 in milk 6 l  # from the farm\n' >list
    same '1 movements' "$(stockbook check list)"
}

too_much() {
    moves 'in milk 1l' 'out milk 2l'
    same 'stockbook: list:2: milk: 2l is more than the 1l that is there' "$(refused check list)"
}

bad_direction() {
    moves 'sideways milk 1l'
    same 'stockbook: list:1: expected in or out, found sideways' "$(refused check list)"
}

no_file() {
    refused check list | grep -q 'stockbook: list: '
}

usage() {
    local code=0
    stockbook eat list 2>stderr || code=$?
    same 2 "$code"
    grep -q usage: stderr
}

it 'balance adds up' balance_adds_up
it 'what is used up is left out' used_up_is_left_out
it 'history shows the stock after each movement' history_shows_the_stock
it 'comments and blank lines are left out' comments_and_blank_lines
it 'more than there is cannot be taken out' too_much
it 'a direction is in or out' bad_direction
it 'a missing file is an error' no_file
it 'an unknown command is a usage error' usage
echo "1..$number"
[ "$failures" -eq 0 ]
