import assert from "node:assert/strict";
import { test } from "node:test";
import { Lines, jsonLines } from "../src/lines.ts";

test("lines come out whole, whatever pieces they come in", () => {
  const text = '{"a":1}\n\n{"b":"x"}\n{"c":3}';
  for (let size = 1; size <= text.length; size++) {
    const lines = new Lines();
    const found: string[] = [];
    for (let at = 0; at < text.length; at += size) found.push(...lines.push(text.slice(at, at + size)));
    found.push(...lines.end());
    assert.deepEqual(found, ['{"a":1}', '{"b":"x"}', '{"c":3}']);
  }
});

test("a character cut in two by the network is put together", async () => {
  const bytes = new TextEncoder().encode('{"name":"Größe ✓"}\n');
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
      controller.close();
    },
  });
  const found: unknown[] = [];
  for await (const item of jsonLines(body)) found.push(item);
  assert.deepEqual(found, [{ name: "Größe ✓" }]);
});

test("leaving early closes the stream, which is how the server learns of it", async () => {
  let closed = false;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new TextEncoder().encode("1\n")),
    cancel: () => {
      closed = true;
    },
  });
  for await (const _ of jsonLines(body)) break;
  assert.equal(closed, true);
});
