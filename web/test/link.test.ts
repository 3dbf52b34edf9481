import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunRequest } from "../src/api.ts";
import { packed, unpacked } from "../src/link.ts";

const REQUEST: RunRequest = {
  scenario: "metastable",
  values: { clients: 1, arrival_rps: 280, capacity_rps: 300, outage_at: 10, outage_lasts: 10, outage_mode: "hang", timeout: 1, duration: 240 },
  seed: 42,
  policies: [{ toml: '[policies."é ✓"]\nretry = {}\n', name: "é ✓" }],
};

test("a link holds the whole run, and only characters of an address", () => {
  const text = packed(REQUEST);
  assert.match(text, /^[\w-]+$/);
  assert.deepEqual(unpacked(text), REQUEST);
});

test("a link that is not a run is refused", () => {
  for (const text of ["", "!!", packed({ ...REQUEST, policies: [] }), packed({ ...REQUEST, seed: "1" as unknown as number }), btoa("[1]")]) {
    assert.equal(unpacked(text), null);
  }
});
