#!/usr/bin/env python3
"""ask.py KIND [MESSAGE]: asks the questions of a scenario, and answers with what was said.

Speaks longhaul's lines: the job comes first, a line for each answer later; in a later attempt the answers are there at once, and a
question that is asked again is the same question.
"""

import json
import sys

TEXT = {"type": "string"}
YES = {"type": "boolean"}
NAME = {"name": TEXT}
COLOURS = [{"const": f"value{n}", "title": f"{word} option"} for n, word in enumerate(("First", "Second", "Third"), 1)]
OPTIONS = ["option1", "option2", "option3"]

DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
ENUMS = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": COLOURS},
    "legacyEnum": {"type": "string", "enum": OPTIONS, "enumNames": ["Option one", "Option two", "Option three"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": COLOURS}},
}

# What each kind asks, in rounds: all questions of a round are asked before its answers are awaited.
KINDS = {
    "contact": [{"contact": ({"username": TEXT, "email": TEXT}, ["username", "email"])}],
    "defaults": [{"defaults": (DEFAULTS, [])}],
    "enums": [{"enums": (ENUMS, [])}],
    "name": [{"user_name": (NAME, ["name"])}],
    "rounds": [{"step1": (NAME, ["name"])}, {"step2": ({"color": TEXT}, ["color"])}],
    "confirm": [{"confirm": ({"confirm": YES}, ["confirm"])}],
    "both": [
        {
            "first": ({"name": TEXT, "confirm": YES}, []),
            "second": ({"name": TEXT, "confirm": YES}, []),
        }
    ],
}


def say(line):
    print(json.dumps(line), flush=True)


def answer_of(lines, known, key):
    while key not in known:
        line = json.loads(next(lines))
        if line.get("type") == "answer":
            known[line["key"]] = line
    return known[key]


def main():
    kind = sys.argv[1]
    message = sys.argv[2] if len(sys.argv) > 2 else "Please answer."
    lines = iter(sys.stdin.readline, "")
    next(lines)
    known, said = {}, []
    for questions in KINDS[kind]:
        for key, (properties, required) in questions.items():
            schema = {"type": "object", "properties": properties, "required": required}
            say({"type": "ask", "key": key, "message": message, "schema": schema})
        for key in questions:
            answer = answer_of(lines, known, key)
            said.append({"action": answer["action"], "content": answer.get("content")})
    text = f"state-ok: {json.dumps(said)}"
    say({"type": "result", "data": text, "content": [{"type": "text", "text": text}]})


if __name__ == "__main__":
    main()
