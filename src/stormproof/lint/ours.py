"""Readers of Stormproof's own options in Python code."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .findings import Place
from .loops import Loop
from .names import UNKNOWN, Use

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Reader = Callable[[Use, str], Loop | None]

#: The jitter of each schedule when none is given, and where the wait itself stands.
_SCHEDULES = {
    "stormproof.Exponential": "full",
    "stormproof.Linear": "full",
    "stormproof.Fibonacci": "full",
    "stormproof.Constant": "none",
    "stormproof.Schedule": "none",
}


def stormproof_retry(use: Use, label: str) -> Loop:
    """``Retry``, ``retry`` and ``retrying`` take the same options in the same places."""
    loop = Loop("stormproof", label, Place.of(use.node))
    if not use.open:
        attempts, within = use.value("attempts", 4, 1), use.value("within", 30.0, 3)
        # Retry inside a Policy may have a Deadline around it; Stormproof itself refuses it without one.
        loop.bounded = not (attempts is None and within is None) or label == "stormproof.Retry" or None
        loop.attempts = attempts if isinstance(attempts, int) else None
    backoff, budget, on = use.arg("backoff", 2), use.arg("budget", 4), use.arg("on", 0)
    if backoff is not None:
        loop.waits = waits(use, backoff)
        loop.places["waits"] = Place.of(backoff)
    if budget is not None:
        loop.budget = _budget(use, budget)
        loop.places["budget"] = Place.of(budget)
    if on is not None:
        loop.retry_errors(use.names.exceptions(on))
        loop.places["catches"] = Place.of(on)
    return loop


def waits(use: Use, node: ast.expr) -> str | None:
    """Return how the schedule that ``node`` makes waits; ``None`` if it is not one of ours."""
    node = use.names.follow(node)
    schedule = use.names.dotted(node.func) if isinstance(node, ast.Call) else None
    if schedule not in _SCHEDULES:
        return None
    backoff = Use(use.names, node)
    if schedule == "stormproof.Constant" and backoff.value("wait", UNKNOWN, 0) in (0, 0.0):
        return "none" if backoff.value("min", 0) == 0 else None
    jitter = backoff.value("jitter", _SCHEDULES[schedule])
    return None if jitter is UNKNOWN else "fixed" if jitter == "none" else "jittered"


def _budget(use: Use, node: ast.expr) -> str | None:
    node = use.names.follow(node)
    if isinstance(node, ast.Constant) and node.value is None:
        return "none"
    if isinstance(node, ast.Call) and use.names.dotted(node.func) == "stormproof.Budget":
        budget = Use(use.names, node)
        return judge_budget(budget.value("ratio", 0.1, 0), budget.value("burst", 10, 1))
    return None


def judge_budget(ratio: Any, burst: Any) -> str | None:
    """ "loose" if it pays for a retry of every call, "tight" if it can pay for none."""
    if not isinstance(ratio, (int, float)) or not isinstance(burst, (int, float)):
        return None
    if ratio >= 1:
        return "loose"
    return "tight" if burst < 1 else None


def stormproof_policy(use: Use, label: str) -> Loop | None:
    """The times of a ``Policy``: its deadline, and the timeout inside it."""
    limits: dict[str, tuple[float, ast.expr]] = {}
    for node in map(use.names.follow, use.positional):
        name = use.names.dotted(node.func) if isinstance(node, ast.Call) else None
        if name in ("stormproof.Deadline", "stormproof.Timeout"):
            seconds = Use(use.names, node).value("seconds", UNKNOWN, 0)
            if isinstance(seconds, (int, float)) and name not in limits:
                limits[name] = float(seconds), node
    if len(limits) < 2:
        return None
    loop = Loop("stormproof", label, Place.of(use.node))
    loop.deadline_s, loop.timeout_s = limits["stormproof.Deadline"][0], limits["stormproof.Timeout"][0]
    loop.places["timeout_s"] = Place.of(limits["stormproof.Timeout"][1])
    return loop


READERS: dict[str, Reader] = {
    "stormproof.retry": stormproof_retry,
    "stormproof.retrying": stormproof_retry,
    "stormproof.Retry": stormproof_retry,
    "stormproof.Policy": stormproof_policy,
}
