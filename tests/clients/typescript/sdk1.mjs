// The TypeScript SDK 1.x: a session of 2025-11-25, streams that it resumes, tasks as an experiment, and stdio.

import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { answers, command, ended, interrupted, patient, restart, running, server, teller } from "./promises.mjs";
import { asks, cancels, handles, lists, progresses, resumes, somebody, told } from "./story.mjs";

const { ok } = teller("typescript-1");

async function connect(transport, told) {
  const client = new Client({ name: "longhaul-client-check", version: "1.0.0" }, { capabilities: { elicitation: {} } });
  const person = somebody();
  client.setRequestHandler(ElicitRequestSchema, (request) => person.ask(request.params));
  await client.connect(transport);
  return {
    client,
    person,
    ok: told,
    list: async () => (await client.listTools()).tools,
    call: (name, args, options, meta) => client.callTool({ name, arguments: args, _meta: meta }, undefined, options),
  };
}

/** What the SDK calls an experiment: the client asks for a task, and polls it. */
async function tasks({ client }) {
  const { tasks } = client.experimental;
  const create = (name, args) => tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, { task: { ttl: 600_000 } });
  const follow = async (stream) => {
    const messages = [];
    for await (const message of stream) messages.push(message);
    return messages;
  };
  const args = { label: "task", steps: 3 };
  const messages = await follow(create("task", args));
  assert.equal(messages[0].type, "taskCreated");
  assert.equal(messages.at(-1).type, "result", JSON.stringify(messages));
  assert.deepEqual(told(messages.at(-1).result), args);
  ok("tasks", "a call becomes a task, is polled, and its result comes");

  const asked = await follow(create("ask", {}));
  assert.ok(asked.some((message) => message.task?.status === "input_required"), JSON.stringify(asked));
  assert.equal(asked.at(-1).type, "result", JSON.stringify(asked));
  assert.deepEqual(told(asked.at(-1).result), { greeting: "Hello, Ada!" });
  ok("tasks", "a task asks by the stream of tasks/result");

  const long = { label: "kill", steps: 20, stepMs: 250 };
  const { value: created } = await create("task", long).next();
  const { taskId } = created.task;
  await running(taskId);
  await restart();
  assert.deepEqual(told(await tasks.getTaskResult(taskId, CallToolResultSchema, { timeout: 120_000 })), long);
  assert.equal((await tasks.getTask(taskId)).status, "completed");
  await interrupted(taskId);
  ok("tasks", "after a kill of the server the task is there, and its result comes");

  const { value: other } = await create("task", { steps: 10_000 }).next();
  assert.equal((await tasks.cancelTask(other.task.taskId)).status, "cancelled");
  await ended(other.task.taskId, "job.canceled");
  const listed = (await tasks.listTasks()).tasks.map((task) => [task.taskId, task.status]);
  assert.deepEqual(listed.slice(0, 2), [[other.task.taskId, "cancelled"], [taskId, "completed"]]);
  ok("tasks", "tasks/cancel stops it, and tasks/list shows both");
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
await asks(session);
await tasks(session);
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
await asks(piped);
await piped.client.close();
