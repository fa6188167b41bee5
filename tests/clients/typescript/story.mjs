// What both TypeScript SDKs do, whatever their calls look like. A client is `{ client, list, call, ok, person }`: `list()`
// gives the tools, `call(name, arguments, options, meta)` a result, and the person answers what is asked.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { end, ended, interrupted, newest, restart, rising } from "./promises.mjs";

const helpers = ["get_job", "wait_for_jobs", "cancel_job", "list_jobs"];
export const keyed = () => ({ "longhaul/idempotencyKey": randomUUID() });

/** A call that has to succeed. */
export async function good({ call }, name, args, options, meta) {
  const result = await call(name, args, options, meta);
  assert.ok(!result.isError, JSON.stringify(result));
  return result;
}

/** A call that has to succeed; what it answers for programs. */
const structured = async (...args) => (await good(...args)).structuredContent;

/** The result of a program, as the model sees it. */
export const told = (result) => JSON.parse(result.content[0].text);

const named = { action: "accept", content: { name: "Ada" } };

/** Somebody who is shown forms. */
export function somebody() {
  const person = { asked: [], answer: () => named };
  person.ask = (params) => {
    person.asked.push(params);
    return person.answer();
  };
  return person;
}

export async function lists({ list, ok }) {
  const names = (await list()).map((tool) => tool.name);
  for (const name of ["quick", "slow", "job", "ask", "task", ...helpers]) assert.ok(names.includes(name), `${name} in ${names}`);
  ok("list", "the tools and the helpers");
}

export async function handles(it) {
  const key = keyed();
  const args = { label: "handle", steps: 3 };
  const first = await good(it, "job", args, undefined, key);
  const { jobId } = first.structuredContent;
  assert.match(first.content[0].text, new RegExp(`wait_for_jobs.*${jobId}`));
  assert.equal((await structured(it, "job", args, undefined, key)).jobId, jobId);
  it.ok("start", "a call is answered by a handle at once, and its key names one job");

  let report = { done: false, cursor: "" };
  while (!report.done) {
    report = await structured(it, "wait_for_jobs", { jobIds: [jobId], timeoutMs: 10_000, since: report.cursor });
  }
  assert.equal(report.jobs.find((job) => job.id === jobId).status, "completed", JSON.stringify(report));
  it.ok("wait", "wait_for_jobs tells by its cursor what changed, until the end");

  let text = "";
  for (let offset = 0; offset !== undefined; ) {
    const range = await structured(it, "get_job", { jobId, part: "result", offset, limit: 20 });
    text += range.text;
    offset = range.nextOffset;
  }
  assert.deepEqual(JSON.parse(text), args);
  await ended(jobId, "job.completed");
  assert.deepEqual(await structured(it, "quick", { a: 2, b: 3 }), { sum: 5 });
  it.ok("result", "inline against its schema, and in ranges by get_job");

  await mistakes(it);
}

/** Before 2025-11-25 the client was told, and not its model. */
export async function mistakes(it) {
  const call = it.call("quick", { a: "two", b: 3 });
  if (it.isOld) {
    await assert.rejects(call, (error) => error.code === -32602 && error.message.includes("/a"));
    it.ok("start", "wrong arguments are an error that names them");
    return;
  }
  const wrong = await call;
  assert.ok(wrong.isError && wrong.content[0].text.includes("/a"), JSON.stringify(wrong));
  it.ok("start", "wrong arguments are told to the model");
}

export async function progresses(it) {
  const seen = [];
  const args = { label: "progress", steps: 4 };
  const result = await good(it, "slow", args, { onprogress: (at) => seen.push(at) });
  assert.deepEqual(told(result), args);
  rising(seen, 4);
  it.ok("progress", "rising, up to the last of its steps, before the result");
}

export async function cancels(it) {
  const { jobId } = await structured(it, "job", { steps: 10_000 });
  const canceling = await structured(it, "cancel_job", { jobId, reason: "changed my mind" });
  assert.ok(canceling.cancel.requestedAt, JSON.stringify(canceling));
  const canceled = await structured(it, "wait_for_jobs", { jobIds: [jobId], mode: "all", timeoutMs: 30_000 });
  assert.equal(canceled.jobs[0].status, "canceled", JSON.stringify(canceled));
  await ended(jobId, "job.canceled");
  it.ok("cancel", "cancel_job stops a job, and its waiters hear");
  await aborts(it);
}

export async function aborts(it) {
  const stop = new AbortController();
  const options = { signal: stop.signal, onprogress: () => stop.abort("enough") };
  await assert.rejects(it.call("slow", { label: "abort", steps: 10_000 }, options));
  const job = await end((await newest("slow")).id);
  assert.deepEqual([job.payload.label, job.status], ["abort", "canceled"], JSON.stringify(job));
  it.ok("cancel", "an aborted call cancels its job");
}

export async function asks(it) {
  const { person } = it;
  assert.deepEqual(told(await good(it, "ask", {})), { greeting: "Hello, Ada!" });
  assert.equal(person.asked.at(-1).message, "Who is to be greeted?");
  assert.deepEqual(person.asked.at(-1).requestedSchema.required, ["name"]);
  it.ok("question", "what a program asks is shown as a form, and the program gets the answer");

  person.answer = () => ({ action: "decline" });
  const declined = await it.call("ask", {});
  assert.ok(declined.isError && declined.content[0].text.includes("nobody was named"), JSON.stringify(declined));
  it.ok("question", "a person may decline");

  person.answer = async () => {
    person.answer = () => named;
    await restart();
    return named;
  };
  assert.deepEqual(told(await good(it, "ask", {}, { timeout: 120_000 })), { greeting: "Hello, Ada!" });
  it.ok("question", "asked before a kill of the server, it is answered after it");
}

/** Waits on a stream that the SDK resumes by itself. */
export async function resumes(it, answered) {
  const seen = [];
  let restarted;
  const onprogress = (at) => {
    seen.push(at);
    if (at.progress === 2) restarted = restart();
  };
  const args = { label: "resume", steps: 12, stepMs: 250 };
  const result = await good(it, "slow", args, { onprogress, timeout: 120_000 });
  await restarted;
  assert.deepEqual(told(result), args);
  rising(seen, 12, { mayLeaveOut: true });
  const jobId = result._meta["longhaul/jobId"];
  assert.equal(answered().filter((answer) => answer.result?._meta?.["longhaul/jobId"] === jobId).length, 1);
  await interrupted(jobId);
  it.ok("resume", "over a kill of the server the stream goes on, no step comes twice, and the result exactly once");
  await it.list();
  it.ok("resume", "the session is still there after it");
}

/**
 * Where no stream is resumed: a call is made again with its key, and finds its job. The SDK tells `onerror` of a stream that has
 * broken off, but leaves its call to wait until it times out.
 */
export async function repeats(it) {
  const args = { label: "repeat", steps: 12, stepMs: 250 };
  const key = keyed();
  const lost = new AbortController();
  it.client.onerror = (error) => lost.abort(error);
  let restarted;
  const onprogress = (at) => {
    if (at.progress === 2) restarted = restart();
  };
  await assert.rejects(it.call("slow", args, { onprogress, signal: lost.signal, timeout: 120_000 }, key));
  await restarted;
  it.client.onerror = undefined;
  const seen = [];
  const result = await good(it, "slow", args, { onprogress: (at) => seen.push(at), timeout: 120_000 }, key);
  assert.deepEqual(told(result), args);
  assert.equal(seen.at(-1).message, "step 12 of 12");
  await interrupted(result._meta["longhaul/jobId"]);
  it.ok("resume", "made again with its key after a kill of the server, a call finds its job and its result");
}
