"""Recognises a retry loop written by hand.

A ``for`` over numbers or a ``while`` is one if a ``try`` in it can leave the loop with a result, a
handler of that ``try`` lets the loop go on, and a sleep stands in between. Without a sleep it is one if
it makes the same call again. A function that calls itself in a handler is one too, and a loop that looks
at a response's status and sleeps. What only looks like one is left alone: a loop that works for ever and
survives errors (nothing leaves it), and a poll (it waits for time to pass or for something to appear, and
every failure is an expected one). `remote` decides whether the retried call leaves the machine.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from . import too_many
from .findings import Place
from .libraries import is_not_200, looks_at_status
from .loops import EXPECTED, INTERRUPTS, NOT_THERE, Loop, awaits_a_state, called_function
from .sleeps import first_sleep, is_uncapped, kind_of_wait, odd_chance, sleep_between
from .statements import (
    REPORTS,
    after,
    always_leaves,
    assigned_to,
    calls_in,
    ends,
    flat,
    last_acting,
    loaded_in,
    name_of,
    stored_in,
    walk,
    words_of,
)

if TYPE_CHECKING:
    from .loops import Function
    from .names import Names
    from .statements import Rounds

_CLOCKS = {
    *(f"time.{name}" for name in ("time", "monotonic", "perf_counter")),
    *("datetime.datetime.now", "datetime.datetime.utcnow"),
}
#: Names of a time limit.
_TIMED = re.compile(
    r"deadline|end_?time|time_?limit|until|time_?out|time_?left|remaining_(s|time)", re.IGNORECASE
)
_TIMED_OUT = re.compile(r"timed_?out|deadline|expired", re.IGNORECASE)
_FIRST_ERROR = 400
_RETRIES = re.compile(r"retr(y|ies)|attempt|back.?off", re.IGNORECASE)
#: Statuses of what is not done yet: a loop that looks at one is a poll.
_PENDING = {202, 204, 400, 403, 404, 409}
#: Statuses of an error that another writer, or time, puts right.
_STATES = {404, 409, 412, 423}
#: Texts in a loop that waits for what its caller has started or deletes.
_WAITING = re.compile(
    r"\ba?wait(ing|s|ed)?\b[^;\n]{0,60}?\b(for|until|del)|(not|is) (yet |now )?(ready|available)|still |"
    r"running yet|not yet |check(ing)? (connectivity|whether)|\b(poll|prob)(e|s|es|ing|ed)?\b",
    re.IGNORECASE,
)
#: A shorter pause than this is a look again, not a wait for a recovery.
_GLANCE_S = 0.1
#: Failures without which a call at once is not a retry: parsing another input again is none.
_TRANSIENT = re.compile(
    r"(Base)?Exception|OSError|IOError|.*(Connect|Timeout|Unavailable|API|HTTP|Request|Server).*"
)
#: Texts in errors of a network or an overloaded server.
_TRANSIENT_TEXT = re.compile(
    r"rate|limit|throttl|429|50\d|time|connect|network|overload|unavailable|busy", re.I
)
#: Names of rounds and waits.
_COUNTER = re.compile(r"attempt|tr(y|ies)|retr|count|delay|wait|time|back_?off", re.IGNORECASE)


def read(node: Rounds, names: Names, scope: ast.AST | None, text: str) -> Loop | None:
    """The retry loop that ``node`` is, or ``None``. ``scope`` is its function, ``text`` that one's source."""
    attempt = next((s for s in flat(node.body) if isinstance(s, ast.Try)), None)
    if not _counts(node, names) or _is_single(node, names, scope):
        return None
    if attempt is None:
        return _read_status_loop(node, names, scope, text)
    if all(always_leaves(handler.body) for handler in attempt.handlers):
        return None
    sleep, in_handler = sleep_between(node, attempt, names)
    if sleep is None:
        return _read_sleepless(node, attempt, names)
    if awaits_a_state(getattr(scope, "name", "")) or _says_it_waits(node, scope):
        return None
    calls = {name_of(call.func) for call in calls_in(attempt.body)} - REPORTS
    if "wait" in calls or calls == {"ping"} or _says_it_polls(node, sleep):
        return None
    # One that sleeps after a round that worked as well waits for something to be done.
    rest = [*attempt.body, *attempt.orelse, *after(node, attempt)]
    if in_handler and first_sleep(rest, names) is not None:
        return None
    if not _leaves(node, attempt, certainly=not in_handler) or _moves_on(attempt):
        return None
    retried = _retried(attempt, names)
    if any(map(_awaits_a_state, attempt.handlers)):
        return None
    if retried and all(name in EXPECTED or NOT_THERE.search(name) for name in retried):
        return None
    scope = node if scope is None else scope
    loop = _loop(node, attempt, retried)
    loop.waits = kind_of_wait(sleep, names, scope)
    pause = names.value(sleep.args[0])
    if loop.bounded and isinstance(pause, (int, float)) and 0 < pause < _GLANCE_S:
        return None
    loop.odd_chance = odd_chance(sleep, names, scope)
    loop.uncapped = is_uncapped(node, sleep, names)
    awaited = any(isinstance(inner, ast.Await) and inner.value is sleep for inner in walk(node.body))
    is_time_sleep = names.dotted(sleep.func) == "time.sleep" and not awaited
    loop.blocking = isinstance(scope, ast.AsyncFunctionDef) and is_time_sleep
    if loop.waits is not None:
        loop.hints = too_many.in_loop(node, attempt, retried, text)
    loop.places = {"waits": Place.of(sleep), "blocking": Place.of(sleep)}
    broad = [h for h in attempt.handlers if h.type is None or "BaseException" in _caught(h, names)]
    if broad:
        loop.places["catches"] = Place.of(broad[0])
    return loop


