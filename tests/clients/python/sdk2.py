"""The Python SDK 2.x: 2026-07-28 without a session, a session of 2025-11-25 with streams that it resumes, and stdio."""

import asyncio
import os

from mcp import Client, MCPError, StdioServerParameters
from promises import FOLDER, SERVER, Progress, Teller, expect, keyed, teller
from story import TOOLS, cancels, handles, progresses, repeats, resumes

NAME = "python-2"


async def story(client: Client, ok: Teller) -> None:
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


async def main() -> None:
    data = os.path.join(os.environ["LONGHAUL_RUN"], "data")
    command = ["mcp", "--stdio", "--config", str(FOLDER / "server.toml"), "--data-dir", data]
    pipe = StdioServerParameters(command=os.environ["LONGHAUL_BINARY"], args=command)
    for mode, revision in [("auto", "2026-07-28"), ("legacy", "2025-11-25")]:
        async with Client(f"{SERVER}/mcp", mode=mode) as client:
            expect(client.protocol_version == revision, client.protocol_version)
            await story(client, teller(NAME, revision))
        async with Client(pipe, mode=mode) as client:
            expect(client.protocol_version == revision, client.protocol_version)
            await story(client, teller(NAME, revision, "stdio"))


asyncio.run(main())
