"""A target: one parser, the rule it is held to, and what to start from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

#: An input that begins with this byte is the rest of it, repeated as often as the next byte says.
REPEAT = 0xFE


class Broken(AssertionError):
    """A parser broke its rule: the message says which one."""


class TooSlow(Broken):
    """An input took more processor time than its target allows."""


@dataclass(frozen=True)
class Target:
    """``check`` reads one input and raises unless every rule holds.

    ``words`` are pieces that inputs are made of, beside ``seeds``, which are whole inputs. ``longest``
    bounds an input before it is repeated. ``slowest_s`` is processor time for one input; it leaves room
    for the instrumentation of a guided run, which makes code several times slower.
    """

    name: str
    reads: str
    check: Callable[[bytes], object]
    seeds: tuple[str | bytes, ...]
    words: tuple[str, ...]
    longest: int = 256
    slowest_s: float = 1.0

    def feed(self, data: bytes, longest: int | None = None) -> None:
        """Check one input, and that it was read in time. ``longest`` bounds it after repetition; None: at
        twice the target's own bound, since guidance likes long inputs and loses its time with them.
        """
        grown = repeated(data, 2 * self.longest if longest is None else longest)
        began = time.thread_time()
        self.check(grown)
        took = time.thread_time() - began
        if took > self.slowest_s:
            raise TooSlow(f"{self.name}: {len(grown)} bytes took {took:.2f} s")


def repeated(data: bytes, longest: int) -> bytes:
    """``data``, or what it stands for if it begins with `REPEAT`: long inputs cost nothing to find so."""
    if len(data) > 2 and data[0] == REPEAT:
        data = data[2:] * min(2 ** (data[1] % 13), longest // len(data[2:]))
    return data[:longest]


def text(data: bytes) -> str:
    """An input as text. What is no UTF-8 becomes lone surrogates, which JSON can bring in as well."""
    return data.decode("utf-8", "surrogateescape")


def lines(data: bytes) -> list[tuple[str, str]]:
    """An input as headers, one ``name: value`` a line."""
    pairs = (line.partition(":") for line in data.decode("latin-1").split("\n"))
    return [(name.strip(), value) for name, colon, value in pairs if colon]


def must(holds: object, rule: str) -> None:
    """Raise `Broken` with ``rule`` unless it holds."""
    if not holds:
        raise Broken(rule)
