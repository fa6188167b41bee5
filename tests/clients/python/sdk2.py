"""The Python SDK 2.x: 2026-07-28 without a session, a session of 2025-11-25 with streams that it resumes, and stdio."""

import asyncio
import os

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp_types import ElicitRequestParams, ElicitResult
from promises import FOLDER, SERVER, Progress, Teller, cannot, expect, keyed, teller
from story import TOOLS, Person, asks, cancels, handles, progresses, repeats, resumes

NAME = "python-2"


async def story(client: Client, person: Person, ok: Teller) -> None:
    async def call(tool: str, arguments: dict, progress: Progress | None = None, meta: dict | None = None) -> object:
        return await client.call_tool(tool, arguments, progress_callback=progress, meta=meta)

    names = {tool.name for tool in (await client.list_tools()).tools}
    expect(TOOLS <= names, names)
    ok("list", "the tools and the helpers")
    await handles(call, ok)
    await progresses(call, ok)
    await cancels(call, ok)
    if client.protocol_version == "2025-11-25":
        await resumes(call, ok)
        await client.list_tools()
    elif isinstance(client.server, StdioServerParameters):
        # longhaul's own process on the pipe makes a call with a key again.
        await resumes(call, ok, keyed())
    else:
        await repeats(call, ok, MCPError)
    await asks(call, person, ok)


def elicitation(person: Person) -> ElicitationFnT:
    async def ask(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        content = await person.ask(params.message)
        return ElicitResult(action="accept" if content else "decline", content=content)

    return ask


async def main() -> None:
    data = os.path.join(os.environ["LONGHAUL_RUN"], "data")
    command = ["mcp", "--stdio", "--config", str(FOLDER / "server.toml"), "--data-dir", data]
    pipe = StdioServerParameters(command=os.environ["LONGHAUL_BINARY"], args=command)
    for mode, revision in [("auto", "2026-07-28"), ("legacy", "2025-11-25")]:
        for server, over in [(f"{SERVER}/mcp", ""), (pipe, "stdio")]:
            person = Person()
            async with Client(server, mode=mode, elicitation_callback=elicitation(person)) as client:
                expect(client.protocol_version == revision, client.protocol_version)
                await story(client, person, teller(NAME, revision, over))
    cannot(NAME, "tasks", "the SDK leaves tasks to extensions; without them every tool still answers with a result or a handle")


asyncio.run(main())
