"""Native form of a decorator of tenacity, backoff or stamina, where the meaning is certain.

Each reader gives the arguments of ``stormproof.retry`` as source text, or ``None`` where a part of the
decorator is unknown, computed elsewhere, or means something that ``stormproof.retry`` does differently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from .._strategies.budget.budget import Budget
from .loops import INTERRUPTS

if TYPE_CHECKING:
    from collections.abc import Callable

    #: The qualified name of an expression, and the source text of one.
    NameOf = Callable[[cst.CSTNode], str | None]
    CodeOf = Callable[[cst.CSTNode], str]


#: Stormproof refuses to retry these.
_NEVER_RETRIED = INTERRUPTS | {"SystemExit", "GeneratorExit"}


class Decorator:
    """A call in a decorator: its arguments by name or position."""

    def __init__(self, call: cst.Call, name_of: NameOf, code_of: CodeOf) -> None:
        self.name_of = name_of
        self.code_of = code_of
        self.positional = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
        self.keywords = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
        #: True if every argument can be seen.
        self.is_whole = not any(arg.star for arg in call.args)

    def inner(self, node: cst.BaseExpression, prefix: str) -> tuple[str, Decorator] | None:
        """Return the last part of the name and the arguments of a call such as ``wait_fixed(2)``."""
        if not isinstance(node, cst.Call):
            return None
        name = self.name_of(node.func)
        if name is None or not name.startswith(prefix + "."):
            return None
        inner = Decorator(node, self.name_of, self.code_of)
        return (name.rpartition(".")[2], inner) if inner.is_whole else None

    def number(self, name: str, position: int | None = None, default: float | None = None) -> float | None:
        """Return a literal number; ``default`` if it is not given, ``None`` if it is not a literal."""
        node = self.keywords.get(name)
        if node is None and position is not None and position < len(self.positional):
            node = self.positional[position]
        if node is None:
            return default
        return node.evaluated_value if isinstance(node, (cst.Integer, cst.Float)) else None

    def exceptions(self, node: cst.BaseExpression | None) -> str | None:
        """Return the text of an exception type, or of a tuple of them."""
        items = [element.value for element in node.elements] if isinstance(node, cst.Tuple) else [node]
        if (
            not items
            or node is None
            or not all(isinstance(item, (cst.Name, cst.Attribute)) for item in items)
        ):
            return None
        # A name in lower case may be a callable, which other libraries ask in other ways.
        last = [self.code_of(item).rpartition(".")[2] for item in items if item is not None]
        certain = all(name[:1].isupper() and name not in _NEVER_RETRIED for name in last)
        return self.code_of(node) if certain else None


def _spelt(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


def _exponential(
    base: float | None, factor: float | None, cap: float | None, jitter: str, least: float | None = 0
) -> str | None:
    """Return an ``Exponential``; ``None`` where an option is unknown, or they do not fit it."""
    if base is None or factor is None or cap is None or least is None:
        return None
    if not 0 < base <= cap or factor < 1 or not 0 <= least <= cap:
        return None
    options = [f"base={_spelt(base)}"]
    options += [f"factor={_spelt(factor)}"] if factor != 2 else []
    options.append(f"cap={_spelt(cap)}")
    options += ['jitter="none"'] if jitter == "none" else []
    options += [f"min={_spelt(least)}"] if least else []
    return f"stormproof.Exponential({', '.join(options)})"


def _arguments(on: str | None, attempts: float | None, wait: str | None) -> list[str] | None:
    """Return what ``stormproof.retry`` is given. A single call may use all its attempts, as before."""
    if on is None or attempts is None or attempts < 1 or attempts != int(attempts) or wait is None:
        return None
    given = [f"on={on}", f"attempts={int(attempts)}", f"backoff={wait}", "within=None"]
    if attempts - 1 > Budget().burst:
        given.append(f"budget=stormproof.Budget(burst={int(attempts) - 1})")
    return given


def tenacity(use: Decorator) -> list[str] | None:
    """``@retry(stop=stop_after_attempt(n), wait=..., retry=retry_if_exception_type(E), reraise=True)``."""
    known = {"stop", "wait", "retry", "reraise"}
    if use.positional or not set(use.keywords) <= known or not use.is_whole:
        return None
    reraise = use.keywords.get("reraise")
    if reraise is None or use.code_of(reraise) != "True":
        return None
    stop = use.inner(use.keywords["stop"], "tenacity") if "stop" in use.keywords else None
    if stop is None or stop[0] != "stop_after_attempt":
        return None
    on: str | None = "Exception"
    if "retry" in use.keywords:
        retry = use.inner(use.keywords["retry"], "tenacity")
        if retry is None or retry[0] != "retry_if_exception_type" or len(retry[1].positional) != 1:
            return None
        on = use.exceptions(retry[1].positional[0])
    return _arguments(on, stop[1].number("max_attempt_number", 0), _tenacity_wait(use))


def _tenacity_wait(use: Decorator) -> str | None:
    if "wait" not in use.keywords:
        return "stormproof.Constant(0)"
    inner = use.inner(use.keywords["wait"], "tenacity")
    if inner is None:
        return None
    name, schedule = inner
    if name == "wait_none":
        return "stormproof.Constant(0)"
    if name == "wait_fixed":
        seconds = schedule.number("wait", 0)
        return None if seconds is None else f"stormproof.Constant({_spelt(seconds)})"
    if name not in ("wait_exponential", "wait_random_exponential"):
        return None
    base, cap = schedule.number("multiplier", 0, 1.0), schedule.number("max", 1)
    factor, least = schedule.number("exp_base", 2, 2.0), schedule.number("min", 3, 0.0)
    if name == "wait_random_exponential":
        # tenacity draws from min to the ceiling; ours draws from 0 and lifts.
        return None if least else _exponential(base, factor, cap, "full")
    return _exponential(base, factor, cap, "none", least)


def backoff(use: Decorator) -> list[str] | None:
    """``@on_exception(expo, E, max_tries=n, max_value=...)``, or with ``constant`` and ``interval=...``."""
    known = {"max_tries", "max_value", "factor", "base", "interval", "jitter"}
    if len(use.positional) != 2 or not set(use.keywords) <= known or not use.is_whole:
        return None
    maker, on = use.name_of(use.positional[0]), use.exceptions(use.positional[1])
    jitter = use.keywords.get("jitter")
    plain = jitter is not None and use.code_of(jitter) == "None"
    if jitter is not None and not plain and use.name_of(jitter) != "backoff.full_jitter":
        return None
    spread = "none" if plain else "full"
    wait: str | None = None
    if maker == "backoff.expo" and "interval" not in use.keywords:
        base, factor = use.number("factor", default=1.0), use.number("base", default=2.0)
        wait = _exponential(base, factor, use.number("max_value"), spread)
    elif maker == "backoff.constant" and set(use.keywords) <= {"max_tries", "interval", "jitter"}:
        seconds = use.number("interval", default=1.0)
        if seconds is not None:
            jittered = "" if plain else ', jitter="full"'
            wait = f"stormproof.Constant({_spelt(seconds)}{jittered})"
    return _arguments(on, use.number("max_tries"), wait)


def stamina(use: Decorator) -> list[str] | None:
    """``@retry(on=E, attempts=n, timeout=None, wait_jitter=0, ...)``: added jitter has no counterpart."""
    known = {"on", "attempts", "timeout", "wait_initial", "wait_max", "wait_jitter", "wait_exp_base"}
    if use.positional or not set(use.keywords) <= known or not use.is_whole:
        return None
    timeout = use.keywords.get("timeout")
    if timeout is None or use.code_of(timeout) != "None" or use.number("wait_jitter", default=1.0) != 0:
        return None
    on, attempts = use.exceptions(use.keywords.get("on")), use.number("attempts", default=10.0)
    base, cap = use.number("wait_initial", default=0.1), use.number("wait_max", default=5.0)
    factor = use.number("wait_exp_base", default=2.0)
    return _arguments(on, attempts, _exponential(base, factor, cap, "none"))


#: The decorators, by their qualified names.
READERS: dict[str, Callable[[Decorator], list[str] | None]] = {
    "tenacity.retry": tenacity,
    "backoff.on_exception": backoff,
    "stamina.retry": stamina,
}
