"""Claims about single waits: means, bounds, growth."""

from __future__ import annotations

import math

import numpy as np

import stormproof as sp

from .experiments import DRAWS, draws, walk
from .model import Found, Topic, found
from .sources import CARD, CHAPTER, FORMULAS, GUIDE, LESSON

topic = Topic(
    "Waits",
    "A ceiling is the wait without jitter: the base, doubled with every retry, up to the cap.",
)

KINDS = {kind: sp.Exponential(0.1, cap=30, jitter=kind) for kind in ("none", "equal", "full")}
SPREAD = {**KINDS, "decorrelated": sp.Decorrelated(0.1, cap=30)}


@topic.claim(
    "Full jitter halves the wait",
    "The mean wait of full jitter is half the ceiling, its variance a twelfth of the ceiling's square.",
    GUIDE,
    FORMULAS,
)
def full_mean() -> Found:
    ceiling = KINDS["full"].ceiling(3)
    waits = KINDS["full"].delay(3, None, draws(1))
    mean, variance = float(np.mean(waits)) / ceiling, float(np.var(waits)) / ceiling**2
    return found(
        f"{DRAWS:,} draws of `Exponential(0.1, cap=30).delay(3, None, u)`",
        f"mean {mean:.3f} of the ceiling, variance {variance:.4f} of its square (1/12 is {1 / 12:.4f})",
        abs(mean - 0.5) < 0.005 and abs(variance - 1 / 12) < 0.001,
    )


@topic.claim(
    "Equal jitter waits as long as none",
    "On average equal jitter waits as long as the exponential without jitter.",
    GUIDE,
)
def equal_as_none() -> Found:
    waits = KINDS["equal"].delay(3, None, draws(1))
    mean = float(np.mean(waits)) / KINDS["equal"].ceiling(3)
    return found(
        f'{DRAWS:,} draws of `Exponential(0.1, cap=30, jitter="equal").delay(3, None, u)`',
        f"mean {mean:.3f} of the ceiling",
        abs(mean - 1) < 0.005,
        "A wait spread evenly between half the ceiling and the ceiling has its mean at three quarters.",
    )


@topic.claim(
    "Equal jitter waits three quarters",
    "The mean of equal jitter is three quarters of the ceiling; its variance is a quarter of full jitter's.",
    GUIDE,
    FORMULAS,
)
def equal_mean() -> Found:
    ceiling = KINDS["equal"].ceiling(3)
    equal, full = (KINDS[kind].delay(3, None, draws(1)) for kind in ("equal", "full"))
    mean, share = float(np.mean(equal)) / ceiling, float(np.var(equal) / np.var(full))
    return found(
        f"{DRAWS:,} draws of each for n = 3",
        f"mean {mean:.3f} of the ceiling, variance {share:.3f} of full jitter's",
        abs(mean - 0.75) < 0.005 and abs(share - 0.25) < 0.005,
    )


@topic.claim(
    "A quarter of full jitter is short",
    "A quarter of full jitter's waits is below a quarter of the ceiling.",
    GUIDE,
)
def short_waits() -> Found:
    waits = KINDS["full"].delay(3, None, draws(2))
    share = float(np.mean(waits < KINDS["full"].ceiling(3) / 4))
    return found(
        f"{DRAWS:,} draws of `Exponential(0.1, cap=30).delay(3, None, u)`",
        f"{share:.1%} of them",
        abs(share - 0.25) < 0.005,
    )


