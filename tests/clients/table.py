"""Says which client has shown what, from the lines that the clients printed; docs/clients.md has to hold the same table.

Usage: python3 table.py LINES DOCUMENT
"""

import sys
from pathlib import Path

PROMISES = ["list", "start", "progress", "wait", "result", "cancel", "question", "resume", "tasks", "stdio"]

shown: dict[str, dict[str, str]] = {}
for line in Path(sys.argv[1]).read_text().splitlines():
    verdict, client, promise, *_ = line.split()
    row = shown.setdefault(client, {})
    # What works in one way works; what an SDK cannot do in another is in its notes.
    if row.get(promise.rstrip(":")) != "yes":
        row[promise.rstrip(":")] = {"ok": "yes", "no": "no"}[verdict]

rows = [["client", *PROMISES], ["---"] * (len(PROMISES) + 1)]
rows += [[client, *(row.get(promise, "") for promise in PROMISES)] for client, row in shown.items()]
table = [f"| {' | '.join(row)} |" for row in rows]
print("\n".join(table))

known = Path(sys.argv[2]).read_text().splitlines()
missing = [line for line in table if line not in known]
if missing:
    raise SystemExit("\n".join([f"{sys.argv[2]} does not say:", *missing]))