def _loop(node: Rounds, attempt: ast.Try, retried: tuple[str, ...]) -> Loop:
    loop = Loop("by hand", "loop", Place.of(node), by_hand=True)
    # A connection that is kept for ever, with a loop of its own, is made again for ever.
    keeps = any(isinstance(inner, ast.While) for inner in walk(attempt.body))
    loop.bounded = _bounded(node, attempt) or (None if keeps else False)
    loop.catches = retried
    loop.filtered = any(map(_asks_about_its_error, attempt.handlers))
    loop.body = attempt.body
    return loop


def _asks_about_its_error(handler: ast.ExceptHandler) -> bool:
    """Return True if a condition or a function in ``handler`` looks at the error: not each one is retried."""
    tests: list[ast.AST] = [inner.test for inner in walk(handler.body) if isinstance(inner, ast.If)]
    calls = [call for call in calls_in(handler.body) if not _only_reports(call)]
    return handler.name is not None and handler.name in loaded_in([*tests, *calls])


def _read_sleepless(node: Rounds, attempt: ast.Try, names: Names) -> Loop | None:
    """A loop that makes the same call again at once."""
    caught = _retried(attempt, names)
    # Each try that ends in a timeout has waited already.
    timed_out = bool(caught) and all("Timeout" in name for name in caught)
    if timed_out or not all(map(_TRANSIENT.fullmatch, caught)) or not _leaves(node, attempt, certainly=True):
        return None
    if not calls_in(attempt.body) or any(
        isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(attempt.body)
    ):
        return None
    # Another argument each time, or something set right in between, makes it another call.
    outside = [s for s in node.body if s is not attempt]
    changed = [*attempt.handlers, *outside, *([node.target] if isinstance(node, ast.For) else [])]
    acting = [call for handler in attempt.handlers for call in calls_in(handler.body)]
    goes_through = isinstance(node, ast.While) and bool(calls_in([node.test]))
    if outside or goes_through or loaded_in(attempt.body) & stored_in(changed):
        return None
    if not all(map(_only_reports, acting)):
        return None
    loop = _loop(node, attempt, caught)
    loop.waits = "none"
    return loop


def _only_reports(call: ast.Call) -> bool:
    """Return True if ``call`` in a handler logs, prints or makes an exception, and so sets nothing right."""
    name = name_of(call.func)
    return name in REPORTS or name[:1].isupper()


def _read_status_loop(node: Rounds, names: Names, scope: ast.AST | None, text: str) -> Loop | None:
    """``for ...: response = get(); if response.status_code == 200: return response; sleep(1)``.

    One that sleeps before it asks polls, unless it looks at a bad status as well, or speaks of retries.
    """
    if awaits_a_state(getattr(scope, "name", "")) or _says_it_waits(node, scope):
        return None
    sleep = first_sleep(node.body, names)
    exits = [s for s in flat(node.body) if isinstance(s, ast.If) and any(map(ends, s.body))]
    # If a bad status leaves the loop, or a good one may stay, it waits for the content of a good one.
    stays = [s.test for s in exits if always_leaves(s.body) and not always_leaves(s.orelse)]
    if sleep is None or not any(is_not_200(test, ast.Eq) for test in stays if isinstance(test, ast.Compare)):
        return None
    loop = Loop("by hand", "loop", Place.of(node), by_hand=True)
    loop.bounded = not _is_endless(node) or any(isinstance(inner, ast.Raise) for inner in walk(node.body))
    loop.waits = kind_of_wait(sleep, names, scope)
    loop.places = {"waits": Place.of(sleep)}
    compared = [n for n in walk(node.body) if isinstance(n, ast.Compare) and looks_at_status(n)]
    loop.any_status = len(compared) == 1
    statuses = {n.value for test in compared for n in ast.walk(test) if isinstance(n, ast.Constant)}
    looks_at_errors = any(isinstance(status, int) and status >= _FIRST_ERROR for status in statuses)
    sleeps_first = all(sleep.lineno < test.lineno for test in compared)
    if statuses & _PENDING or (sleeps_first and not (looks_at_errors or _RETRIES.search(text))):
        return None
    loop.body = node.body
    return loop