@topic.claim(
    "Full jitter varies most",
    "Of full, equal and decorrelated jitter, the waits of full jitter have the highest variance.",
    GUIDE,
)
def variance() -> Found:
    spread = {kind: np.var(walk(backoff, 6, DRAWS), axis=1) for kind, backoff in SPREAD.items()}
    wider = [n for n in range(6) if spread["decorrelated"][n] > spread["full"][n]]
    above = int(np.sum(spread["full"] > spread["equal"]))
    deviations = {kind: np.sqrt(spread[kind]) for kind in ("full", "equal", "decorrelated")}
    return found(
        f"{DRAWS:,} clients, six retries each, base 100 ms, cap 30 s",
        "standard deviations of the 1st, 3rd and 6th wait, in seconds: "
        + "; ".join(f"{kind} {d[0]:.3f}, {d[2]:.2f}, {d[5]:.2f}" for kind, d in deviations.items()),
        not wider,
        f"It varies more than equal jitter in {above} of 6 waits. Decorrelated jitter varies more than full "
        f"in {len(wider)} of 6, since each of its windows hangs on a random wait before it.",
        partly=above == 6,
    )


@topic.claim(
    "Decorrelated jitter grows like doubling",
    "The factor 3 of decorrelated jitter makes its waits grow about as fast as doubling does.",
    GUIDE,
)
def decorrelated_growth() -> Found:
    means = np.mean(walk(sp.Decorrelated(0.1, cap=1e6), 10, DRAWS), axis=1)
    growth = float((means[9] / means[5]) ** (1 / 4))
    return found(
        f"{DRAWS:,} clients with `Decorrelated(0.1)` and no cap in reach",
        f"from the 6th to the 10th wait the mean grows {growth:.2f} times per retry",
        abs(growth - 2) < 0.1,
        "The mean of the next wait is half of 3 times the last and the base, so it grows 1.5 times.",
    )


@topic.claim(
    "Decorrelated waits of 12 s in five retries",
    "From 100 ms the mean waits of decorrelated jitter are about 0.3, 0.7, 1.5, 3 and 6.5 s, in all about 12 "
    "s; "
    "some clients are through in 6 s, some in 18 s.",
    GUIDE,
)
def decorrelated_total() -> Found:
    waits = walk(SPREAD["decorrelated"], 5, DRAWS)
    total = waits.sum(axis=0)
    low, high = (float(np.quantile(total, q)) for q in (0.05, 0.95))
    return found(
        f"{DRAWS:,} clients with `Decorrelated(0.1, cap=30)`",
        "mean waits "
        + ", ".join(f"{mean:.2f}" for mean in waits.mean(axis=1))
        + f" s, in all {total.mean():.1f} s; 90 % of the clients between {low:.1f} and {high:.1f} s",
        9 < total.mean() < 15,
        "The figures double; the formula grows 1.5 times from a first mean of twice the base.",
    )


@topic.claim(
    "Six attempts outlast ten seconds",
    "With a base of 100 ms, by the wait of attempt 5 full jitter has most clients still around when a "
    "backend "
    "returns after 10 s.",
    GUIDE,
)
def outlasting() -> Found:
    total = walk(KINDS["full"], 6, DRAWS).sum(axis=0)
    unjittered = sum(KINDS["none"].ceiling(n) for n in range(6))
    share = float(np.mean(total > 10))
    return found(
        f"{DRAWS:,} clients, six waits each of `Exponential(0.1, cap=30)`",
        f"all six waits take {total.mean():.2f} s on average and {unjittered:.1f} s at most; "
        f"{share:.0%} of the clients are around at 10 s",
        share > 0.5,
        "Even without jitter the last attempt is made before the backend is back.",
    )


@topic.claim(
    "Sum of the waits",
    "Uncapped, k waits take base x (2^k - 1) in all; a test with 1 ms and five attempts sleeps 15 ms.",
    FORMULAS,
    GUIDE,
)
def total_wait() -> Found:
    backoff = sp.Exponential(0.001, cap=1e6, jitter="none")
    sums = {k: sum(backoff.delay(n, None, 0.0) for n in range(k)) * 1000 for k in (4, 10, 20)}
    return found(
        "`Exponential(0.001, cap=1e6, jitter='none').delay(n, None, 0)`, summed",
        ", ".join(f"{k} waits: {total:,.0f} ms" for k, total in sums.items()),
        all(abs(total - (2**k - 1)) < 1e-6 for k, total in sums.items()),
    )


