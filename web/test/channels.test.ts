import assert from "node:assert/strict";
import { test } from "node:test";
import { CHANNELS, isShared, nearest, onGrid, sharedTime, spread, summary, whole } from "../src/channels.ts";
import { COLUMNS, type Metrics, emptySeries } from "../src/data.ts";

test("every column is drawn on some channel", () => {
  const drawn = new Set(CHANNELS.flatMap((channel) => channel.traces.map((trace) => trace.column)));
  assert.deepEqual([...drawn].sort(), [...COLUMNS].sort());
});

test("offered load and capacity are drawn once for all runs, the rest once for each", () => {
  const shared = CHANNELS.flatMap((channel) => channel.traces).filter(isShared);
  assert.deepEqual([...new Set(shared.map((trace) => trace.column))].sort(), ["capacity", "offered"]);
});

test("a run that is behind is padded with gaps, on the grid of the one ahead", () => {
  const ahead = { series: { ...emptySeries(), time: [0, 1, 2] } };
  const behind = { series: { ...emptySeries(), time: [0] } };
  assert.deepEqual(sharedTime([behind, ahead]), [0, 1, 2]);
  assert.deepEqual(onGrid([5], 3), [5, null, null]);
});

test("a logarithmic channel leaves out what is not positive", () => {
  assert.deepEqual(onGrid([0, 0.1, null, -1], 4, true), [null, 0.1, null, null]);
  assert.deepEqual(onGrid([0, 0.1], 2), [0, 0.1]);
});

test("peak and low skip gaps", () => {
  assert.equal(summary([null, 3, 1, null], "peak"), 3);
  assert.equal(summary([null, 3, 1, null], "low"), 1);
  assert.equal(summary([null], "peak"), null);
});

test("the nearest moment, also beyond both ends", () => {
  const grid = [0, 0.5, 1, 1.5];
  for (const [time, place] of [[-1, 0], [0.2, 0], [0.3, 1], [1.1, 2], [9, 3]] as const) assert.equal(nearest(grid, time), place);
  assert.equal(nearest([], 1), -1);
  assert.equal(nearest([7], 1), 0);
});

test("rows are spread evenly and hold the first and the last", () => {
  assert.deepEqual(spread(3, 61), [0, 1, 2]);
  const rows = spread(600, 61);
  assert.equal(rows.length, 61);
  assert.equal(rows[0], 0);
  assert.equal(rows.at(-1), 599);
  assert.equal(new Set(rows).size, 61);
});

test("the peak load beside its channel is that of the verdict", () => {
  const trace = CHANNELS[0]?.traces.find(({ column }) => column === "received");
  assert.ok(trace);
  const series = { ...emptySeries(), received: [10, 400, 20] };
  assert.equal(whole(trace, { series }), 400);
  assert.equal(whole(trace, { series, metrics: { peak_rps: 277 } as Metrics }), 277);
});
