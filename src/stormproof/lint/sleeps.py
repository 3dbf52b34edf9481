"""The sleep of a retry loop written by hand: where it stands, and how its length comes about."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .statements import after, always_leaves, assigned_to, calls_in, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .names import Names
    from .statements import Rounds

SLEEPS = {"time.sleep", "asyncio.sleep", "trio.sleep", "anyio.sleep", "gevent.sleep", "eventlet.sleep"}
#: Sources of chance that are not made for jitter.
_ODD_CHANCE = {"gauss": "gauss", "normalvariate": "gauss", "expovariate": "expovariate", "SystemRandom":
               "SystemRandom", "secrets": "secrets"}  # fmt: skip
_CHANCE = re.compile(r"rand|jitter|uniform", re.IGNORECASE)
#: The server's own statement of the wait.
_HINT = re.compile(r"retry.?after", re.IGNORECASE)
#: This many rounds may double their waits without a maximum: 2**8 s are four minutes.
_FEW_ROUNDS = 8
_ARITHMETIC = {"min", "max", "float", "int", "pow", "round", "math.pow", "len", "abs"}


def first_sleep(body: Sequence[ast.AST], names: Names) -> ast.Call | None:
    """Return a sleep that runs as part of ``body``, or ``None``."""
    return next((c for c in calls_in(body) if names.dotted(c.func) in SLEEPS and c.args), None)


def sleep_between(node: Rounds, attempt: ast.Try, names: Names) -> tuple[ast.Call | None, bool]:
    """The sleep between two rounds, and whether it stands in a handler."""
    for handler in (h for h in attempt.handlers if not always_leaves(h.body)):
        if (sleep := first_sleep(handler.body, names)) is not None:
            return sleep, True
    return first_sleep([*attempt.finalbody, *after(node, attempt)], names), False


def kind_of_wait(sleep: ast.Call, names: Names, scope: ast.AST | None) -> str | None:
    """Return "fixed" if nothing random goes into the sleep; ``None`` if that is unknown."""
    amount = names.follow(sleep.args[0])
    nodes = [inner for part in (amount, *assigned_to(amount, scope)) for inner in ast.walk(part)]
    if any(_CHANCE.search(name_of(inner)) for inner in nodes):
        return "jittered"
    if any(_HINT.search(_text(inner)) for inner in nodes):
        return None
    if {names.dotted(inner.func) for inner in nodes if isinstance(inner, ast.Call)} - _ARITHMETIC:
        return None
    return "none" if isinstance(amount, ast.Constant) and amount.value == 0 else "fixed"


def odd_chance(sleep: ast.Call, names: Names, scope: ast.AST | None) -> str | None:
    """Return the source of jitter that is not made for it, or ``None``."""
    parts = [sleep.args[0], *assigned_to(sleep.args[0], scope)]
    for inner in (n for part in parts for n in ast.walk(part)):
        text = names.dotted(inner) if isinstance(inner, (ast.Name, ast.Attribute)) else None
        source = next((odd for word, odd in _ODD_CHANCE.items() if text and word in text.split(".")), None)
        if source is not None:
            return source
    return None


def is_uncapped(node: Rounds, sleep: ast.Call, names: Names) -> bool:
    """Return True if the sleep is a power of the round, without ``min``, in a loop of many rounds."""
    amount = names.follow(sleep.args[0])
    powers = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow) for n in ast.walk(amount))
    called = {names.dotted(n.func) for n in ast.walk(amount) if isinstance(n, ast.Call)}
    if not powers or "min" in called:
        return False
    rounds = names.value(node.iter) if isinstance(node, ast.For) else None
    return isinstance(rounds, tuple) and len(rounds) > _FEW_ROUNDS


def _text(node: ast.AST) -> str:
    """The name that ``node`` is, or the string."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return name_of(node)
