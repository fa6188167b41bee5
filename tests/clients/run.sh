#!/usr/bin/env bash
# Runs the SDK clients against a server that is already up: tests/clients/run.sh http://127.0.0.1:7450
# Installs what they need beside them (node 20, python 3.10 or newer). Exits non-zero if either finds anything not as promised.
set -euo pipefail
url=${1:?usage: run.sh URL}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

(cd "$here/typescript" && npm ci --no-audit --no-fund --loglevel=error && node check.mjs "$url")

venv="$here/python/.venv"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/python/requirements.txt"
"$venv/bin/python" "$here/python/check.py" "$url"