@topic.claim(
    "Where the cap is reached", "From attempt log2(cap / base) on the wait stays at the cap.", FORMULAS
)
def plateau() -> Found:
    lines, holds = [], True
    for base, cap in ((0.1, 5.0), (0.5, 60.0), (1.0, 32.0)):
        backoff = sp.Exponential(base, cap=cap, jitter="none")
        first = next(n for n in range(100) if backoff.ceiling(n) == cap)
        holds = holds and first == math.ceil(math.log2(cap / base))
        lines.append(f"{base:g} s up to {cap:g} s: n = {first} (log2 is {math.log2(cap / base):.2f})")
    return found("`Exponential(base, cap=cap, jitter='none').ceiling(n)`", "; ".join(lines), holds)


@topic.claim(
    "The eighth wait is capped at 30 s",
    "With a base of 200 ms the waits are 200, 400, 800, 1,600 ms, and the eighth is the cap, 30 s.",
    LESSON,
)
def eighth() -> Found:
    backoff = sp.Exponential(0.2, cap=30, jitter="none")
    waits = [backoff.delay(n, None, 0.0) for n in range(10)]
    return found(
        "`Exponential(0.2, cap=30, jitter='none').delay(n, None, 0)`",
        ", ".join(f"{wait:g}" for wait in waits) + " s",
        waits[7] == 30,
        f"The first four are right; the eighth is {waits[7]:g} s, and the ninth is the first to be capped.",
        partly=waits[:4] == [0.2, 0.4, 0.8, 1.6],
    )


@topic.claim(
    "Twelve days without a cap",
    "Without a cap the wait after 20 doublings of 1 s is 2^20 s, about 12 days.",
    CARD,
)
def uncapped() -> Found:
    wait = sp.Exponential(1, cap=1e9, jitter="none").delay(20, None, 0.0)
    return found(
        "`Exponential(1, cap=1e9, jitter='none').delay(20, None, 0)`",
        f"{wait:,.0f} s, {wait / 86400:.1f} days",
        wait == 2**20 and round(wait / 86400) == 12,
    )


@topic.claim(
    "Symmetric jitter",
    "With a randomisation factor of 0.5 a wait lies between 0.5 and 1.5 times the interval.",
    FORMULAS,
)
def symmetric() -> Found:
    backoff = sp.Exponential(0.5, factor=1.5, cap=60, jitter=sp.Symmetric(0.5))
    waits = backoff.delay(2, None, draws(3)) / backoff.ceiling(2)
    low, mean, high = (float(f(waits)) for f in (np.min, np.mean, np.max))
    return found(
        f"{DRAWS:,} draws of `Exponential(0.5, factor=1.5, cap=60, jitter=Symmetric(0.5)).delay(2, None, u)`",
        f"between {low:.3f} and {high:.3f} of the interval, mean {mean:.3f}",
        low >= 0.5 and high < 1.5 and abs(mean - 1) < 0.005,
    )


@topic.claim(
    "The worst case of four attempts",
    "Four attempts of at most 150 ms, full jitter with a base of 100 ms and a cap of 2 s: at worst "
    "4 x 150 ms + 3 x 2 s = 6.6 s.",
    CHAPTER,
)
def worst_case() -> Found:
    backoff = sp.Exponential(0.1, cap=2.0)
    waits = [backoff.ceiling(n) for n in range(3)]
    worst = 4 * 0.15 + sum(waits)
    return found(
        "`Exponential(0.1, cap=2.0).ceiling(n)` for the three waits, plus four timeouts",
        f"waits of at most {', '.join(f'{wait:g}' for wait in waits)} s: {worst:.1f} s in all",
        abs(worst - 6.6) < 0.05,
        f"A bound, but {6.6 / worst:.1f} times too large: three waits from 100 ms never come near the cap.",
    )
