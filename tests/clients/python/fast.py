"""FastMCP's client: 2026-07-28 without a session and with calls as tasks, and a session of 2025-11-25 with streams that it resumes."""

import asyncio

from fastmcp import Client
from fastmcp.client.elicitation import ElicitationHandler, ElicitResult
from fastmcp_tasks import call_tool_task
from mcp import MCPError
from promises import SERVER, Progress, Teller, ended, expect, interrupted, restart, running, teller
from story import TOOLS, Person, asks, cancels, handles, progresses, repeats, resumes, told

NAME = "fastmcp"


async def story(client: Client, person: Person, revision: str, ok: Teller) -> None:
    async def call(tool: str, arguments: dict, progress: Progress | None = None, meta: dict | None = None) -> object:
        return await client.call_tool(tool, arguments, progress_handler=progress, meta=meta, raise_on_error=False)

    expect(client.session.protocol_version == revision, client.session.protocol_version)
    names = {tool.name for tool in await client.list_tools()}
    expect(TOOLS <= names, names)
    ok("list", "the tools and the helpers")
    await handles(call, ok)
    await progresses(call, ok)
    await cancels(call, ok)
    if revision == "2025-11-25":
        await resumes(call, ok)
        await client.list_tools()
    else:
        await repeats(call, ok, MCPError)
    await asks(call, person, ok)


def elicitation(person: Person) -> ElicitationHandler:
    async def ask(message: str, _form: type | None, _params: object, _context: object) -> ElicitResult:
        content = await person.ask(message)
        return ElicitResult(action="accept" if content else "decline", content=content)

    return ask


async def tasks(client: Client, ok: Teller) -> None:
    """Tasks of 2026-07-28. Since fastmcp_tasks was imported every call may become one: `asks` above was."""
    arguments = {"label": "task", "steps": 3}
    result = await client.call_tool("task", arguments)
    expect(told(result) == arguments, result)
    task = await call_tool_task(client, "task", arguments)
    expect(told(await task.result()) == arguments and (await task.status()).status == "completed", task.task_id)
    ok("tasks", "a call becomes a task, is polled, and its result comes")

    asking = await call_tool_task(client, "ask", {})
    await asking.wait(state="input_required")
    expect(told(await asking.result()) == {"greeting": "Hello, Ada!"}, asking.task_id)
    ok("tasks", "a task asks, and is answered by tasks/update")

    arguments = {"label": "kill", "steps": 20, "stepMs": 250}
    task = await call_tool_task(client, "task", arguments)
    await running(task.task_id)
    await restart()
    expect(told(await task.result()) == arguments, task.task_id)
    await interrupted(task.task_id)
    ok("tasks", "after a kill of the server the task is there, and its result comes")

    task = await call_tool_task(client, "task", {"steps": 10_000})
    await task.cancel()
    expect((await task.wait()).status == "cancelled", task.task_id)
    await ended(task.task_id, "job.canceled")
    ok("tasks", "tasks/cancel stops it")


async def main() -> None:
    for mode, revision in [("auto", "2026-07-28"), ("legacy", "2025-11-25")]:
        person, ok = Person(), teller(NAME, revision)
        async with Client(f"{SERVER}/mcp", mode=mode, elicitation_handler=elicitation(person)) as client:
            await story(client, person, revision, ok)
            if revision == "2026-07-28":
                await tasks(client, ok)


asyncio.run(main())
