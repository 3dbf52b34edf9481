"""Recognises a retry loop written by hand.

A ``for`` over numbers or a ``while`` is one if a ``try`` in it can leave the loop with a result, a
handler of that ``try`` lets the loop go on, and a sleep stands in between. Without a sleep it is one if
it makes the same call again after a failure of a kind that a network has. A function that calls itself
in a handler is one too, and a loop that looks at a response's status and sleeps. What only looks like one
is left alone: a loop that works for ever and survives errors (nothing leaves it), and a poll (it
waits for time to pass or for something to appear, and every failure is an expected one).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .findings import Place
from .libraries import is_not_200
from .loops import INTERRUPTS, NOT_THERE, Loop
from .names import mentions_429

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .loops import Function
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
    "concurrent.futures.TimeoutError",
}
#: What a file fails with, where `PermissionError` is among it.
_FILE_ERRORS = {"PermissionError", "FileNotFoundError", "FileExistsError", "OSError", "IOError"}
#: Calls that reach no further than this machine, where no crowd waits for the same moment.
_LOCAL = re.compile(r"(os|os\.path|shutil)\.\w+")
_CLOCKS = {
    "time.time",
    "time.monotonic",
    "time.perf_counter",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
}
#: What a time limit is called.
_TIMED = re.compile(r"deadline|end_?time|time_?limit|until|time_?out|time_?left", re.IGNORECASE)
#: A shorter pause than this is a look again, not a wait for a recovery.
_GLANCE_S = 0.1
#: Failures that a call over a network has.
_OF_NETWORKS = re.compile(
    r"(Base)?Exception|OSError|IOError|ConnectionError|TimeoutError|"
    r"(requests|httpx|aiohttp|urllib|urllib3|socket|grpc|botocore|psycopg2?|redis|http)\..*|"
    r".*(Timeout|Unavailable|ConnectionError|ConnectError|RequestException|APIError|HTTPError)"
)
#: Sources of chance that are not made for jitter.
_ODD_CHANCE = {"gauss": "gauss", "normalvariate": "gauss", "expovariate": "expovariate", "SystemRandom":
               "SystemRandom", "secrets": "secrets"}  # fmt: skip
_CHANCE = re.compile(r"rand|jitter|uniform", re.IGNORECASE)
#: So many rounds may double their waits without a maximum: 2**8 s are four minutes.
_FEW_ROUNDS = 8
#: Calls that change nothing for the next round.
_SAYS = {*"debug info warning error exception log print append str repr".split()}
#: What rounds and waits are called.
_COUNTER = re.compile(r"attempt|tr(y|ies)|retr|count|delay|wait|time|back_?off", re.IGNORECASE)
#: What a server's own word on the wait is called.
_HINT = re.compile(r"retry.?after", re.IGNORECASE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

Rounds = ast.For | ast.While


def read(node: Rounds, names: Names, scope: ast.AST | None, text: str) -> Loop | None:
    """The retry loop that ``node`` is, or ``None``. ``scope`` is its function, ``text`` that one's source."""
    attempt = next((s for s in _flat(node.body) if isinstance(s, ast.Try)), None)
    if attempt is None:
        return _read_status_loop(node, names, scope)
    if not _counts(node, names) or not _goes_on(attempt):
        return None
    sleep, in_handler = _sleep(node, attempt, names)
    if sleep is None:
        return _read_sleepless(node, attempt, names)
    if in_handler and _polls(node, attempt, names):
        return None
    if not _leaves(node, attempt, certainly=not in_handler):
        return None
    caught = tuple(name for handler in attempt.handlers for name in _caught(handler, names))
    if caught and all(name in _POLLED or NOT_THERE.fullmatch(name) for name in caught):
        return None
    if _moves_on(attempt) or ("PermissionError" in caught and _FILE_ERRORS.issuperset(caught)):
        return None
    asked = [names.dotted(inner.func) or "" for inner in _walk(attempt.body) if isinstance(inner, ast.Call)]
    if asked and all(map(_LOCAL.fullmatch, asked)):
        return None
    loop = Loop("by hand", "loop", Place.of(node), by_hand=True)
    loop.bounded = _bounded(node, attempt)
    scope = node if scope is None else scope
    loop.waits = _waits(sleep, names, scope)
    pause = names.value(sleep.args[0])
    if loop.bounded and isinstance(pause, (int, float)) and 0 < pause < _GLANCE_S:
        return None
    loop.odd_chance = _odd_chance(sleep, names, scope)
    loop.uncapped = _uncapped(node, sleep, names)
    loop.catches = _retried(attempt, names)
    loop.blocking = isinstance(scope, ast.AsyncFunctionDef) and names.dotted(sleep.func) == "time.sleep"
    loop.calls = [inner for inner in _walk(attempt.body) if isinstance(inner, ast.Call)]
    if mentions_429(scope) and not re.search(r"retry.?after", text, re.IGNORECASE):
        loop.hints = "ignored"
    loop.places = {"waits": Place.of(sleep), "blocking": Place.of(sleep)}
    broad = next(
        (h for h in attempt.handlers if h.type is None or "BaseException" in _caught(h, names)), None
    )
    if broad is not None:
        loop.places["catches"] = Place.of(broad)
    return loop


