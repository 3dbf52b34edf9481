"""Recognises a retry loop written by hand.

A ``for`` over numbers or a ``while`` is one if a ``try`` in it can leave the loop with a result, a
handler of that ``try`` lets the loop go on, and a sleep stands in between. What only looks like one
is left alone: a loop that works for ever and survives errors (nothing leaves it), and a poll (it
waits for time to pass or for something to appear, and every failure is an expected one).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .findings import Place
from .loops import Loop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .names import Names

SLEEPS = {"time.sleep", "asyncio.sleep", "trio.sleep", "anyio.sleep", "gevent.sleep", "eventlet.sleep"}

#: What a poll catches: not there yet, not now.
_POLLED = {
    "queue.Empty",
    "queue.Full",
    "asyncio.QueueEmpty",
    "asyncio.QueueFull",
    "BlockingIOError",
    "FileNotFoundError",
    "FileExistsError",
    "ProcessLookupError",
    "KeyError",
    "IndexError",
    "LookupError",
    "AttributeError",
    "AssertionError",
    "ImportError",
    "subprocess.TimeoutExpired",
}
_CLOCKS = {
    "time.time",
    "time.monotonic",
    "time.perf_counter",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
}
#: What a time limit is called.
_TIMED = re.compile(r"deadline|end_?time|time_?limit|until|time_?out|time_?left", re.IGNORECASE)
#: A pause this short is a look again, not a wait for somebody's recovery.
_GLANCE_S = 0.1
_CHANCE = re.compile(r"rand|jitter|uniform", re.IGNORECASE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

Rounds = ast.For | ast.While


def read(node: Rounds, names: Names, scope: ast.AST | None, text: str) -> Loop | None:
    """The retry loop that ``node`` is, or ``None``. ``scope`` is its function, ``text`` that one's source."""
    attempt = next((s for s in _flat(node.body) if isinstance(s, ast.Try)), None)
    if attempt is None or not _counts(node, names) or not _goes_on(attempt):
        return None
    sleep, in_handler = _sleep(node, attempt, names)
    if sleep is None or not _leaves(node, attempt, certainly=not in_handler):
        return None
    caught = tuple(name for handler in attempt.handlers for name in _caught(handler, names))
    if caught and set(caught) <= _POLLED:
        return None
    loop = Loop("by hand", "loop", Place.of(node), by_hand=True)
    loop.bounded = _bounded(node, attempt)
    loop.waits = _waits(sleep, names, scope)
    pause = names.value(sleep.args[0])
    if loop.bounded and isinstance(pause, (int, float)) and 0 < pause <= _GLANCE_S:
        return None
    loop.catches = tuple(
        name for h in attempt.handlers if not _always_leaves(h) for name in _caught(h, names)
    )
    loop.blocking = isinstance(scope, ast.AsyncFunctionDef) and names.dotted(sleep.func) == "time.sleep"
    loop.calls = [inner for inner in _walk(attempt.body) if isinstance(inner, ast.Call)]
    if re.search(r"\b429\b", text) and not re.search(r"retry.?after", text, re.IGNORECASE):
        loop.hints = "ignored"
    loop.places = {"waits": Place.of(sleep), "blocking": Place.of(sleep)}
    broad = next(
        (h for h in attempt.handlers if h.type is None or "BaseException" in _caught(h, names)), None
    )
    if broad is not None:
        loop.places["catches"] = Place.of(broad)
    return loop


