import assert from "node:assert/strict";
import { test } from "node:test";
import type { Metrics } from "../src/data.ts";
import { FIGURES, joined, winner } from "../src/verdict.ts";

const metrics = (changes: Partial<Metrics>): { metrics: Metrics } => ({
  metrics: {
    peak_rps: 100,
    amplification: 1,
    goodput: 50,
    recovered: true,
    recovery_time: 1,
    attempts: 10,
    calls: 10,
    successes: 5,
    calls_per_success: 2,
    p50: 0.1,
    p99: 0.2,
    ...changes,
  },
});

const judged = (label: string, a: Partial<Metrics>, b: Partial<Metrics>): number | null => {
  const figure = FIGURES.find((one) => one.label === label);
  assert.ok(figure, label);
  return winner(figure, [metrics(a), metrics(b)]);
};

test("less load and more goodput are better, from 1 % on", () => {
  assert.equal(judged("Peak load", { peak_rps: 100 }, { peak_rps: 200 }), 0);
  assert.equal(judged("Goodput", { goodput: 100 }, { goodput: 200 }), 1);
  assert.equal(judged("Peak load", { peak_rps: 100 }, { peak_rps: 100.9 }), null);
  assert.equal(judged("Succeeded", { availability: 0.9 }, { successes: 10 }), 1);
});

test("recovering late is better than never, and never is level with never", () => {
  const never = { recovered: false, recovery_time: null };
  assert.equal(judged("Recovery", never, { recovery_time: 99 }), 1);
  assert.equal(judged("Recovery", { recovery_time: 0 }, never), 0);
  assert.equal(judged("Recovery", never, never), null);
});

test("latency of those who succeeded names no winner: few successes may be quick ones", () => {
  assert.equal(judged("p99", { p99: 1 }, { p99: 0.01 }), null);
});

test("a run alone wins nothing, and what is missing is not compared", () => {
  const figure = FIGURES[1];
  assert.ok(figure);
  assert.equal(winner(figure, [metrics({})]), null);
  assert.equal(judged("Peak load", { peak_rps: null }, {}), null);
});

test("a number and its unit stay on one line", () => {
  assert.equal(joined("it comes back after 10.6 s; with 250 ms more"), "it comes back after 10.6\u00a0s; with 250\u00a0ms more");
});