def _read_sleepless(node: Rounds, attempt: ast.Try, names: Names) -> Loop | None:
    """A loop that makes the same call again at once."""
    caught = [name for handler in attempt.handlers for name in _caught(handler, names)]
    if not all(map(_OF_NETWORKS.fullmatch, caught)) or not _leaves(node, attempt, certainly=True):
        return None
    if any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in _walk(attempt.body)):
        return None
    if not any(isinstance(inner, ast.Call) for inner in _walk(attempt.body)):
        return None
    # Another argument each time, or something set right in between, makes it another call.
    loaded = {n.id for n in _walk(attempt.body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    outside = [s for s in node.body if s is not attempt]
    changed = [*attempt.handlers, *outside, *([node.target] if isinstance(node, ast.For) else [])]
    stored = {n.id for n in _walk(changed) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    acting = [n for h in attempt.handlers for n in _walk(h.body) if isinstance(n, ast.Call)]
    if loaded & stored or outside or any(not _only_reports(call, names) for call in acting):
        return None
    loop = Loop("by hand", "loop", Place.of(node), by_hand=True)
    loop.bounded = _bounded(node, attempt)
    loop.waits = "none"
    loop.catches = tuple(caught)
    loop.calls = [inner for inner in _walk(attempt.body) if isinstance(inner, ast.Call)]
    return loop


def _only_reports(call: ast.Call, names: Names) -> bool:
    """Return True if ``call`` in a handler logs, prints or makes an exception, and so sets nothing right."""
    name = names.dotted(call.func) or ""
    last = name.rpartition(".")[2]
    return last in _SAYS or last[:1].isupper()


def _read_status_loop(node: Rounds, names: Names, scope: ast.AST | None) -> Loop | None:
    """``for ...: response = get(); if response.status_code == 200: return response; sleep(1)``."""
    if not _counts(node, names):
        return None
    calls = [inner for inner in _walk(node.body) if isinstance(inner, ast.Call)]
    sleep = next((c for c in calls if names.dotted(c.func) in SLEEPS and c.args), None)
    answered = [s for s in _flat(node.body) if isinstance(s, ast.If) and any(map(_ends, s.body))]
    # Where a bad status leaves the loop, it waits for the content of a good one.
    stays = [s.test for s in answered if not _always_leaves(s.orelse)]
    if sleep is None or not any(is_not_200(test, ast.Eq) for test in stays if isinstance(test, ast.Compare)):
        return None
    loop = Loop("by hand", "loop", Place.of(node), by_hand=True)
    loop.bounded = isinstance(node, ast.For) or not isinstance(node.test, ast.Constant)
    loop.waits = _waits(sleep, names, scope)
    loop.places = {"waits": Place.of(sleep)}
    numbers = {n.value for n in _walk(node.body) if isinstance(n, ast.Constant) and type(n.value) is int}
    loop.any_status = not any(400 <= number < 600 for number in numbers)
    loop.calls = calls
    return loop


def read_recursion(function: Function, names: Names) -> Loop | None:
    """The retry that ``function`` is if a handler in it calls it again, or ``None``."""
    for attempt in (n for n in _walk(function.node.body) if isinstance(n, ast.Try)):
        for handler in attempt.handlers:
            again = [n for n in _walk(handler.body) if isinstance(n, ast.Call) and _is_call_of(function, n)]
            caught = _caught(handler, names)
            if not again or not all(map(_OF_NETWORKS.fullmatch, caught)):
                continue
            counted = any(isinstance(n, (ast.BinOp, ast.If)) for n in _walk([*handler.body]))
            loop = Loop("by hand", "recursion", Place.of(again[0]), by_hand=True)
            loop.bounded = counted
            calls = [n for n in _walk(handler.body) if isinstance(n, ast.Call)]
            sleep = next((c for c in calls if names.dotted(c.func) in SLEEPS and c.args), None)
            loop.waits = "none" if sleep is None else _waits(sleep, names, function.node)
            if sleep is None and not _same_arguments(function, again[0]):
                return None
            loop.catches = caught
            loop.function = function
            return loop
    return None


def _is_call_of(function: Function, call: ast.Call) -> bool:
    func = call.func
    if isinstance(func, ast.Attribute):
        own = isinstance(func.value, ast.Name) and func.value.id in ("self", "cls")
        return own and function.owner is not None and func.attr == function.name
    return isinstance(func, ast.Name) and function.owner is None and func.id == function.name


def _same_arguments(function: Function, call: ast.Call) -> bool:
    """Return True if ``call`` passes on nothing but the function's own parameters and counts of them."""
    spec = function.node.args
    own = {arg.arg for arg in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]}
    own |= {arg.arg for arg in (spec.vararg, spec.kwarg) if arg is not None}
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    mentioned = {n.id for value in given for n in ast.walk(value) if isinstance(n, ast.Name)}
    plain = all(isinstance(v, (ast.Name, ast.Starred, ast.BinOp)) for v in given)
    return plain and mentioned <= own


def _odd_chance(sleep: ast.Call, names: Names, scope: ast.AST | None) -> str | None:
    parts = [sleep.args[0], *_assigned_to(sleep.args[0], scope)]
    for inner in (n for part in parts for n in ast.walk(part)):
        text = names.dotted(inner) if isinstance(inner, (ast.Name, ast.Attribute)) else None
        found = next((odd for word, odd in _ODD_CHANCE.items() if text and word in text.split(".")), None)
        if found is not None:
            return found
    return None


def _uncapped(node: Rounds, sleep: ast.Call, names: Names) -> bool:
    """Return True if the sleep is a power of the round, without ``min``, in a loop of many rounds."""
    amount = names.follow(sleep.args[0])
    powers = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow) for n in ast.walk(amount))
    called = {names.dotted(n.func) for n in ast.walk(amount) if isinstance(n, ast.Call)}
    if not powers or called & {"min"}:
        return False
    rounds = names.value(node.iter) if isinstance(node, ast.For) else None
    return isinstance(rounds, tuple) and len(rounds) > _FEW_ROUNDS


