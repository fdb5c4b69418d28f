#!/usr/bin/env bash
# Writes the eight small contracts of the example pilot: shell functions with one fault each, checks of milliseconds.
# They are committed with their certificates; after a change here, lock and certify them anew (README.md).
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p contracts

# write NAME KIND TITLE WRONG RIGHT INPUT EXPECTED INPUT EXPECTED
write() {
    local at=contracts/$1
    rm -rf "$at"/{repo,checks}
    mkdir -p "$at"/{repo,checks/unit}
    printf '#!/bin/bash\n# Usage: tool.sh TEXT\ntext=$1\n%s\n' "$4" >"$at/repo/tool.sh"
    printf '# %s\n\n%s\n' "$1" "$3" >"$at/repo/README.md"
    chmod +x "$at/repo/tool.sh"
    printf '%s\n\nThe program is `tool.sh`; it gets the text as its first argument and prints the result.\n' "$3" >"$at/statement.md"
    cat >"$at/checks/unit/check.sh" <<CHECK
#!/bin/bash
number=0
try() {
    number=\$((number + 1))
    local found
    found=\$(timeout 5 ./tool.sh "\$2" 2>/dev/null </dev/null) || found="(failed)"
    if [ "\$found" = "\$3" ]; then echo "ok \$number - \$1"; else echo "not ok \$number - \$1"; fi
}
echo "1..3"
try first $6 $7
try second $8 $9
try third ${10} ${11}
CHECK
    printf '{"fail_to_pass": ["first", "second"], "pass_to_pass": ["third"]}\n' >"$at/checks/unit.json"
    printf -- '--- a/tool.sh\n+++ b/tool.sh\n@@ -1,4 +1,4 @@\n #!/bin/bash\n # Usage: tool.sh TEXT\n text=$1\n-%s\n+%s\n' "$4" "$5" >"$at/reference.patch"
    cat >"$at/contract.toml" <<CONTRACT
schema = "repotrial/contract@1"
id = "$1"
title = "$3"
kind = "$2"
ecosystem = "shell"
statement = "statement.md"
reference = "reference.patch"

[clarify]
modules = ["tool.sh"]
behavior = ["$3"]

[repository]
kind = "directory"
source = "repo"

[environment]
image = "host"
tools = { bash = ">=4.0" }

[environment.variables]
LC_ALL = "C"

[[checks]]
id = "unit"
gate = "acceptance"
mandatory = true
files = [{ from = "checks/unit", to = "acceptance" }]
run = 'bash acceptance/check.sh > "\$REPOTRIAL_RESULTS/unit.tap"'
results = [{ format = "tap", path = "unit.tap" }]
inventory = "checks/unit.json"
judge = "out-of-process"
baseline = "fail"
timeout_seconds = 60

[policy]
network = "none"
writable = ["tool.sh"]
stages = "single"

[limits]
wall_seconds = 60
command_seconds = 60
cost_usd = 1.0
CONTRACT
    for arm in strong weak; do
        mkdir -p "agents/$arm"
        case " ${solved[$arm]} " in
            *" $1 "*) printf '#!/bin/bash\n# Solves it.\nsed -i "4d" tool.sh\ncat >>tool.sh <<\x27END\x27\n%s\nEND\n' "$5" >"agents/$arm/$1.sh" ;;
            *) printf '#!/bin/bash\n# Changes something else.\nsed -i "2s/TEXT/text/" tool.sh\n' >"agents/$arm/$1.sh" ;;
        esac
    done
}
declare -A solved=([strong]="upper lower length reverse first last" [weak]="upper first")

write upper bug-fix 'tool.sh prints the text in capitals.' 'echo "$text"' 'echo "${text^^}"' ab AB xy XY Q Q
write lower bug-fix 'tool.sh prints the text in small letters.' 'echo "$text"' 'echo "${text,,}"' AB ab XY xy q q
write length bug-fix 'tool.sh prints the number of characters.' 'echo 1' 'echo "${#text}"' ab 2 xyz 3 q 1
write reverse bug-fix 'tool.sh prints the text backwards.' 'echo "$text"' 'rev <<<"$text"' ab ba xyz zyx q q
write first feature 'tool.sh prints the first character.' 'echo "$text"' 'echo "${text:0:1}"' ab a xyz x q q
write last feature 'tool.sh prints the last character.' 'echo "$text"' 'echo "${text: -1}"' ab b xyz z q q
write doubled feature 'tool.sh prints the text twice in a row.' 'echo "$text"' 'echo "$text$text"' ab abab xy xyxy "''" "''"
write dashes feature 'tool.sh prints the text with dashes in the place of spaces.' 'echo "$text"' 'echo "${text// /-}"' "'a b'" a-b "'x y z'" x-y-z q q
