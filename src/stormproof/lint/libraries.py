"""Readers of retry decorators: tenacity, backoff, stamina, retry, retrying."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .findings import Place
from .loops import INTERRUPTS, Loop
from .names import UNKNOWN, Use
from .statements import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Reader = Callable[[Use, str], Loop | None]

_TENACITY_JITTER = {"wait_random", "wait_random_exponential", "wait_full_jitter", "wait_exponential_jitter"}
_TENACITY_FIXED = {"wait_fixed", "wait_exponential", "wait_incrementing"}
#: A dotted name of an exception: what ``self.ignored`` or a parameter holds is unknown.
_IS_A_CLASS = re.compile(r"(?!self\.|cls\.)(.*\.)?_?[A-Z]\w*$|socket\.(timeout|error)$")
#: Number of attempts at even intervals from which a loop is a poll.
_MANY_LOOKS = 20
_BACKOFF_SCHEDULES = {"backoff.expo", "backoff.fibo", "backoff.constant"}
#: They only put others together.
_TENACITY_GLUE = {"wait_chain", "wait_combine"}


def _loop(use: Use, label: str, library: str, **places: ast.expr | None) -> Loop:
    loop = Loop(library, label, Place.of(use.node))
    loop.places = {name: Place.of(node) for name, node in places.items() if node is not None}
    return loop


def _calls(use: Use, node: ast.expr, home: str) -> Iterator[tuple[str, ast.expr]]:
    """Every name of module ``home`` in ``node``, called or not; "" for names from elsewhere."""
    node = use.names.follow(node)
    if isinstance(node, ast.BinOp):
        yield from _calls(use, node.left, home)
        yield from _calls(use, node.right, home)
        return
    func = node.func if isinstance(node, ast.Call) else node
    name = use.names.dotted(func)
    if name is None or not name.startswith(home + "."):
        yield "", node
        return
    last = name.rpartition(".")[2]
    yield last, node
    if isinstance(node, ast.Call) and (last in _TENACITY_GLUE or last in ("retry_any", "retry_all")):
        for arg in node.args:
            yield from _calls(use, arg.value if isinstance(arg, ast.Starred) else arg, home)


def tenacity(use: Use, label: str) -> Loop | None:
    wait, stop, retry = use.arg("wait"), use.arg("stop"), use.arg("retry")
    if stop is not None and _tenacity_once(use, stop):
        return None
    if retry is not None and use.names.dotted(retry) == "tenacity.retry_never":
        # Only the function itself asks for another attempt, by raising TryAgain.
        return None
    loop = _loop(use, label, "tenacity", waits=wait, bounded=stop, catches=retry)
    if not use.open:
        loop.bounded = False if stop is None else _tenacity_stop(use, stop)
        loop.waits = "none" if wait is None else _tenacity_wait(use, wait)
        loop.everything = retry is None
    loop.attempts = None if stop is None else _tenacity_attempts(use, stop)
    loop.uncapped = wait is not None and _tenacity_uncapped(use, wait)
    # Many looks at even intervals wait for something to start or to end.
    loop.polls = (loop.attempts or 0) >= _MANY_LOOKS and _is_even(use, wait)
    if retry is not None:
        loop.condition = names_in(use.names.follow(retry))
        loop.catches, loop.filtered = _tenacity_catches(use, retry)
        loop.any_status = any(_refuses_all_but_200(node) for _, node in _calls(use, retry, "tenacity"))
        if loop.catches == ():
            # It polls: every attempt is expected to be repeated.
            loop.attempts = None
            loop.polls = loop.polls or not looks_at_status(retry)
    if use.value("reraise", False) is False:
        loop.raises = ("tenacity.RetryError",)
    return loop


def _is_even(use: Use, wait: ast.expr | None) -> bool:
    """Return True if ``wait`` is a ``wait_fixed`` of a second or more."""
    waits = [] if wait is None else list(_calls(use, wait, "tenacity"))
    given = [Use(use.names, node).value("wait", 0, 0) for name, node in waits if name == "wait_fixed"]
    return len(waits) == 1 and all(isinstance(s, (int, float)) and s >= 1 for s in given) and bool(given)


def names_in(node: ast.AST | None) -> tuple[str, ...]:
    """Return every identifier in ``node``."""
    names = [] if node is None else [name_of(inner) for inner in ast.walk(node)]
    return tuple(name for name in names if name)


def _tenacity_attempts(use: Use, stop: ast.expr) -> int | None:
    """Return the most attempts that ``stop`` allows; ``None`` if time ends it first, or if unknown."""
    stops = list(_calls(use, stop, "tenacity"))
    limits = [Use(use.names, n).value("max_attempt_number", UNKNOWN, 0) for k, n in stops if "attempt" in k]
    timed = any("delay" in name or not name for name, _ in stops)
    return limits[0] if len(limits) == 1 and isinstance(limits[0], int) and not timed else None


def _tenacity_uncapped(use: Use, wait: ast.expr) -> bool:
    return any(
        "exponential" in name and Use(use.names, node).value("max", None, 1) is None
        for name, node in _calls(use, wait, "tenacity")
        if isinstance(node, ast.Call)
    )


def looks_at_status(node: ast.AST) -> bool:
    """Return True if ``node`` reads the status of a response."""
    return any(
        isinstance(inner, ast.Attribute) and inner.attr in ("status_code", "status", "ok")
        for inner in ast.walk(node)
    )


def _refuses_all_but_200(node: ast.AST) -> bool:
    """Return True if ``node`` compares a status with 200 and nothing else."""
    compared = [inner for inner in ast.walk(node) if isinstance(inner, ast.Compare)]
    return len(compared) == 1 and is_not_200(compared[0])


def is_not_200(node: ast.Compare, operator: type[ast.cmpop] = ast.NotEq) -> bool:
    """Return True if ``node`` is ``response.status_code != 200``."""
    status = isinstance(node.left, ast.Attribute) and node.left.attr in ("status_code", "status")
    right = node.comparators[0]
    return status and type(node.ops[0]) is operator and isinstance(right, ast.Constant) and right.value == 200


def _tenacity_once(use: Use, stop: ast.expr) -> bool:
    """Return True if it stops after the first attempt: no retry at all."""
    stops = list(_calls(use, stop, "tenacity"))
    return any(
        name == "stop_after_attempt" and Use(use.names, node).value("max_attempt_number", 0, 0) == 1
        for name, node in stops
    )


def _tenacity_stop(use: Use, stop: ast.expr) -> bool | None:
    names = [name for name, _ in _calls(use, stop, "tenacity")]
    if names == ["stop_never"]:
        return False
    return True if any(name.startswith("stop_") and name != "stop_never" for name in names) else None


def _tenacity_wait(use: Use, wait: ast.expr) -> str | None:
    waits = [(name, node) for name, node in _calls(use, wait, "tenacity") if name not in _TENACITY_GLUE]
    names = {name for name, _ in waits}
    if names & _TENACITY_JITTER:
        return "jittered"
    if names and names <= {"wait_none"}:
        return "none"
    if names and names <= _TENACITY_FIXED | {"wait_none"}:
        given = [Use(use.names, node).value("wait", 0, 0) for name, node in waits if name == "wait_fixed"]
        return "none" if given == [0] and len(waits) == 1 else "fixed"
    return None


def _tenacity_catches(use: Use, retry: ast.expr) -> tuple[tuple[str, ...] | None, bool]:
    caught: list[str] = []
    if any(isinstance(inner, ast.BitAnd) for inner in ast.walk(use.names.follow(retry))):
        return None, True
    for name, node in _calls(use, retry, "tenacity"):
        inner = Use(use.names, node)
        if name in ("retry_if_not_exception_type", "retry_unless_exception_type"):
            spared = use.names.exceptions(inner.arg("exception_types", 0))
            if spared is None or not all(map(_IS_A_CLASS.match, spared)):
                return None, True
            # tenacity asks about every BaseException; what is not spared is tried again.
            ends = any(name.rpartition(".")[2] in INTERRUPTS for name in spared)
            caught += ["Exception"] if ends else ["BaseException"]
        elif name == "retry_if_exception_type":
            types = use.names.exceptions(inner.arg("exception_types", 0))
            caught += ["Exception"] if not inner.positional and not inner.keywords else types or []
        elif name == "retry_if_exception":
            return predicate_types(use, inner.arg("predicate", 0)), True
        elif name not in ("retry_any", "retry_all", "retry_if_result", "retry_if_not_result"):
            return None, True
    return tuple(caught), False


def predicate_types(use: Use, predicate: ast.expr | None) -> tuple[str, ...] | None:
    """Return the types in the one ``isinstance`` of a lambda; ``None`` for any other condition."""
    inside = list(ast.walk(predicate)) if isinstance(predicate, ast.Lambda) else []
    tests = [n for n in inside if isinstance(n, ast.Call) and use.names.dotted(n.func) == "isinstance"]
    return use.names.exceptions(tests[0].args[1]) if len(tests) == 1 and len(tests[0].args) == 2 else None


def backoff(use: Use, label: str) -> Loop:
    loop = _loop(use, label, "backoff", waits=use.arg("jitter"), catches=use.arg("exception", 1))
    tries, limit = use.value("max_tries", None), use.value("max_time", None)
    if label.endswith("on_exception"):
        # on_predicate polls; a poll may well have no end.
        loop.bounded = False if tries is None and limit is None else None if use.open else True
        loop.retry_errors(use.names.exceptions(use.arg("exception", 1)))
        # Options from another file may hold a ``giveup``.
        loop.filtered = use.open or "giveup" in use.keywords
        loop.everything = loop.everything and not loop.filtered
        loop.attempts = tries if isinstance(tries, int) and limit is None else None
    maker = use.arg("wait_gen", 0)
    schedule = use.names.dotted(maker)
    if schedule in ("backoff.expo", "backoff.fibo") and limit is None:
        loop.uncapped = use.value("max_value", None) is None
        loop.places["uncapped"] = Place.of(maker) if maker is not None else loop.place
    jitter = use.value("jitter", "full")
    if schedule == "backoff.constant" and use.value("interval", 1) == 0:
        # A handler may wait in its place.
        loop.waits = None if {"on_backoff", "giveup"} & set(use.keywords) else "none"
    elif jitter is None:
        # A schedule of the program's own may be random, or what a server asks for.
        loop.waits = "fixed" if schedule in _BACKOFF_SCHEDULES else None
    elif jitter == "full":
        loop.waits = "jittered"
    if schedule == "backoff.runtime" and (
        jitter == "full" or use.names.dotted(use.arg("jitter")) == "backoff.full_jitter"
    ):
        loop.hints = "shortened"
        loop.places["hints"] = Place.of(maker) if maker is not None else loop.place
    return loop


def stamina(use: Use, label: str) -> Loop:
    first = 0 if label.endswith("retry_context") else None
    caught = use.arg("on", first)
    loop = _loop(use, label, "stamina", waits=use.arg("wait_jitter"), catches=caught)
    loop.bounded = not (use.value("attempts", 10) is None and use.value("timeout", 45.0) is None)
    jitter = use.value("wait_jitter", 1.0)
    loop.waits = None if jitter is UNKNOWN else "fixed" if jitter == 0 else "jittered"
    attempts, timeout = use.value("attempts", 10), use.value("timeout", 45.0)
    loop.attempts = attempts if isinstance(attempts, int) and timeout is None else None
    loop.retry_errors(use.names.exceptions(caught))
    return loop


_RETRY_OPTIONS = {*"exceptions tries delay max_delay backoff jitter logger fargs fkwargs f".split()}


def retry(use: Use, label: str) -> Loop | None:
    """The package ``retry``. A module of that name may be any other: its options decide."""
    if not use.keywords or not set(use.keywords) <= _RETRY_OPTIONS:
        return None
    skipped = 3 if label.endswith("retry_call") else 0
    loop = _loop(
        use, label, "retry", waits=use.arg("delay", 2 + skipped), catches=use.arg("exceptions", skipped)
    )
    tries, delay = use.value("tries", -1, 1 + skipped), use.value("delay", 0, 2 + skipped)
    jitter = use.value("jitter", 0, 5 + skipped)
    loop.bounded = None if tries is UNKNOWN else tries != -1
    if delay == 0 and delay is not UNKNOWN:
        loop.waits = "none"
    elif jitter is not UNKNOWN:
        loop.waits = "fixed" if jitter == 0 else "jittered"
    loop.retry_errors(use.names.exceptions(use.arg("exceptions", skipped)))
    loop.everything = loop.everything or (loop.catches is None and not use.open)
    return loop


def retrying(use: Use, label: str) -> Loop:
    loop = _loop(use, label, "retrying")
    if use.open:
        return loop
    given = set(use.keywords)
    loop.bounded = bool(given & {"stop_max_attempt_number", "stop_max_delay", "stop_func", "stop"})
    growing = {f"wait_{name}" for name in ("exponential_multiplier", "exponential_max", "incrementing_start")}
    if given & {"wait_random_min", "wait_random_max", "wait_jitter_max"}:
        loop.waits = "jittered"
    elif given & {"wait_fixed", *growing}:
        loop.waits = "fixed"
    elif not given & {"wait_func", "wait"}:
        loop.waits = "none"
    loop.everything = not given & {"retry_on_exception", "retry_on_result"}
    loop.polls = given & {"retry_on_exception", "retry_on_result"} == {"retry_on_result"}
    loop.filtered = not loop.everything
    loop.catches = predicate_types(use, use.arg("retry_on_exception"))
    loop.condition = names_in(use.arg("retry_on_exception"))
    return loop


def celery(use: Use, label: str) -> Loop | None:
    """A task that celery queues again: ``@app.task(autoretry_for=...)``."""
    caught = use.arg("autoretry_for")
    if caught is None:
        return None
    loop = _loop(use, label, "celery", catches=caught)
    loop.bounded = use.value("max_retries", 3) is not None
    waits = use.value("retry_backoff", False)
    loop.waits = "jittered" if waits and use.value("retry_jitter", True) is True else None
    loop.retry_errors(use.names.exceptions(caught))
    return loop


#: Libraries that retry any function, on this machine or elsewhere.
GENERAL = {"tenacity", "backoff", "stamina", "retry", "retrying"}
#: Those that see no failure of a generator: a call of one runs nothing yet.
BLIND_TO_GENERATORS = GENERAL - {"stamina"}

READERS: dict[str, Reader] = {
    **dict.fromkeys(("celery.shared_task", "app.task", "celery_app.task", "celery.task"), celery),
    **{
        f"tenacity.{name}": tenacity
        for name in ("retry", "Retrying", "AsyncRetrying", "asyncio.AsyncRetrying")
    },
    **dict.fromkeys(("backoff.on_exception", "backoff.on_predicate"), backoff),
    **dict.fromkeys(("stamina.retry", "stamina.retry_context"), stamina),
    **{f"retry.{name}": retry for name in ("retry", "api.retry", "retry_call", "api.retry_call")},
    "retrying.retry": retrying,
}
