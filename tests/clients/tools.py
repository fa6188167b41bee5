"""The programs behind the tools of server.toml: one job each, told in lines (README, "Tools of your own").

Usage: python3 tools.py steps|ask, as longhaul starts it.
"""

import json
import sys
import time


def say(kind: str, **fields: object) -> None:
    print(json.dumps({"type": kind, **fields}), flush=True)


def steps(job: dict) -> None:
    """So many steps of so long, with progress. The result is what was asked for."""
    payload = job["payload"]
    total = payload.get("steps", 4)
    for step in range(1, total + 1):
        time.sleep(payload.get("stepMs", 100) / 1000)
        say("progress", step=step, totalSteps=total, message=f"step {step} of {total}")
    say("result", data=payload)


def ask(job: dict) -> None:
    """Asks for a name, and greets it."""
    schema = {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}, "required": ["name"]}
    say("ask", key="name", message="Who is to be greeted?", schema=schema)
    line = json.loads(sys.stdin.readline())
    answer = line if line["type"] == "answer" else None
    if answer and answer["action"] == "accept":
        say("result", data={"greeting": f"Hello, {answer['content']['name']}!"})
    else:
        say("error", **{"class": "permanent"}, message="nobody was named")


first = json.loads(sys.stdin.readline())
{"steps": steps, "ask": ask}[sys.argv[1]](first)
