"""Figures of a policy: its schedule, its worst case, whether it fits an SLO. Pure.

The rule for the SLO: retrying may take a third of it. Two thirds stay for the first attempt and for the
caller's own work; a policy that spends more turns a slow dependency into its callers' outage.
"""

from __future__ import annotations

import math

from .._policy import checks
from .._primitives.durations import spell
from .._strategies.deadline import Deadline
from .._strategies.retry.retry import Retry
from .._strategies.timeout import Timeout
from ._style import in_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._policy.policy import Policy

SHARE = 3.0
#: Rows of a schedule without an end.
ENDLESS = 10
MOST_ROWS = 50


class Facts:
    """One policy's numbers. Times in seconds; inf where nothing bounds them."""

    def __init__(self, name: str, policy: Policy, slo_s: float | None) -> None:
        self.name = name
        self.policy = policy
        self.slo_s = slo_s
        rows = policy.strategies
        self.retry: Retry | None = next((s for s in rows if isinstance(s, Retry)), None)
        self.timeout_s, self.deadline_s = checks.bounds(rows)
        self.worst = policy.worst_case()
        self.schedule = [] if self.retry is None else schedule(self.retry, self.timeout_s, self.deadline_s)
        self.retry_s = 0.0 if self.retry is None else self.cost(self.retry.attempts)

    def cost(self, attempts: int | None) -> float:
        """The longest that retrying can take with ``attempts``: waits, and every attempt after the first.

        An attempt without a timeout counts as 0 here; a server's Retry-After comes on top.
        """
        retry = self.retry
        if retry is None:
            return 0.0
        one = 0.0 if math.isinf(self.timeout_s) else self.timeout_s
        limit = min(math.inf if retry.within is None else retry.within + one, self.deadline_s)
        if attempts is None:
            return limit
        total = 0.0
        for n in range(attempts - 1):
            total += retry.backoff.bounds(n)[1] + one
            if total >= limit:
                return limit
        return total

    @property
    def allowed_s(self) -> float | None:
        """Return the time the SLO leaves for retrying; ``None`` without one."""
        return None if self.slo_s is None else self.slo_s / SHARE

    @property
    def fits(self) -> bool | None:
        """Return True if retrying stays within the SLO's third; ``None`` without an SLO."""
        # A sum of floats may pass a bound it equals on paper.
        return None if self.allowed_s is None else self.retry_s <= self.allowed_s * (1 + 1e-9)

    def as_data(self) -> dict[str, Any]:
        """Everything as plain data; null is "no bound" for times and counts, "not known" for a mean."""
        return {
            "policy": self.name,
            "strategies": [type(s).__name__ for s in self.policy.strategies],
            "schedule": [row.as_data() for row in self.schedule],
            "attempt_timeout_s": _finite(self.timeout_s),
            "deadline_s": _finite(self.deadline_s),
            "worst_case": {
                "attempts": None if math.isinf(self.worst.attempts) else int(self.worst.attempts),
                "seconds": _finite(self.worst.seconds),
                "hinted_seconds": _finite(self.worst.hinted_seconds),
                "amplification": _finite(self.worst.amplification),
            },
            "retry_s": _finite(self.retry_s),
            "slo": None if self.slo_s is None else {"seconds": self.slo_s, "for_retrying_s": self.allowed_s},
            "fits": self.fits,
            "advice": advice(self),
            "notes": notes(self),
        }


class Step:
    """One retry: its wait's bounds and mean, and when it starts at the latest after the first failure."""

    def __init__(self, number: int, low: float, mean: float | None, high: float, starts: float) -> None:
        self.number = number
        self.low = low
        self.mean = mean
        self.high = high
        self.starts = starts
        #: Limit that ends the call before this retry even if every wait is at its shortest; "" for none.
        self.why_not = ""

    def as_data(self) -> dict[str, Any]:
        return {
            "retry": self.number,
            "low_s": float(self.low),
            "mean_s": self.mean,
            "high_s": _finite(self.high),
            "starts_by_s": _finite(self.starts),
            "never": self.why_not or None,
        }


