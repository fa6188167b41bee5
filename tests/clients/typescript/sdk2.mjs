// The TypeScript SDK 2.x: 2026-07-28 without a session, and a session of 2025-11-25 with streams that it resumes.

import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { answers, patient, server, teller } from "./promises.mjs";
import { asks, cancels, handles, lists, progresses, repeats, resumes, somebody } from "./story.mjs";

const { ok, no } = teller("typescript-2");

async function connect(mode, revision) {
  const options = { versionNegotiation: { mode }, capabilities: { elicitation: {} } };
  const client = new Client({ name: "longhaul-client-check", version: "1.0.0" }, options);
  const person = somebody();
  client.setRequestHandler("elicitation/create", (request) => person.ask(request.params));
  const transport = new StreamableHTTPClientTransport(new URL("/mcp", server), { reconnectionOptions: patient });
  await client.connect(transport);
  assert.equal(client.getNegotiatedProtocolVersion(), revision);
  return {
    client,
    person,
    transport,
    answered: answers(transport),
    ok: (promise, what) => ok(promise, `${revision}: ${what}`),
    list: async () => (await client.listTools()).tools,
    call: (name, args, options, meta) => client.callTool({ name, arguments: args, _meta: meta }, options),
  };
}

const modern = await connect("auto", "2026-07-28");
await lists(modern);
await handles(modern);
await progresses(modern);
await cancels(modern);
await repeats(modern);
await asks(modern);
await modern.client.close();

const session = await connect("legacy", "2025-11-25");
await lists(session);
await handles(session);
await progresses(session);
await cancels(session);
await resumes(session, session.answered);
await asks(session);
await session.transport.terminateSession();
await session.client.close();

no("tasks", "the SDK has no calls for tasks; without them every tool still answers with a result or a handle");
