#!/bin/sh
# slow.sh SECONDS LABEL: sleeps, and says so.
sleep "$1"
printf '%s took %s s\n' "$2" "$1"
