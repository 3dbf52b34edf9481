"""A client that means harm: keys, deadlines and headers of every odd kind, one fresh key per request."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Iterator

#: Requests sent before their answers are read.
_BATCH = 20

_TIMEOUTS = (b"", b"1", b"5", b"-1", b"0", b"NaN", b"1e309", b"9" * 400, b"\xb2", b"1,2", b"30000")
_ATTEMPTS = (b"", b"1", b"2", b"99999999999999999999", b"-3", b"x" * 200)


def attacks(count: int, seed: int = 0) -> Iterator[tuple[bytes, list[tuple[bytes, bytes]]]]:
    """Give the targets and headers of ``count`` requests of one client."""
    draw = random.Random(seed)
    for number in range(count):
        fresh = b"%d-%d" % (seed, number)
        odd = (fresh.ljust(255, b"k"), fresh * 200, b"", b"\xff" + fresh, b'"' + fresh)
        yield (
            b"/orders?n=" + fresh,
            [
                (b"authorization", b"Bearer hostile"),
                (b"idempotency-key", draw.choice((fresh, fresh, *odd))),
                (b"x-request-timeout-ms", draw.choice(_TIMEOUTS)),
                (b"x-request-attempt", draw.choice(_ATTEMPTS)),
                (b"x-" + fresh, fresh),
            ],
        )


def requests(count: int, seed: int = 0) -> Iterator[bytes]:
    """Give `attacks` as they are sent."""
    for target, fields in attacks(count, seed):
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in fields)
        yield b"POST " + target + b" HTTP/1.1\r\nHost: here\r\n" + lines + b"Content-Length: 2\r\n\r\n{}"


async def flood(port: int, count: int, connections: int = 4) -> Counter[int]:
    """Send ``count`` requests over ``connections`` connections; return how often each status came."""
    seen: Counter[int] = Counter()
    shares = [count // connections + (place < count % connections) for place in range(connections)]
    await asyncio.gather(*(_flood(port, requests(share, place), seen) for place, share in enumerate(shares)))
    return seen


async def _flood(port: int, source: Iterator[bytes], seen: Counter[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while batch := list(itertools.islice(source, _BATCH)):
            while batch:
                writer.write(b"".join(batch))
                closes = False
                while batch and not closes:
                    status, closes = await _answer(reader)
                    seen[status] += 1
                    batch.pop(0)
                if closes:
                    # What it refuses as no HTTP at all ends the connection, and the rest is sent on another.
                    writer.close()
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Read one answer: its status, and whether the server closes the connection after it."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    fields = dict(line.partition(b": ")[::2] for line in head.split(b"\r\n")[1:])
    await reader.readexactly(int(fields.get(b"content-length", b"0")))
    return int(head.split(b" ", 2)[1]), fields.get(b"connection") == b"close"
