import assert from "node:assert/strict";
import { test } from "node:test";
import { emptySeries } from "../src/data.ts";
import { sceneAt, sentence } from "../src/scene.ts";

const run = { series: { ...emptySeries(), time: [0], offered: [280], received: [560], goodput: [0], queue: [3000], capacity: [300] } };

test("what waits longer than its caller does is late", () => {
  assert.deepEqual(sceneAt(run, 0, 1), { offered: 280, received: 560, goodput: 0, waiting: 3000, late: 2440, working: true });
  assert.equal(sceneAt(run, 0, null).late, 0);
  assert.equal(sceneAt({ series: { ...run.series, capacity: [0] } }, 0, 1).working, false);
});

test("a moment without values is an empty scene", () => {
  assert.equal(sceneAt(run, 7, 1).waiting, 0);
});

test("the sentence says who is served, and whether more come back", () => {
  const at = (changes: object): string => sentence({ ...sceneAt(run, 0, 1), ...changes });
  assert.equal(at({}), "Answers come too late, so callers ask again.");
  assert.equal(at({ received: 280 }), "Answers come too late: the callers have gone.");
  assert.equal(at({ goodput: 270 }), "Answers come in time.");
  assert.equal(at({ working: false }), "The server is stuck: requests pile up.");
  assert.equal(at({ working: false, waiting: 0 }), "The server refuses everything.");
  assert.equal(at({ waiting: 0, late: 0 }), "Some calls fail, and ask again.");
  assert.equal(at({ offered: 0, goodput: 0 }), "");
});
