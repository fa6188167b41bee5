"""FastMCP's client: 2026-07-28 without a session, and a session of 2025-11-25 with streams that it resumes."""

import asyncio

from fastmcp import Client
from mcp import MCPError
from promises import SERVER, Progress, Teller, expect, teller
from story import TOOLS, cancels, handles, progresses, repeats, resumes

NAME = "fastmcp"


async def story(client: Client, revision: str, ok: Teller) -> None:
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


async def main() -> None:
    for mode, revision in [("auto", "2026-07-28"), ("legacy", "2025-11-25")]:
        async with Client(f"{SERVER}/mcp", mode=mode) as client:
            await story(client, revision, teller(NAME, revision))


asyncio.run(main())
