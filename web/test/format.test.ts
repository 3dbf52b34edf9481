import assert from "node:assert/strict";
import { test } from "node:test";
import { MISSING, amount, count, percent, seconds, times } from "../src/format.ts";

test("amounts have three digits, and thousands a comma", () => {
  assert.equal(amount(0), "0");
  assert.equal(amount(0.012345), "0.0123");
  assert.equal(amount(45.678), "45.7");
  assert.equal(amount(1234.5), "1,235");
  assert.equal(amount(25_000_000), "25 M");
});

test("what is missing is a dash, in every unit", () => {
  for (const format of [amount, count, seconds, percent, times]) {
    for (const nothing of [null, undefined, NaN, Infinity]) assert.equal(format(nothing), MISSING);
  }
});

test("seconds choose their unit, and rounding does not leave 1000 of the smaller one", () => {
  assert.equal(seconds(0), "0 s");
  assert.equal(seconds(0.00025), "250 µs");
  assert.equal(seconds(0.0125), "12.5 ms");
  assert.equal(seconds(0.9996), "1 s");
  assert.equal(seconds(59.94), "59.9 s");
  assert.equal(seconds(1200), "20 min");
});

test("shares and multiples", () => {
  assert.equal(percent(0.0666), "6.66 %");
  assert.equal(times(2.2), "2.2×");
});
