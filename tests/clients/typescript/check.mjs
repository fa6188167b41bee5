// The TypeScript SDK 1.x (a client with a session) lists, starts, waits, reads the result and cancels.
// Usage: node check.mjs URL, where URL is the server's, without a path. Exits non-zero on the first thing that is not as promised.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const endpoint = new URL("/mcp", process.argv[2]);
const profile = { recipientProfile: "a sister who likes gardening and tea", budget: 60 };

const client = new Client({ name: "longhaul-client-check", version: "1.0.0" });
const transport = new StreamableHTTPClientTransport(endpoint);
await client.connect(transport);
assert.ok(transport.sessionId, "a session was opened");

const { tools } = await client.listTools();
const names = tools.map((tool) => tool.name);
for (const name of ["start_deep_analysis", "get_job", "wait_for_jobs", "cancel_job", "list_jobs"]) {
  assert.ok(names.includes(name), `${name} is listed among ${names}`);
}

async function start(meta) {
  const started = await client.callTool({ name: "start_deep_analysis", arguments: profile, _meta: meta });
  assert.ok(!started.isError, JSON.stringify(started));
  const { jobId } = started.structuredContent;
  assert.match(started.content[0].text, new RegExp(`wait_for_jobs.*${jobId}`));
  return jobId;
}

// Start, and start again with the same key: one job.
const key = { "longhaul/idempotencyKey": randomUUID() };
const jobId = await start(key);
assert.equal(await start(key), jobId, "the key names one job");

// Wait, by the cursor, until it has ended.
let report = { done: false, cursor: "" };
while (!report.done) {
  const args = { jobIds: [jobId], timeoutMs: 10_000, since: report.cursor };
  report = (await client.callTool({ name: "wait_for_jobs", arguments: args })).structuredContent;
}
const ended = report.jobs.find((job) => job.id === jobId);
assert.equal(ended.status, "completed", JSON.stringify(ended));

// Read the result, in ranges.
let text = "";
for (let offset = 0; offset !== undefined; ) {
  const args = { jobId, part: "result", offset, limit: 1_000 };
  const range = (await client.callTool({ name: "get_job", arguments: args })).structuredContent;
  text += range.text;
  offset = range.nextOffset;
}
assert.ok(Object.keys(JSON.parse(text)).length > 0, text);

// Cancel another one, and see it end.
const other = await start(undefined);
const canceling = await client.callTool({ name: "cancel_job", arguments: { jobId: other, reason: "changed my mind" } });
assert.ok(canceling.structuredContent.cancel.requestedAt, JSON.stringify(canceling));
const args = { jobIds: [other], mode: "all", timeoutMs: 30_000 };
const canceled = (await client.callTool({ name: "wait_for_jobs", arguments: args })).structuredContent;
assert.equal(canceled.jobs[0].status, "canceled", JSON.stringify(canceled));

// What a model gets wrong is told to the model.
const wrong = await client.callTool({ name: "start_deep_analysis", arguments: { ...profile, budget: "much" } });
assert.ok(wrong.isError && wrong.content[0].text.includes("/budget"), JSON.stringify(wrong));

await transport.terminateSession();
await client.close();
console.log(`typescript: session, job ${jobId} completed, job ${other} canceled`);
