"""The Python SDK 2.x lists, starts, waits, reads the result and cancels: without a session (2026-07-28) and with one.

Usage: python check.py URL, where URL is the server's, without a path. Exits non-zero on the first thing that is not as promised.
"""

import asyncio
import json
import sys
import uuid

from mcp import Client

PROFILE = {"recipientProfile": "a brother who cooks and hikes", "budget": 80}


def expect(holds: object, what: object) -> None:
    """Unlike `assert`, also under `python -O`."""
    if not holds:
        raise SystemExit(f"not as promised: {what}")


async def call(client: Client, tool: str, **arguments: object) -> dict:
    """The structured content of a call that must succeed."""
    result = await client.call_tool(tool, arguments)
    expect(not result.is_error, result)
    return result.structured_content


async def start(client: Client, meta: dict | None = None) -> str:
    """Starts an analysis; its job's id."""
    result = await client.call_tool("start_deep_analysis", PROFILE, meta=meta)
    expect(not result.is_error, result)
    job_id = result.structured_content["jobId"]
    expect("wait_for_jobs" in result.content[0].text and job_id in result.content[0].text, result)
    return job_id


async def result_of(client: Client, job_id: str) -> object:
    """The whole result, read in ranges."""
    text, offset = "", 0
    while offset is not None:
        part = await call(client, "get_job", jobId=job_id, part="result", offset=offset, limit=1_000)
        text, offset = text + part["text"], part.get("nextOffset")
    return json.loads(text)


async def check(url: str, mode: str, revision: str) -> None:
    async with Client(f"{url}/mcp", mode=mode) as client:
        expect(client.protocol_version == revision, client.protocol_version)
        names = {tool.name for tool in (await client.list_tools()).tools}
        expected = {"start_deep_analysis", "get_job", "wait_for_jobs", "cancel_job", "list_jobs"}
        expect(expected <= names, names)

        key = {"longhaul/idempotencyKey": str(uuid.uuid4())}
        job_id = await start(client, key)
        expect(await start(client, key) == job_id, "the key names one job")
        report = await call(client, "wait_for_jobs", jobIds=[job_id], mode="all", timeoutMs=60_000)
        expect(report["done"] and report["jobs"][0]["status"] == "completed", report)
        expect(await result_of(client, job_id), "a result")

        other = await start(client)
        canceling = await call(client, "cancel_job", jobId=other, reason="changed my mind")
        expect(canceling["cancel"]["requestedAt"], canceling)
        canceled = await call(client, "wait_for_jobs", jobIds=[other], mode="all", timeoutMs=30_000)
        expect(canceled["jobs"][0]["status"] == "canceled", canceled)

        wrong = await client.call_tool("start_deep_analysis", {**PROFILE, "budget": "much"})
        expect(wrong.is_error and "/budget" in wrong.content[0].text, wrong)
        print(f"python: {revision}, job {job_id} completed, job {other} canceled")


async def main() -> None:
    url = sys.argv[1].rstrip("/")
    await check(url, "auto", "2026-07-28")
    await check(url, "legacy", "2025-11-25")


asyncio.run(main())