def _flat(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of ``body``, and those inside its ``with`` blocks."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            yield from _flat(statement.body)


def _walk(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Every node of ``body`` that runs as part of it: not what functions inside it do later."""
    stack = list(body)
    while stack:
        node = stack.pop()
        if not isinstance(node, _FUNCTIONS):
            yield node
            stack += ast.iter_child_nodes(node)


def _counts(node: Rounds, names: Names) -> bool:
    """Whether the loop counts rounds, rather than going through things or waiting for a time."""
    head: ast.expr = node.test if isinstance(node, ast.While) else node.iter
    compared = [inner for inner in _walk(node.body) if isinstance(inner, ast.Compare)]
    if any(_tells_time(inner, names) for part in [head, *compared] for inner in ast.walk(part)):
        return False
    if isinstance(node, ast.While):
        return True
    made = names.follow(node.iter)
    if isinstance(made, ast.Call):
        return names.dotted(made.func) in ("range", "itertools.count")
    return isinstance(made, (ast.List, ast.Tuple)) and all(
        isinstance(item, ast.Constant) and isinstance(item.value, (int, float)) for item in made.elts
    )


def _tells_time(node: ast.AST, names: Names) -> bool:
    if isinstance(node, (ast.Name, ast.Attribute)) and _TIMED.search(_name(node)):
        return True
    return isinstance(node, ast.Call) and names.dotted(node.func) in _CLOCKS


def _goes_on(attempt: ast.Try) -> bool:
    return any(not _always_leaves(handler) for handler in attempt.handlers)


def _always_leaves(handler: ast.ExceptHandler) -> bool:
    return isinstance(handler.body[-1], (ast.Raise, ast.Return, ast.Break))


def _sleep(node: Rounds, attempt: ast.Try, names: Names) -> tuple[ast.Call | None, bool]:
    """The sleep between two rounds, and whether it stands in a handler."""

    def first(body: Sequence[ast.AST]) -> ast.Call | None:
        calls = (inner for inner in _walk(body) if isinstance(inner, ast.Call))
        return next((call for call in calls if names.dotted(call.func) in SLEEPS and call.args), None)

    for handler in attempt.handlers:
        if (found := first(handler.body)) is not None:
            return found, True
    after = [s for s in node.body if s.lineno > (attempt.end_lineno or 0)]
    return first([*attempt.finalbody, *after]), False


def _leaves(node: Rounds, attempt: ast.Try, *, certainly: bool) -> bool:
    """Whether a round that works ends the loop; ``certainly``: without any condition."""
    body = [*attempt.body, *attempt.orelse]
    if certainly:
        return any(isinstance(s, (ast.Return, ast.Break)) for s in _flat(body))
    after = [s for s in node.body if s.lineno > (attempt.end_lineno or 0)]
    return any(_ends(s) for s in [*body, *after])


def _ends(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Break):
        return True
    return any(
        isinstance(inner, ast.Return) or (isinstance(inner, ast.Break) and not isinstance(statement, Rounds))
        for inner in _walk([statement])
    )


def _caught(handler: ast.ExceptHandler, names: Names) -> tuple[str, ...]:
    if handler.type is None:
        return ("BaseException",)
    return names.exceptions(handler.type) or ("?",)


def _bounded(node: Rounds, attempt: ast.Try) -> bool:
    if isinstance(node, ast.For) and not (
        isinstance(node.iter, ast.Call) and _name(node.iter.func) == "count"
    ):
        return True
    if isinstance(node, ast.While) and not (isinstance(node.test, ast.Constant) and node.test.value):
        return True
    inside = [s for handler in attempt.handlers for s in handler.body]
    rest = [s for s in node.body if s is not attempt]
    return any(isinstance(inner, (ast.Raise, ast.Return, ast.Break)) for inner in _walk([*inside, *rest]))


def _waits(sleep: ast.Call, names: Names, scope: ast.AST | None) -> str | None:
    """ "fixed" if nothing random goes into the sleep; ``None`` if that cannot be told."""
    amount = names.follow(sleep.args[0])
    parts: list[ast.AST] = [amount]
    mentioned = {inner.id for inner in ast.walk(amount) if isinstance(inner, ast.Name)}
    if scope is not None and mentioned:
        parts += [
            inner.value
            for inner in ast.walk(scope)
            if isinstance(inner, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr))
            and inner.value is not None
            and mentioned & {_name(target) for target in _targets(inner)}
        ]
    if any(_CHANCE.search(_name(inner)) for part in parts for inner in ast.walk(part)):
        return "jittered"
    known = {"min", "max", "float", "int", "pow", "round", "math.pow", "len", "abs"}
    called = {
        names.dotted(inner.func) for part in parts for inner in ast.walk(part) if isinstance(inner, ast.Call)
    }
    if called - known:
        return None
    return "none" if isinstance(amount, ast.Constant) and amount.value == 0 else "fixed"


def _targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
