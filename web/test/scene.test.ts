import assert from "node:assert/strict";
import { test } from "node:test";
import { emptySeries } from "../src/data.ts";
import { sceneAt } from "../src/scene.ts";

const run = { series: { ...emptySeries(), time: [0], offered: [280], received: [560], goodput: [0], queue: [3000], capacity: [300] } };

test("what waits longer than its caller does is late", () => {
  assert.deepEqual(sceneAt(run, 0, 1), { offered: 280, received: 560, goodput: 0, waiting: 3000, late: 2440, working: true });
  assert.equal(sceneAt(run, 0, null).late, 0);
  assert.equal(sceneAt({ series: { ...run.series, capacity: [0] } }, 0, 1).working, false);
});

test("a moment without values is an empty scene", () => {
  assert.equal(sceneAt(run, 7, 1).waiting, 0);
});