def read_recursion(function: Function, names: Names) -> Loop | None:
    """The retry that ``function`` is if a handler in it calls it again, or ``None``."""
    itself = {(function.owner, function.name): function}
    for attempt in (n for n in walk(function.node.body) if isinstance(n, ast.Try)):
        for handler in attempt.handlers:
            again = [call for call in calls_in(handler.body) if called_function(call, function, itself)]
            caught = _caught(handler, names)
            if not again or not all(map(_TRANSIENT.fullmatch, caught)):
                continue
            sleep = first_sleep(handler.body, names)
            others = [call for call in calls_in(handler.body) if call not in again]
            if sleep is None and not (
                _same_arguments(function, again[0]) and all(map(_only_reports, others))
            ):
                return None
            if function.awaits_a_state:
                return None
            loop = Loop("by hand", "recursion", Place.of(again[0]), by_hand=True)
            loop.bounded = any(isinstance(n, (ast.BinOp, ast.If)) for n in walk(handler.body))
            loop.waits = "none" if sleep is None else kind_of_wait(sleep, names, function.node)
            loop.catches = caught
            loop.body = attempt.body
            loop.function = function
            return loop
    return None


def _same_arguments(function: Function, call: ast.Call) -> bool:
    """Return True if ``call`` passes on nothing but the function's own parameters and counts of them."""
    spec = function.node.args
    own = {arg.arg for arg in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]}
    own |= {arg.arg for arg in (spec.vararg, spec.kwarg) if arg is not None}
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    mentioned = {n.id for value in given for n in ast.walk(value) if isinstance(n, ast.Name)}
    plain = all(isinstance(v, (ast.Name, ast.Starred, ast.BinOp)) for v in given)
    return plain and mentioned <= own


def _counts(node: Rounds, names: Names) -> bool:
    """Return True if the loop counts rounds, rather than going through things or waiting for a time."""
    head: ast.expr = node.test if isinstance(node, ast.While) else node.iter
    compared = [inner for inner in walk(node.body) if isinstance(inner, ast.Compare)]
    calls = [call for s in walk(node.body) if isinstance(s, ast.If) for call in calls_in([s.test])]
    if any(_reads_time(inner, names) for part in [head, *compared] for inner in ast.walk(part)):
        return False
    if any(_TIMED_OUT.search(name_of(call.func)) for call in calls):
        return False
    if isinstance(node, ast.While):
        return True
    source = names.follow(node.iter)
    if isinstance(source, ast.Call):
        return names.dotted(source.func) in ("range", "itertools.count")
    return isinstance(source, (ast.List, ast.Tuple)) and all(
        isinstance(item, ast.Constant) and isinstance(item.value, (int, float)) for item in source.elts
    )


def _is_single(node: Rounds, names: Names, scope: ast.AST | None) -> bool:
    """Return True if the loop has one round at most: ``for _ in range(1)``."""
    if isinstance(node, ast.While) or not isinstance(node.iter, ast.Call) or len(node.iter.args) != 1:
        return False
    limit = node.iter.args[0]
    amounts = assigned_to(limit, scope) if isinstance(limit, ast.Name) else []
    values = [amount.value for amount in amounts if isinstance(amount, ast.Constant)] or [names.value(limit)]
    return len(amounts) <= 1 and values[0] in (0, 1)


def _reads_time(node: ast.AST, names: Names) -> bool:
    if isinstance(node, (ast.Name, ast.Attribute)) and _TIMED.search(name_of(node)):
        return True
    return isinstance(node, ast.Call) and names.dotted(node.func) in _CLOCKS


def _moves_on(attempt: ast.Try) -> bool:
    """Return True if a handler counts on what is asked for, such as a page: the next call is another one."""
    given = [v for call in calls_in(attempt.body) for v in (*call.args, *(k.value for k in call.keywords))]
    loaded = {name_of(inner) for value in given for inner in ast.walk(value)} - {""}
    handled = [s for handler in attempt.handlers for s in handler.body]
    added = [s for s in walk(handled) if isinstance(s, ast.AugAssign) and isinstance(s.op, ast.Add)]
    return any(name_of(s.target) in loaded and not _COUNTER.search(name_of(s.target)) for s in added)


