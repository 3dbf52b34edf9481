"""Inputs for a target: its seeds, and for Hypothesis whatever can be made of seeds and words."""

from __future__ import annotations

import base64
from typing import Any

from .model import REPEAT, Target


def encoded(piece: str | bytes) -> bytes:
    return piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogateescape")


def seeds(target: Target) -> list[bytes]:
    """Whole inputs to begin with; the first also in the form that is repeated."""
    plain = [encoded(seed) for seed in target.seeds]
    return [b"", *plain, *(bytes((REPEAT, 9)) + seed for seed in plain[:1])]


def strategy(target: Target) -> Any:
    """Hypothesis's: bytes of any kind, words in a row, or a seed with pieces put in and taken out."""
    from hypothesis import strategies as st

    words = [encoded(word) for word in target.words]
    piece = st.sampled_from(words) | st.binary(max_size=4) | st.text(max_size=4).map(_utf8)
    row = st.lists(piece, max_size=20).map(b"".join)

    def changed(parts: tuple[bytes, list[tuple[int, int, bytes]]]) -> bytes:
        seed, changes = parts
        for at, drop, put in changes:
            at %= len(seed) + 1
            seed = seed[:at] + put + seed[at + drop :]
        return seed

    change = st.tuples(st.integers(0, 10_000), st.sampled_from((0, 0, 1, 2, 8)), piece)
    near = st.tuples(st.sampled_from(seeds(target)), st.lists(change, max_size=5)).map(changed)
    longer = st.tuples(st.integers(0, 12), near | row).map(lambda pair: bytes((REPEAT, pair[0])) + pair[1])
    return st.one_of(near, near, row, longer, st.binary(max_size=target.longest)).map(
        lambda data: data[: target.longest]
    )


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def spelt(data: bytes) -> str:
    """An input as the word that ``--input`` takes."""
    return base64.urlsafe_b64encode(data).decode()


def unspelt(word: str) -> bytes:
    return base64.urlsafe_b64decode(word)


def reproduction(target: Target, data: bytes) -> str:
    """What to say of an input that broke its target."""
    return f"input: {data!r}\nrepeat it: python -m verification.fuzzing {target.name} --input {spelt(data)}"
