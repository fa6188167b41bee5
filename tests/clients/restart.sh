#!/usr/bin/env bash
# Kills the server of this client, as a crash would, and returns once the next one, which run.sh starts, is ready.
set -euo pipefail
old=$(cat "$LONGHAUL_RUN/pid")
kill -KILL "$old"
for _ in $(seq 600); do
  if [ "$(cat "$LONGHAUL_RUN/pid")" != "$old" ] && curl -fsS --max-time 5 "$LONGHAUL_URL/readyz" >/dev/null 2>&1; then exit 0; fi
  sleep 0.05
done
echo "no server came back" >&2
exit 1
