import assert from "node:assert/strict";
import { test } from "node:test";
import { csv, quoted } from "../src/csv.ts";
import { COLUMNS, type Run, bands, embedded, emptySeries } from "../src/data.ts";
import { positionOf, STEPS, valueAt } from "../src/scale.ts";

test("a file without data is the live page; one of another format is refused", () => {
  assert.equal(embedded("null"), null);
  assert.equal(embedded('{"format":1,"seed":7}')?.seed, 7);
  assert.throws(() => embedded('{"format":2}'), /another format/);
  assert.throws(() => embedded('"x"'), /another format/);
});

test("CSV has one row per run and moment, gaps are empty, line ends are CRLF", () => {
  const series = { ...emptySeries(), time: [0, 0.5], received: [1, null] };
  const lines = csv([{ name: "a,b", series } as Run]).split("\r\n");
  assert.equal(lines[0], `run,time,${COLUMNS.join(",")}`);
  assert.equal(lines[1], '"a,b",0,,1,,,,,,,,');
  assert.equal(lines[2], '"a,b",0.5,,,,,,,,,,');
  assert.equal(lines.length, 4);
});

test("a name that a spreadsheet would take for a formula stays text", () => {
  assert.equal(quoted("=HYPERLINK(1)"), "'=HYPERLINK(1)");
  assert.equal(quoted('@x "y"'), `"'@x ""y"""`);
  assert.equal(quoted("plain"), "plain");
});

test("a slider reaches both ends, and a value keeps its place", () => {
  const scale = { min: 1, max: 100_000, log: true, whole: true };
  assert.equal(valueAt(scale, 0), 1);
  assert.equal(valueAt(scale, STEPS), 100_000);
  assert.equal(valueAt(scale, -5), 1);
  for (const value of [1, 10, 1000, 100_000]) assert.equal(valueAt(scale, positionOf(scale, value)), value);
  const fromNothing = { min: 0, max: 20_000, log: true, whole: false };
  assert.equal(valueAt(fromNothing, 0), 0);
  assert.equal(positionOf(fromNothing, 0), 0);
  assert.equal(valueAt(fromNothing, positionOf(fromNothing, 20_000)), 20_000);
  const even = { min: 0, max: 300, log: false, whole: false };
  assert.equal(valueAt(even, positionOf(even, 150)), 150);
  assert.equal(positionOf(even, 1e9), STEPS);
});

test("faults of all kinds become bands, with a length where they have one", () => {
  const outages = [{ at: 1, lasts: 2, mode: "hang" }];
  const faults = [
    { kind: "ColdCache", at: 3 },
    { kind: "Burst", at: 4, over: 0.5 },
    { kind: "Deploy", at: 5, lasts: 6 },
  ];
  assert.deepEqual(bands({ outages, faults }), [
    { at: 1, lasts: 2, name: "hang", outage: true },
    { at: 3, lasts: 0, name: "cold cache", outage: false },
    { at: 4, lasts: 0.5, name: "burst", outage: false },
    { at: 5, lasts: 6, name: "deploy", outage: false },
  ]);
});
