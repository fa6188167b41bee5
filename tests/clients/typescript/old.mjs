// The TypeScript SDK as it spoke 2025-03-26 (1.11) and 2025-06-18 (1.13): sessions and streams that it resumes, and batches
// where they were. Usage: node old.mjs 1.11|1.13

import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import { ended, patient, server, teller } from "./promises.mjs";
import { aborts, asks, cancels, good, handles, keyed, lists, mistakes, progresses, resumes, somebody } from "./story.mjs";

const [version] = process.argv.slice(2);
const revision = { 1.11: "2025-03-26", 1.13: "2025-06-18" }[version];
const sdk = (part) => import(`sdk-${version}/${part}.js`);
const [{ Client }, { StreamableHTTPClientTransport }, types] = await Promise.all(["client/index", "client/streamableHttp", "types"].map(sdk));
const { ok, no } = teller(`typescript-${version}`);
const asksPeople = "ElicitRequestSchema" in types;

const client = new Client({ name: "longhaul-client-check", version: "1.0.0" }, { capabilities: asksPeople ? { elicitation: {} } : {} });
const person = somebody();
if (asksPeople) client.setRequestHandler(types.ElicitRequestSchema, (request) => person.ask(request.params));
const transport = new StreamableHTTPClientTransport(new URL("/mcp", server), { reconnectionOptions: patient });
// The client takes what comes by an `onmessage` of its own, and this SDK does not tell what was agreed on.
const answered = [];
let hand;
const see = (message, extra) => {
  if (!message.method) answered.push(message);
  hand(message, extra);
};
Object.defineProperty(transport, "onmessage", { get: () => hand && see, set: (next) => (hand = next) });
await client.connect(transport);
assert.ok(transport.sessionId, "a session was opened");
assert.equal(answered[0].result.protocolVersion, revision);

/** What the SDK's client never sends, its transport can: several messages in one request. */
async function batches() {
  const request = (id, method) => ({ jsonrpc: "2.0", id, method, params: {} });
  const note = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "nobody's" } };
  const wanted = ["b1", "b2", "b3"];
  const unheard = () => wanted.filter((id) => !answered.some((message) => message.id === id));
  // The SDK is no party to it, and wonders.
  client.onerror = () => {};
  await transport.send([request("b1", "ping"), note, request("b2", "tools/list"), request("b3", "no/such")]);
  for (let asked = 0; unheard().length > 0; asked += 1) {
    assert.ok(asked < 1200, `answers to ${unheard()}`);
    await setTimeout(50);
  }
  client.onerror = undefined;
  const heard = answered.filter((message) => wanted.includes(message.id));
  assert.equal(heard.length, wanted.length);
  const answer = Object.fromEntries(heard.map((message) => [message.id, message]));
  assert.deepEqual(answer.b1.result, {});
  assert.ok(answer.b2.result.tools.some((tool) => tool.name === "quick"));
  assert.equal(answer.b3.error.code, -32601);
  ok("list", "a batch is answered whole: each request once, and the notification not at all");
}

/** What `handles` and `cancels` do, where results are texts and nothing else. */
async function plain(it) {
  const text = async (...args) => {
    const result = await good(it, ...args);
    assert.equal(result.structuredContent, undefined, "2025-03-26 has no structured results");
    return result.content.map((block) => block.text).join("\n");
  };
  const key = keyed();
  const args = { label: "handle", steps: 3 };
  const [jobId] = /[0-9a-f-]{36}/.exec(await text("job", args, undefined, key));
  assert.ok((await text("job", args, undefined, key)).includes(jobId));
  ok("start", "a call is answered by a handle at once, and its key names one job");

  let report = "";
  for (let since; !report.includes("All have ended."); [, since] = /wait on with since (\S+)\./.exec(report) ?? [, since]) {
    report = await text("wait_for_jobs", { jobIds: [jobId], timeoutMs: 10_000, since });
  }
  assert.match(report, new RegExp(`${jobId}.*completed`));
  ok("wait", "wait_for_jobs tells by its cursor what changed, until the end");

  let whole = "";
  for (let offset = 0; offset !== undefined; ) {
    const range = await text("get_job", { jobId, part: "result", offset, limit: 20 });
    const [part, next] = range.split(/\n\[cut at .* go on with offset (\d+)\]$/);
    whole += part;
    offset = next && Number(next);
  }
  assert.deepEqual(JSON.parse(whole), args);
  await ended(jobId, "job.completed");
  assert.equal(await text("quick", { a: 2, b: 3 }), '{"sum":5}');
  ok("result", "inline as text, and in ranges by get_job");

  await mistakes(it);

  const [long] = /[0-9a-f-]{36}/.exec(await text("job", { steps: 10_000 }));
  assert.ok((await text("cancel_job", { jobId: long, reason: "changed my mind" })).includes("requestedAt"));
  assert.match(await text("wait_for_jobs", { jobIds: [long], mode: "all", timeoutMs: 30_000 }), /canceled/);
  await ended(long, "job.canceled");
  ok("cancel", "cancel_job stops a job, and its waiters hear");
}

const session = {
  client,
  person,
  ok,
  isOld: true,
  list: async () => (await client.listTools()).tools,
  call: (name, args, options, meta) => client.callTool({ name, arguments: args, _meta: meta }, undefined, options),
};
await lists(session);
if (revision === "2025-03-26") {
  await batches();
  await plain(session);
  await aborts(session);
} else {
  await handles(session);
  await cancels(session);
}
await progresses(session);
await resumes(session, () => answered);
if (asksPeople) await asks(session);
else no("question", "2025-03-26 has no way to ask");
no("tasks", `${revision} has no tasks`);
await transport.terminateSession();
await client.close();