def schedule(retry: Retry, timeout_s: float, deadline_s: float) -> list[Step]:
    """Return the retries one by one: the first 10 if their number is unbounded, never more than 50."""
    count = ENDLESS if retry.attempts is None else min(retry.attempts - 1, MOST_ROWS)
    attempt_s = 0.0 if math.isinf(timeout_s) else timeout_s
    within = math.inf if retry.within is None else retry.within
    steps: list[Step] = []
    shortest = 0.0
    for row in retry.backoff.preview(count):
        shortest += row.low
        step = Step(row.n + 1, row.low, row.mean, row.high, row.worst + row.n * attempt_s)
        if shortest > within:
            step.why_not = f"past within={spell(within)}"
        elif shortest >= deadline_s:
            step.why_not = f"past the deadline of {spell(deadline_s)}"
        steps.append(step)
    return steps


def advice(facts: Facts) -> list[str]:
    """Return advice, most important first; empty if there is none."""
    retry = facts.retry
    warnings = checks.check(facts.policy.strategies)
    if retry is None:
        return ["this policy has no Retry: nothing is ever tried again", *warnings]
    return [*_for_slo(facts, retry), *warnings, *_for_any(facts, retry)]


def notes(facts: Facts) -> list[str]:
    """Return remarks on what users may expect of the policy and it does not do."""
    limits = [
        type(s).__name__
        for s in facts.policy.strategies
        if isinstance(s, Deadline) or (isinstance(s, Timeout) and not s.thread)
    ]
    if not limits:
        return []
    kinds = list(dict.fromkeys(limits))
    verb = "does" if len(kinds) == 1 else "do"
    note = (
        f"{' and '.join(kinds)} {verb} not interrupt a plain (not async) function: it runs to its end, and a "
        "late result is returned; give its client a timeout, or use Timeout(thread=True)"
    )
    return [note]


def _for_slo(facts: Facts, retry: Retry) -> list[str]:
    allowed = facts.allowed_s
    if allowed is None or facts.slo_s is None:
        return []
    advice = [] if facts.fits else [_shorter(facts, retry, allowed)]
    if facts.deadline_s > facts.slo_s:
        advice.append(
            f"put a deadline of {spell(facts.slo_s)} outermost: nothing else ends a call with the SLO"
        )
    return advice


def _shorter(facts: Facts, retry: Retry, allowed: float) -> str:
    most = MOST_ROWS if retry.attempts is None else min(retry.attempts, MOST_ROWS)
    fitting = next((n for n in range(most, 0, -1) if facts.cost(n) <= allowed), 1)
    one = 0.0 if math.isinf(facts.timeout_s) else facts.timeout_s
    within = allowed - one
    ways = []
    if fitting > 1:
        ways.append(f"attempts = {fitting} (retrying then takes at most {in_units(facts.cost(fitting))})")
    if within > retry.backoff.bounds(0)[0]:
        ways.append(f'within = "{_rounded(within)}"')
    if not ways:
        return (
            f"even one retry takes up to {in_units(facts.cost(2))}, and the SLO leaves {in_units(allowed)}: "
            "shorten the wait and the timeout, or do not retry"
        )
    return "to fit the SLO set " + ", or ".join(ways)


def _for_any(facts: Facts, retry: Retry) -> list[str]:
    advice = []
    dead = next((step for step in facts.schedule if step.why_not), None)
    if dead is not None:
        advice.append(f"retry {dead.number} and later never happen: {dead.why_not}")
    if math.isinf(facts.timeout_s) and math.isinf(facts.deadline_s):
        advice.append("add a timeout: nothing bounds an attempt, and one that hangs is never retried")
    if retry.budget is None:
        advice.append(
            f"give the retry a budget: in an outage it multiplies the load by {facts.worst.attempts:g}"
        )
    if facts.schedule and all(s.low == s.high > 0 for s in facts.schedule):
        advice.append('set jitter = "full": without jitter all callers come back at the same moment')
    if facts.schedule and all(s.high == 0 for s in facts.schedule):
        advice.append("wait between attempts: this policy retries at once")
    return advice


def _rounded(seconds: float) -> str:
    """``seconds`` rounded down to whole milliseconds, as a policy file writes them."""
    return spell(max(0.001, math.floor(seconds * 1000 + 1e-9) / 1000))


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else float(value)