def _assigned_to(amount: ast.expr, scope: ast.AST | None) -> list[ast.AST]:
    """Return what is assigned, anywhere in ``scope``, to the names in ``amount``."""
    mentioned = {inner.id for inner in ast.walk(amount) if isinstance(inner, ast.Name)}
    if scope is None or not mentioned:
        return []
    return [
        inner.value
        for inner in ast.walk(scope)
        if isinstance(inner, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr))
        and inner.value is not None
        and mentioned & {_name(part) for target in _targets(inner) for part in ast.walk(target)}
    ]


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
    """Return True if the loop counts rounds, rather than going through things or waiting for a time."""
    head: ast.expr = node.test if isinstance(node, ast.While) else node.iter
    compared = [inner for inner in _walk(node.body) if isinstance(inner, ast.Compare)]
    if any(_reads_time(inner, names) for part in [head, *compared] for inner in ast.walk(part)):
        return False
    if isinstance(node, ast.While):
        return True
    made = names.follow(node.iter)
    if isinstance(made, ast.Call):
        return names.dotted(made.func) in ("range", "itertools.count")
    return isinstance(made, (ast.List, ast.Tuple)) and all(
        isinstance(item, ast.Constant) and isinstance(item.value, (int, float)) for item in made.elts
    )


def _reads_time(node: ast.AST, names: Names) -> bool:
    if isinstance(node, (ast.Name, ast.Attribute)) and _TIMED.search(_name(node)):
        return True
    return isinstance(node, ast.Call) and names.dotted(node.func) in _CLOCKS


