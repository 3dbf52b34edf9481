"""Numbers as people write them: durations, rates, percentiles."""

from __future__ import annotations

import math
import re

from stormproof._primitives import durations, rates
from stormproof._strategies.hedge.hedge import Hedge

from ..model import Target, must, text

_PATTERN = re.compile(durations.PATTERN.removesuffix("$"))


def check_duration(data: bytes) -> None:
    """A number of seconds >= 0 or ValueError; `spell` and `parse` are inverses; the schema's pattern
    matches what `parse` reads and nothing else.
    """
    written = text(data)
    for bare in (False, True):
        try:
            seconds = durations.parse(written, bare=bare)
        except ValueError as error:
            must(str(error).startswith("a duration must read like"), f"an error without the rule: {error}")
            must(len(str(error)) < 600, "an error must not repeat a long text")
            must(
                bare or len(written) > 400 or not _PATTERN.fullmatch(written), "the schema's pattern matches"
            )
            continue
        must(seconds >= 0, f"a duration must be >= 0, got {seconds!r}")
        must(bare or _PATTERN.fullmatch(written), "the schema's pattern must match what is read")
        again = durations.spell(seconds)
        must(durations.parse(again) == seconds, f"{seconds!r} is spelt {again!r}, which reads otherwise")


def check_rate(data: bytes) -> None:
    """A finite rate >= 0 and a burst >= 0, or ValueError; case and outer spaces say nothing."""
    written = text(data)
    try:
        rate, burst = rates.parse(written)
    except ValueError as error:
        must(str(error).startswith("Limiter: the rate must read like"), f"an error without the rule: {error}")
        must(len(str(error)) < 600, "an error must not repeat a long text")
        return
    must(math.isfinite(rate) and rate >= 0, f"a rate must be finite and >= 0, got {rate!r}")
    must(isinstance(burst, int) and 0 <= burst < 10**15, f"a burst must be >= 0, got {burst!r}")
    must(rates.parse(written.swapcase()) == (rate, burst), "case must not matter")
    must(rates.parse(written.strip(" ")) == (rate, burst), "outer spaces must not matter")
    amount, unit = re.split(r"/|per", written.lower(), maxsplit=1)
    must(rates.parse(f"{amount} per {unit}"[:64]) == (rate, burst) or len(written) > 58, "/ must mean per")


def check_percentile(data: bytes) -> None:
    """A percentile between 0 and 100, exclusive, or ValueError that names the option."""
    written = text(data)
    try:
        hedge = Hedge(written, idempotent=True)
    except ValueError as error:
        must(str(error).startswith("Hedge: after must be"), f"an error without owner and rule: {error}")
        return
    must(0 < float(written.removeprefix("p")) < 100, f"{written!r} is no percentile")
    must(written.isascii() and hedge.after == written, "a percentile is written in ASCII")


_NUMBERS = ("0", "1", "10", "1.5", "0.001", "9" * 16, "1e3", "-1", ".5", "5.", "inf", "nan", "²", "٣", "1_0")

TARGETS = (
    Target(
        "duration",
        "durations",
        check_duration,
        (
            "0",
            "inf",
            "10ms",
            "2s",
            "1m30s",
            "1h",
            "1d2h3m4s5ms6us7ns",
            "1.5µs",
            "1.5μs",
            "0.1s",
            "100",
            "1e3",
        ),
        ("d", "h", "m", "s", "ms", "us", "µs", "μs", "ns", " ", "\n", *_NUMBERS),
        longest=420,
    ),
    Target(
        "rate",
        "rates",
        check_rate,
        ("100/s", "10/min", "2 per second", "900/15min", "5000/h burst 100", "900 per 15 minutes", "1/ms"),
        ("/", " per ", " burst ", "s", "sec", "min", "hours", "d", "ms", " ", "K", "İ", "\u017f", *_NUMBERS),
        longest=80,
    ),
    Target(
        "percentile",
        "percentiles of a hedge",
        check_percentile,
        ("p95", "p99.9", "p0.1", "p100", "p0"),
        ("p", ".", "99", *_NUMBERS),
        longest=64,
    ),
)