def _leaves(node: Rounds, attempt: ast.Try, *, certainly: bool) -> bool:
    """Return True if a round that works ends the loop; ``certainly``: without any condition."""
    body = [*attempt.body, *attempt.orelse]
    if certainly:
        return any(isinstance(s, (ast.Return, ast.Break)) for s in flat(body))
    # A loop that may end before its work is done, and goes on when it is, has more work: it is not a retry.
    # One that ends when a question has the right answer is a poll.
    lasts = [s for s in (last_acting(body), last_acting(after(node, attempt))) if s is not None]
    return any(ends(s) and not (isinstance(s, ast.If) and calls_in([s.test])) for s in lasts)


def _awaits_a_state(handler: ast.ExceptHandler) -> bool:
    """Return True if ``handler`` goes on only for a text or a status that is not about the network."""
    if _goes_on_for_a_state(handler):
        return True
    about = {handler.name}
    for inner in (s for s in handler.body if isinstance(s, ast.Assign)):
        if about & loaded_in([inner.value]):
            about |= {name_of(target) for target in inner.targets}
    compared = [
        inner
        for inner in walk(handler.body)
        if isinstance(inner, ast.Compare)
        and isinstance(inner.ops[0], (ast.In, ast.Eq, ast.NotEq))
        and about & loaded_in([inner])
    ]
    calls = [c for c in calls_in(handler.body) if name_of(c.func) == "startswith" and about & loaded_in([c])]
    sides = [side for inner in compared for side in (inner.left, *inner.comparators)]
    sides += [side for call in calls for side in call.args]
    texts = [side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str)]
    return bool(texts) and not any(map(_TRANSIENT_TEXT.search, texts))


def _goes_on_for_a_state(handler: ast.ExceptHandler) -> bool:
    """``if error.status != 412: raise``."""
    choices = [n for n in walk(handler.body) if isinstance(n, ast.If) and always_leaves(n.body)]
    tests = [n for choice in choices for n in ast.walk(choice.test) if isinstance(n, ast.Compare)]
    spared = [
        inner.value
        for test in tests
        if isinstance(test.ops[0], (ast.NotEq, ast.NotIn))
        for inner in ast.walk(test)
        if isinstance(inner, ast.Constant) and type(inner.value) is int
    ]
    return bool(spared) and set(spared) <= _STATES


def _says_it_polls(node: Rounds, sleep: ast.Call) -> bool:
    """Return True if the name of its limit or of its pause says that the loop polls."""
    head: ast.expr = node.test if isinstance(node, ast.While) else node.iter
    named = [name_of(inner) for part in (head, *sleep.args) for inner in ast.walk(part)]
    return any(word.startswith("poll") for name in named for word in words_of(name))


def _says_it_waits(node: Rounds, scope: ast.AST | None) -> bool:
    """Return True if a text in the loop or the docstring of its function says that it waits for something."""
    texts = [n.value for n in walk(node.body) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    # The parts of a text around its placeholders belong together.
    texts += [
        " ".join(str(part.value) if isinstance(part, ast.Constant) else "%" for part in n.values)
        for n in walk(node.body)
        if isinstance(n, ast.JoinedStr)
    ]
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        texts.append(ast.get_docstring(scope) or "")
    return any(map(_WAITING.search, texts))


def _caught(handler: ast.ExceptHandler, names: Names) -> tuple[str, ...]:
    if handler.type is None:
        return ("BaseException",)
    return names.exceptions(handler.type) or ("?",)


def _retried(attempt: ast.Try, names: Names) -> tuple[str, ...]:
    """Return what the loop retries. A handler that lets interrupts pass shields a broad one below it."""
    leaving = [name for h in attempt.handlers if always_leaves(h.body) for name in _caught(h, names)]
    shielded = any(name.rpartition(".")[2] in INTERRUPTS for name in leaving)
    staying = [name for h in attempt.handlers if not always_leaves(h.body) for name in _caught(h, names)]
    return tuple("Exception" if shielded and name == "BaseException" else name for name in staying)


def _bounded(node: Rounds, attempt: ast.Try) -> bool:
    if not _is_endless(node):
        return True
    rest = [*(s for h in attempt.handlers for s in h.body), *(s for s in node.body if s is not attempt)]
    counters = {name_of(inner.target) for inner in walk(node.body) if isinstance(inner, ast.AugAssign)} - {""}
    compared = [inner for inner in walk(rest) if isinstance(inner, ast.Compare)]
    if any(name_of(part) in counters for inner in compared for part in ast.walk(inner)):
        return True
    return any(isinstance(inner, (ast.Raise, ast.Return, ast.Break)) for inner in walk(rest))


def _is_endless(node: Rounds) -> bool:
    """Return True if the head of the loop sets no limit."""
    if isinstance(node, ast.For):
        return isinstance(node.iter, ast.Call) and name_of(node.iter.func) == "count"
    return isinstance(node.test, ast.Constant) and bool(node.test.value)
