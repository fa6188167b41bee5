"""What the Python SDK's client and FastMCP's both do. A `call` is `call(tool, arguments, progress=None, meta=None)`."""

import asyncio
import json
from typing import Any, Protocol

from promises import Progress, Teller, ended, expect, interrupted, keyed, newest, restart

TOOLS = {"quick", "slow", "job", "ask", "task", "get_job", "wait_for_jobs", "cancel_job", "list_jobs"}


class Caller(Protocol):
    """A call of a tool; its result, an `isError` one as well."""

    async def __call__(self, tool: str, arguments: dict, progress: Progress | None = None, meta: dict | None = None) -> Any: ...


async def good(call: Caller, tool: str, arguments: dict, progress: Progress | None = None, meta: dict | None = None) -> Any:
    """A call that has to succeed."""
    result = await call(tool, arguments, progress, meta)
    expect(not result.is_error, result)
    return result


async def structured(call: Caller, tool: str, **arguments: object) -> dict:
    return (await good(call, tool, arguments)).structured_content


def told(result: Any) -> dict:
    """The result of a program, as the model sees it."""
    return json.loads(result.content[0].text)


async def handles(call: Caller, ok: Teller) -> None:
    key, arguments = keyed(), {"label": "handle", "steps": 3}
    first = await good(call, "job", arguments, meta=key)
    job_id = first.structured_content["jobId"]
    expect("wait_for_jobs" in first.content[0].text and job_id in first.content[0].text, first)
    again = await good(call, "job", arguments, meta=key)
    expect(again.structured_content["jobId"] == job_id, again)
    ok("start", "a call is answered by a handle at once, and its key names one job")

    report = {"done": False, "cursor": ""}
    while not report["done"]:
        report = await structured(call, "wait_for_jobs", jobIds=[job_id], timeoutMs=10_000, since=report["cursor"])
    expect([job["status"] for job in report["jobs"]] == ["completed"], report)
    ok("wait", "wait_for_jobs tells by its cursor what changed, until the end")

    text, offset = "", 0
    while offset is not None:
        part = await structured(call, "get_job", jobId=job_id, part="result", offset=offset, limit=20)
        text, offset = text + part["text"], part.get("nextOffset")
    expect(json.loads(text) == arguments, text)
    await ended(job_id, "job.completed")
    expect(await structured(call, "quick", a=2, b=3) == {"sum": 5}, "2 + 3")
    ok("result", "inline against its schema, and in ranges by get_job")

    wrong = await call("quick", {"a": "two", "b": 3})
    expect(wrong.is_error and "/a" in wrong.content[0].text, wrong)
    ok("start", "wrong arguments are told to the model")


async def progresses(call: Caller, ok: Teller) -> None:
    progress, arguments = Progress(), {"label": "progress", "steps": 4}
    result = await good(call, "slow", arguments, progress)
    expect(told(result) == arguments, result)
    progress.has_risen(4)
    ok("progress", "rising, up to the last of its steps, before the result")


async def cancels(call: Caller, ok: Teller) -> None:
    job_id = (await structured(call, "job", steps=10_000))["jobId"]
    canceling = await structured(call, "cancel_job", jobId=job_id, reason="changed my mind")
    expect(canceling["cancel"]["requestedAt"], canceling)
    canceled = await structured(call, "wait_for_jobs", jobIds=[job_id], mode="all", timeoutMs=30_000)
    expect(canceled["jobs"][0]["status"] == "canceled", canceled)
    await ended(job_id, "job.canceled")
    ok("cancel", "cancel_job stops a job, and its waiters hear")

    running = asyncio.Event()
    aborted = asyncio.create_task(call("slow", {"label": "abort", "steps": 10_000}, Progress(running.set)))
    await running.wait()
    aborted.cancel()
    await asyncio.wait([aborted])
    job = await newest("slow")
    expect((job["payload"]["label"], job["status"]) == ("abort", "canceled"), job)
    ok("cancel", "an aborted call cancels its job")


class Person:
    """Somebody who is shown forms: `answer` gives what they fill in, or `None` if they decline."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer = self.names

    async def names(self) -> dict | None:
        return {"name": "Ada"}

    async def declines(self) -> dict | None:
        return None

    async def names_after_a_kill(self) -> dict | None:
        self.answer = self.names
        await restart()
        return await self.names()

    async def ask(self, message: str) -> dict | None:
        self.asked.append(message)
        return await self.answer()


async def asks(call: Caller, person: Person, ok: Teller) -> None:
    greeting = {"greeting": "Hello, Ada!"}
    result = await good(call, "ask", {})
    expect(told(result) == greeting and person.asked[-1] == "Who is to be greeted?", (result, person.asked))
    ok("question", "what a program asks is shown as a form, and the program gets the answer")

    person.answer = person.declines
    declined = await call("ask", {})
    expect(declined.is_error and "nobody was named" in declined.content[0].text, declined)
    ok("question", "a person may decline")

    person.answer = person.names_after_a_kill
    result = await good(call, "ask", {})
    expect(told(result) == greeting, result)
    ok("question", "asked before a kill of the server, it is answered after it")


async def resumes(call: Caller, ok: Teller, meta: dict | None = None) -> None:
    """Waits on a stream that is resumed without the caller's doing."""
    restarts = []
    progress = Progress(lambda: restarts.append(asyncio.create_task(restart())))
    arguments = {"label": "resume", "steps": 12, "stepMs": 250}
    result = await good(call, "slow", arguments, progress, meta)
    await asyncio.gather(*restarts)
    expect(told(result) == arguments, result)
    progress.has_risen(12, may_leave_out=True)
    await interrupted(result.meta["longhaul/jobId"])
    ok("resume", "over a kill of the server the stream goes on, no step comes twice, and the result comes")


async def repeats(call: Caller, ok: Teller, lost: type[Exception]) -> None:
    """Where no stream is resumed: the call fails, and made again with its key it finds its job."""
    restarts = []
    progress = Progress(lambda: restarts.append(asyncio.create_task(restart())))
    arguments, key = {"label": "repeat", "steps": 12, "stepMs": 250}, keyed()
    try:
        early = await call("slow", arguments, progress, key)
        raise SystemExit(f"not as promised: the call outlived its server: {early}")
    except lost:
        await asyncio.gather(*restarts)
    again = Progress()
    result = await good(call, "slow", arguments, again, key)
    expect(told(result) == arguments and again.seen[-1][2] == "step 12 of 12", (result, again.seen))
    await interrupted(result.meta["longhaul/jobId"])
    ok("resume", "made again with its key after a kill of the server, a call finds its job and its result")
