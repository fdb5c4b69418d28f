#!/usr/bin/env bash
# Passes on what it reads, line by line; after some seconds of silence it says that the work goes on.
# Usage: COMMAND | heartbeat.sh NAME [SECONDS]
set -u
name=$1 patience=${2:-8} is_inside_line=
while true; do
    line=
    IFS= read -r -t "$patience" line
    case $? in
        0) printf '%s\n' "$line" && is_inside_line= ;;
        1) printf '%s' "$line" && break ;; # the end
        *)
            # The dots of a test runner are half a line for minutes.
            if [ -n "$line" ]; then
                printf '%s' "$line" && is_inside_line=yes
            else
                printf '%s  … %s: at work for %d s\n' "${is_inside_line:+$'\n'}" "$name" "$SECONDS" && is_inside_line=
            fi
            ;;
    esac
done