def _moves_on(attempt: ast.Try) -> bool:
    """Return True if a handler counts on what is asked for, such as a page: the next call is another one."""
    calls = [inner for inner in _walk(attempt.body) if isinstance(inner, ast.Call)]
    given = [value for call in calls for value in (*call.args, *(k.value for k in call.keywords))]
    loaded = {_name(inner) for value in given for inner in ast.walk(value)} - {""}
    handled = [s for handler in attempt.handlers for s in handler.body]
    added = [s for s in _walk(handled) if isinstance(s, ast.AugAssign) and isinstance(s.op, ast.Add)]
    return any(_name(s.target) in loaded and not _COUNTER.search(_name(s.target)) for s in added)


def _goes_on(attempt: ast.Try) -> bool:
    return any(not _always_leaves(handler.body) for handler in attempt.handlers)


def _always_leaves(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], (ast.Raise, ast.Return, ast.Break))


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


def _polls(node: Rounds, attempt: ast.Try, names: Names) -> bool:
    """Return True if the loop sleeps after a round that worked as well: it waits for something to be done."""
    after = [s for s in node.body if s.lineno > (attempt.end_lineno or 0)]
    calls = (
        inner for inner in _walk([*attempt.body, *attempt.orelse, *after]) if isinstance(inner, ast.Call)
    )
    return any(names.dotted(call.func) in SLEEPS for call in calls)


def _leaves(node: Rounds, attempt: ast.Try, *, certainly: bool) -> bool:
    """Return True if a round that works ends the loop; ``certainly``: without any condition."""
    body = [*attempt.body, *attempt.orelse]
    if certainly:
        return any(isinstance(s, (ast.Return, ast.Break)) for s in _flat(body))
    after = [s for s in node.body if s.lineno > (attempt.end_lineno or 0)]
    # A loop that may end before its work is done, and goes on when it is, has more work: it is not a retry.
    return any(_ends(last) for last in (_last(body), _last(after)) if last is not None)


def _last(body: Sequence[ast.stmt]) -> ast.stmt | None:
    """Return the last statement but for those that count, print, log or sleep."""
    said = (ast.AugAssign, ast.Expr)
    acting = [s for s in body if not isinstance(s, said) or (isinstance(s, ast.Expr) and _acts(s.value))]
    return acting[-1] if acting else None


def _acts(value: ast.expr) -> bool:
    called = value.value if isinstance(value, ast.Await) else value
    return isinstance(called, ast.Call) and _name(called.func) not in {*_SAYS, "sleep"}


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


def _retried(attempt: ast.Try, names: Names) -> tuple[str, ...]:
    """Return what the loop retries. A handler that lets interrupts pass shields a broad one below it."""
    leaving = [name for h in attempt.handlers if _always_leaves(h.body) for name in _caught(h, names)]
    shielded = any(name.rpartition(".")[2] in INTERRUPTS for name in leaving)
    staying = [name for h in attempt.handlers if not _always_leaves(h.body) for name in _caught(h, names)]
    return tuple("Exception" if shielded and name == "BaseException" else name for name in staying)


def _bounded(node: Rounds, attempt: ast.Try) -> bool:
    if isinstance(node, ast.For) and not (
        isinstance(node.iter, ast.Call) and _name(node.iter.func) == "count"
    ):
        return True
    if isinstance(node, ast.While) and not (isinstance(node.test, ast.Constant) and node.test.value):
        return True
    inside = [s for handler in attempt.handlers for s in handler.body]
    rest = [s for s in node.body if s is not attempt]
    counted = {_name(inner.target) for inner in _walk(node.body) if isinstance(inner, ast.AugAssign)}
    compared = [inner for inner in _walk([*inside, *rest]) if isinstance(inner, ast.Compare)]
    if any(_name(part) in counted for inner in compared for part in ast.walk(inner) if _name(part)):
        return True
    return any(isinstance(inner, (ast.Raise, ast.Return, ast.Break)) for inner in _walk([*inside, *rest]))


def _waits(sleep: ast.Call, names: Names, scope: ast.AST | None) -> str | None:
    """Return "fixed" if nothing random goes into the sleep; ``None`` if that is unknown."""
    amount = names.follow(sleep.args[0])
    parts: list[ast.AST] = [amount, *_assigned_to(amount, scope)]
    if any(_CHANCE.search(_name(inner)) for part in parts for inner in ast.walk(part)):
        return "jittered"
    if any(_HINT.search(_text(inner)) for part in parts for inner in ast.walk(part)):
        return None
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


def _text(node: ast.AST) -> str:
    """The name that ``node`` is, or the string."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return _name(node)
