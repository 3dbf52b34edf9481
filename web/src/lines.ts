/** Reading a stream of JSON lines. */

/** Cuts a stream of text into lines, whatever pieces it comes in. Blank lines are left out. */
export class Lines {
  private rest = "";

  /** The lines that `piece` completes. */
  push(piece: string): string[] {
    const parts = (this.rest + piece).split("\n");
    this.rest = parts.pop() ?? "";
    return parts.filter((line) => line.trim() !== "");
  }

  /** The rest at the end: a last line without its newline. */
  end(): string[] {
    const last = this.rest;
    this.rest = "";
    return last.trim() === "" ? [] : [last];
  }
}

/** The objects of a response whose body is one JSON object per line. */
export async function* jsonLines(body: ReadableStream<Uint8Array>): AsyncGenerator<unknown> {
  const lines = new Lines();
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      for (const line of done ? lines.end() : lines.push(value)) yield JSON.parse(line);
      if (done) return;
    }
  } finally {
    // Leaving early makes the server stop.
    await reader.cancel().catch(() => undefined);
  }
}
