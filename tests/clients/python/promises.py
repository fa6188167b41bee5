"""What every client here uses: telling what holds, restarting its server, and looking at its jobs from outside of MCP."""

import asyncio
import json
import os
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parent.parent
SERVER = os.environ["LONGHAUL_URL"]
Teller = Callable[[str, str], None]


def teller(client: str, revision: str, over: str = "") -> Teller:
    """Over anything but HTTP, the promise is that all the others hold there."""

    def ok(promise: str, what: str) -> None:
        heading = f"{over}: {revision}: {promise}" if over else f"{promise}: {revision}"
        print(f"ok {client} {heading}: {what}", flush=True)

    return ok


def cannot(client: str, promise: str, why: str) -> None:
    """What this SDK has no way to do."""
    print(f"no {client} {promise}: {why}", flush=True)


def expect(holds: object, what: object) -> None:
    """Unlike `assert`, also under `python -O`."""
    if not holds:
        raise SystemExit(f"not as promised: {what}")


async def restart() -> None:
    """Kills the server and waits for its successor."""
    process = await asyncio.create_subprocess_exec(FOLDER / "restart.sh")
    expect(await process.wait() == 0, "the server comes back")


async def api(path: str) -> dict:
    def get() -> dict:
        request = urllib.request.Request(SERVER + path, headers={"Accept": "application/json"})
        with urllib.request.urlopen(request, timeout=90) as answer:
            return json.load(answer)

    return await asyncio.to_thread(get)


async def ended(job_id: str, kind: str) -> None:
    """The job's events tell that it ended exactly once, and how."""
    events = (await api(f"/api/jobs/{job_id}/events"))["events"]
    ends = [event["type"] for event in events if event["type"] in {"job.completed", "job.failed", "job.canceled"}]
    expect(ends == [kind], events)


async def interrupted(job_id: str) -> None:
    """The job ran when its server was killed, and ended once."""
    expect((await api(f"/api/jobs/{job_id}"))["interruptions"] == 1, job_id)
    await ended(job_id, "job.completed")


async def running(job_id: str) -> None:
    """Returns once the job runs."""
    for _ in range(1200):
        if (await api(f"/api/jobs/{job_id}"))["status"] == "in_progress":
            return
        await asyncio.sleep(0.05)
    expect(False, f"{job_id} starts")


async def newest(kind: str) -> dict:
    """The newest job of a type, once it has ended."""
    job = (await api(f"/api/jobs?type={kind}&limit=1"))["jobs"][0]
    return await api(f"/api/jobs/{job['id']}?wait=60s")


def keyed() -> dict:
    return {"longhaul/idempotencyKey": str(uuid.uuid4())}


class Progress:
    """Progress as MCP wants it: rising, and here of so many steps, each in its turn. At step 2 something may happen.

    What came while nobody listened may be left out.
    """

    def __init__(self, at_two: Callable[[], None] = lambda: None) -> None:
        self.seen: list[tuple[float, float | None, str | None]] = []
        self.at_two = at_two

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.seen.append((progress, total, message))
        if [number for number, _, _ in self.seen].count(2) == 1 and progress == 2:
            self.at_two()

    def has_risen(self, steps: int, may_leave_out: bool = False) -> None:
        numbers = [progress for progress, _, _ in self.seen]
        expect(all(before < after for before, after in zip(numbers, numbers[1:])), self.seen)
        messages = list(dict.fromkeys(message for _, total, message in self.seen if total == steps))
        every = [f"step {step} of {steps}" for step in range(1, steps + 1)]
        expected = [message for message in every if message in messages] if may_leave_out else every
        expect(messages == expected and messages[-1] == every[-1], self.seen)
