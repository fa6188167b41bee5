// The TypeScript SDK 1.x: a session of 2025-11-25, streams that it resumes, tasks as an experiment, and stdio.

import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { answers, command, patient, server, teller } from "./promises.mjs";
import { cancels, handles, lists, progresses, resumes } from "./story.mjs";

const { ok, no } = teller("typescript-1");

async function connect(transport, told) {
  const client = new Client({ name: "longhaul-client-check", version: "1.0.0" });
  await client.connect(transport);
  return {
    client,
    ok: told,
    list: async () => (await client.listTools()).tools,
    call: (name, args, options, meta) => client.callTool({ name, arguments: args, _meta: meta }, undefined, options),
  };
}

const transport = new StreamableHTTPClientTransport(new URL("/mcp", server), { reconnectionOptions: patient });
const session = await connect(transport, ok);
assert.ok(transport.sessionId, "a session was opened");
const answered = answers(transport);
await lists(session);
await handles(session);
await progresses(session);
await cancels(session);
await resumes(session, answered);
await transport.terminateSession();
await session.client.close();

const pipe = new StdioClientTransport(command);
const piped = await connect(pipe, (promise, what) => ok("stdio", `${promise}: ${what}`));
const heard = answers(pipe);
await lists(piped);
await handles(piped);
await progresses(piped);
await cancels(piped);
await resumes(piped, heard);
await piped.client.close();
