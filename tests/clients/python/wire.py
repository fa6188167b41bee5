"""Stands between a client and its server, byte for byte, and holds every message of the server against its revision's schema.

The schemas are the official ones, as the Python SDK carries them. Usage: python wire.py PORT, the server's port; prints its own
port, and on SIGTERM what it has seen. Ends with status 1 if a message was not as its revision has it.
"""

import asyncio
import contextlib
import json
import signal
import sys
from collections import Counter

import h11
import mcp_types._v2025_11_25 as core
from mcp_types import methods
from pydantic import ValidationError

ENVELOPE = "io.modelcontextprotocol/protocolVersion"
# Core tasks are an experiment, which the SDK has the schema of, but no use for.
REQUESTS = methods.SERVER_REQUESTS
NOTIFICATIONS = {**methods.SERVER_NOTIFICATIONS, ("notifications/tasks/status", "2025-11-25"): core.TaskStatusNotification}
RESULTS = {
    **methods.SERVER_RESULTS,
    ("tasks/get", "2025-11-25"): core.GetTaskResult,
    ("tasks/result", "2025-11-25"): core.CallToolResult,
    ("tasks/list", "2025-11-25"): core.ListTasksResult,
    ("tasks/cancel", "2025-11-25"): core.CancelTaskResult,
    ("tools/call as a task", "2025-11-25"): core.CreateTaskResult,
}


class Seen:
    """What was asked, and what came of it."""

    def __init__(self) -> None:
        self.revisions: dict[str, str] = {}
        self.asked: dict[tuple[str | None, object], str] = {}
        self.counts: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.wrong: list[str] = []

    def message(self, message: dict, session: str | None, revision: str) -> None:
        self.counts[revision] += 1
        try:
            self.hold(message, session, revision)
        except KeyError as what:
            self.unknown[str(what)] += 1
        except (ValidationError, ValueError) as why:
            self.wrong.append(f"{revision}: {json.dumps(message)[:2000]}\n{why}")

    def hold(self, message: dict, session: str | None, revision: str) -> None:
        if message.get("jsonrpc") != "2.0":
            raise ValueError("jsonrpc is not 2.0")
        if "method" in message:
            known = REQUESTS if "id" in message else NOTIFICATIONS
            known[message["method"], revision].model_validate(message, by_name=False)
        elif "error" in message:
            error = message["error"]
            if not (isinstance(error["code"], int) and isinstance(error["message"], str)) or message.get("id", 0) is None:
                raise ValueError("not an error as JSON-RPC has it")
        else:
            method = self.asked[session, message["id"]]
            methods.validate_server_result(method, revision, message["result"], surface=RESULTS)


class Tap:
    """One connection: both directions as HTTP, to be looked at."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.up, self.down = h11.Connection(h11.SERVER), h11.Connection(h11.CLIENT)
        self.begin()

    def begin(self) -> None:
        self.request: h11.Request | None = None
        self.asking, self.text, self.kind = b"", b"", ""
        self.session: str | None = None
        self.revision = ""

    def asked(self, data: bytes) -> None:
        self.up.receive_data(data)
        for event in events(self.up):
            if isinstance(event, h11.Request):
                self.request = event
                self.down.send(event)
            elif isinstance(event, h11.Data):
                self.asking += event.data
                self.down.send(event)
            elif isinstance(event, h11.EndOfMessage):
                self.down.send(event)
                self.understand()

    def understand(self) -> None:
        headers = {name.decode(): value.decode() for name, value in self.request.headers}
        body = json.loads(self.asking) if self.asking and self.request.target == b"/mcp" else {}
        # In 2025-03-26 it may be several at once.
        batch = body if isinstance(body, list) else [body]
        envelope = (batch[0].get("params") or {}).get("_meta", {}).get(ENVELOPE)
        self.session = None if envelope else headers.get("mcp-session-id")
        self.revision = envelope or self.seen.revisions.get(self.session, "2025-11-25")
        for asked in batch:
            if "method" in asked and "id" in asked:
                is_task = self.session and asked["method"] == "tools/call" and "task" in asked["params"]
                self.seen.asked[self.session, asked["id"]] = asked["method"] + (" as a task" if is_task else "")

    def answered(self, data: bytes) -> None:
        self.down.receive_data(data)
        for event in events(self.down):
            if isinstance(event, h11.Response):
                headers = {name.decode(): value.decode() for name, value in event.headers}
                self.kind = headers.get("content-type", "") if self.request.target == b"/mcp" else ""
                opened = headers.get("mcp-session-id")
                if opened and self.session is None:
                    self.session = opened
                    self.seen.asked[opened, json.loads(self.asking)["id"]] = "initialize"
            elif isinstance(event, h11.Data):
                self.text += event.data
                if self.kind.startswith("text/event-stream"):
                    *whole, self.text = self.text.split(b"\n\n")
                    for part in whole:
                        self.part(part)
            elif isinstance(event, h11.EndOfMessage):
                if self.kind.startswith("application/json") and self.text:
                    answer = json.loads(self.text)
                    for message in answer if isinstance(answer, list) else [answer]:
                        self.message(message)
                self.next()

    def part(self, part: bytes) -> None:
        for line in part.split(b"\n"):
            if line.startswith(b"data:") and line[5:].strip():
                self.message(json.loads(line[5:]))

    def message(self, message: dict) -> None:
        if self.session and "protocolVersion" in message.get("result", {}):
            self.seen.revisions[self.session] = self.revision = message["result"]["protocolVersion"]
        self.seen.message(message, self.session, self.revision)

    def next(self) -> None:
        if self.down.our_state is h11.DONE and self.down.their_state is h11.DONE:
            self.down.start_next_cycle()
            self.up = h11.Connection(h11.SERVER)
            self.begin()


def events(connection: h11.Connection) -> list[object]:
    found = []
    while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
        found.append(event)
        if isinstance(event, h11.ConnectionClosed):
            break
    return found


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, look: object) -> None:
    """Hands on what comes, then looks at it. Whatever ends one direction ends the connection."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
            look(data)


async def main() -> None:
    seen, port, stop = Seen(), int(sys.argv[1]), asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        tap = Tap(seen)
        ways = [asyncio.create_task(carry(reader, to_server, tap.asked)), asyncio.create_task(carry(server, writer, tap.answered))]
        done, left = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in left:
            way.cancel()
        for way in done:
            if why := way.exception():
                seen.wrong.append(f"not understood: {why!r}")
        writer.transport.abort()
        to_server.transport.abort()

    proxy = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(proxy.sockets[0].getsockname()[1], flush=True)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    for wrong in seen.wrong:
        print(wrong, flush=True)
    counts = ", ".join(f"{count} of {revision}" for revision, count in sorted(seen.counts.items()))
    unknown = ", ".join(sorted(seen.unknown)) or "none"
    print(f"messages of the server held against their schema: {counts}; without one: {sum(seen.unknown.values())} ({unknown})", flush=True)
    sys.exit(1 if seen.wrong else 0)


asyncio.run(main())
