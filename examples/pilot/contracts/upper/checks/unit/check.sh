#!/bin/bash
number=0
try() {
    number=$((number + 1))
    local found
    found=$(timeout 5 ./tool.sh "$2" 2>/dev/null </dev/null) || found="(failed)"
    if [ "$found" = "$3" ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; fi
}
echo "1..3"
try first ab AB
try second xy XY
try third Q Q
