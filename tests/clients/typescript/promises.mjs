// What every client here uses: telling what holds, restarting its server, and looking at its jobs from outside of MCP.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";

const folder = dirname(dirname(fileURLToPath(import.meta.url)));
export const server = process.env.LONGHAUL_URL;

export function teller(client) {
  return {
    ok: (promise, what) => console.log(`ok ${client} ${promise}: ${what}`),
    /** What this SDK has no way to do. */
    no: (promise, why) => console.log(`no ${client} ${promise}: ${why}`),
  };
}

/** Kills the server and waits for its successor. */
export const restart = () => promisify(execFile)(join(folder, "restart.sh"));

export async function api(path) {
  const answer = await fetch(new URL(path, server), { headers: { accept: "application/json" } });
  assert.equal(answer.status, 200, path);
  return answer.json();
}

/** The job's events, which tell that it ended exactly once. */
export async function ended(id, type) {
  const { events } = await api(`/api/jobs/${id}/events`);
  const ends = events.map((event) => event.type).filter((type) => /completed|failed|canceled/.test(type));
  assert.deepEqual(ends, [type], JSON.stringify(events));
  return events;
}

/** The job ran when its server was killed, and ended once. */
export async function interrupted(id) {
  assert.equal((await api(`/api/jobs/${id}`)).interruptions, 1);
  await ended(id, "job.completed");
}

/** Returns once the job runs. */
export async function running(id) {
  for (let asked = 0; (await api(`/api/jobs/${id}`)).status !== "in_progress"; asked += 1) {
    assert.ok(asked < 1200, `${id} starts`);
    await setTimeout(50);
  }
}

/** The newest job of this type. */
export async function newest(type) {
  const { jobs } = await api(`/api/jobs?type=${type}&limit=1`);
  assert.equal(jobs.length, 1, `a job of type ${type}`);
  return jobs[0];
}

/** Waits, without looking in vain, for the job to end. */
export async function end(id) {
  return api(`/api/jobs/${id}?wait=60s`);
}

/** Progress as MCP wants it: rising, and here of so many steps, each in its turn. What came while nobody listened may be left out. */
export function rising(progress, steps, { mayLeaveOut = false } = {}) {
  const told = JSON.stringify(progress);
  progress.forEach((at, index) => assert.ok(index === 0 || at.progress > progress[index - 1].progress, told));
  const messages = [...new Set(progress.filter((at) => at.total === steps).map((at) => at.message))];
  const expected = Array.from({ length: steps }, (_, at) => `step ${at + 1} of ${steps}`);
  assert.deepEqual(messages, mayLeaveOut ? expected.filter((message) => messages.includes(message)) : expected, told);
  assert.equal(messages.at(-1), expected.at(-1), told);
}

/** All answers that this transport has handed over. */
export function answers(transport) {
  const seen = [];
  const hand = transport.onmessage;
  transport.onmessage = (message, extra) => {
    if (!message.method) seen.push(message);
    hand?.(message, extra);
  };
  return () => seen;
}

/** Reconnection for a server that may need a while to come back. */
export const patient = { initialReconnectionDelay: 200, maxReconnectionDelay: 1000, reconnectionDelayGrowFactor: 1.5, maxRetries: 60 };

/** How a desktop client starts its server; here it joins the one that runs. */
export const command = {
  command: process.env.LONGHAUL_BINARY,
  args: ["mcp", "--stdio", "--config", join(folder, "server.toml"), "--data-dir", join(process.env.LONGHAUL_RUN, "data")],
  stderr: "ignore",
};
