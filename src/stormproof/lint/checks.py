"""Checks of the rules. A check yields a place and a message for everything it finds in one retry."""

from __future__ import annotations

import ast
import builtins
import re
from typing import TYPE_CHECKING

from .._primitives.durations import spell
from .findings import Place
from .libraries import GENERAL
from .loops import EXPECTED, UNAUTHORIZED, called_function
from .sdks import sends
from .statements import calls_in, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .loops import Loop
    from .source import Module

    #: What a check yields: a place, or the name of one in `Loop.places`, and a message.
    Found = Iterator[tuple[Place | str, str]]

_NOT_EXCEPTIONS = {
    *("BaseException", "KeyboardInterrupt", "SystemExit", "GeneratorExit", "trio.Cancelled"),
    *(f"{home}.CancelledError" for home in ("asyncio", "asyncio.exceptions", "concurrent.futures")),
}
#: What a strategy raises instead of a call.
_REFUSALS = {
    *(f"stormproof.{name}" for name in ("CircuitOpen", "BudgetExhausted", "DeadlineExceeded", "Cancelled")),
    "pybreaker.CircuitBreakerError",
    "circuitbreaker.CircuitBreakerError",
}
#: The server is well: its answer cannot be used, or another writer was faster.
_HEALTHY = re.compile(
    r"incomplete|pars[ei]|validation|decode|schema|empty|malformed|conflict|stale|deadlock|concurrent|integrity|duplicate|programming",
    re.IGNORECASE,
)
#: Names of conditions that wait for a state.
_UNFINISHED = re.compile(
    r"not_?(finished|ready|found|done|complete|available)|pending|in_?progress|running", re.IGNORECASE
)
#: Errors of a kept connection that the server has closed.
_CLOSED = re.compile(r"RemoteProtocolError|RemoteDisconnected|ServerDisconnected")
#: From this number of attempts on, a loop does not just ride out a failure.
_MANY = 20
#: So few attempts may double their waits without a maximum.
_FEW = 8
#: Modules whose errors derive from `OSError`.
_SYSTEM_ERRORS = ("requests.", "socket.", "ssl.", "urllib.error.")
#: Errors that others of the same library derive from.
_BASES = {"RequestException", "HTTPError", "ClientError", "TransportError", "APIError", "RpcError", "Error"}


def no_jitter(loop: Loop, module: Module | None) -> Found:
    if loop.waits == "fixed" and loop.remote and not (loop.by_hand or loop.is_a_poll or _is_healthy(loop)):
        yield "waits", f"{loop.label} waits the same time in every caller: no jitter"


def _is_healthy(loop: Loop) -> bool:
    """Return True if the server has answered each failure that is retried, and has not to recover."""
    if not loop.catches:
        meanings = (_HEALTHY, UNAUTHORIZED, _UNFINISHED)
        return any(meaning.search(name) for name in loop.condition for meaning in meanings)
    return all(
        name in EXPECTED or _HEALTHY.search(name) or UNAUTHORIZED.search(name) for name in loop.catches
    )


def no_wait(loop: Loop, module: Module | None) -> Found:
    # An answer that cannot be read, such as a language model's, is asked for again, an update is made on
    # the newest state, and a request that was refused is repeated with a new token: no server has to recover.
    # A function that counts on, to the next mirror say, makes another call each time.
    body = [] if loop.function is None else loop.function.node.body
    counters = [statement.target for statement in body if isinstance(statement, ast.AugAssign)]
    moves_on = any(isinstance(target, ast.Attribute) for target in counters)
    # A connection that the server has closed while nothing was sent is replaced at once.
    spared = loop.by_hand or _is_healthy(loop) or moves_on or loop.retries_only(_CLOSED)
    if loop.waits == "none" and loop.remote and not spared:
        yield "waits", f"{loop.label} tries again at once, without any wait"


def unbounded(loop: Loop, module: Module | None) -> Found:
    # A watch of something that runs for hours asks for a new token as often as it must.
    certain = loop.remote or (module is not None and module.strict)
    spared = loop.by_hand or loop.is_a_poll or loop.retries_only(UNAUTHORIZED)
    if loop.bounded is False and certain and not spared:
        yield "bounded", f"{loop.label} has no limit of attempts or time"


def times(loop: Loop, module: Module | None) -> Found:
    limit = loop.deadline_s
    if limit is None:
        return
    if loop.timeout_s is not None and loop.timeout_s > limit:
        timeout = spell(loop.timeout_s)
        yield "timeout_s", f"a timeout of {timeout} never acts inside a deadline of {spell(limit)}"
    if loop.first_wait_s is not None and loop.first_wait_s >= limit:
        wait = spell(loop.first_wait_s)
        yield "waits", f"the first wait, {wait}, ends after the deadline of {spell(limit)}: no retry ever"


def nested(loop: Loop, module: Module | None) -> Found:
    if module is None or loop.function is None:
        return
    function = loop.function
    layers = _layers(module)
    own = layers.get(id(function), [])
    others = [each for each in own[1:] if _share(loop, each, module)]
    if not loop.by_hand and others and own[0] is loop and not all(_is_ours(each) for each in own):
        yield "", f"{function.name}() is retried by {len(own)} decorators, which multiply"
    body = loop.body if loop.by_hand else function.node.body
    handled = [inner for node in walk(body) if isinstance(node, ast.Try) for inner in node.body]
    unsure = {id(call) for call in calls_in(handled)} if not module.strict else set()
    inside = "a retry loop" if loop.by_hand else loop.label
    for call in calls_in(body):
        inner = called_function(call, function, module.functions)
        known = inner is not None and inner is not function and id(call) not in unsure
        for layer in layers.get(id(inner), []) if known else []:
            if not (_is_ours(loop) and _is_ours(layer)) and _share(loop, layer, module):
                again = f"{layer.function.name}() retries already ({layer.label})" if layer.function else ""
                yield Place.of(call), f"{again}: inside {inside} the attempts multiply"
        name = module.names.dotted(call.func) or ""
        client = module.client_of(name, function)
        if client is None or not sends(name.removeprefix(client[0] + ".")):
            continue
        certain = module.strict or (loop.remote and id(call) not in unsure)
        if certain and not (loop.by_hand and loop.filtered) and _retries_clients(loop, module):
            yield (
                Place.of(call),
                f"the client {client[0]!r} retries by itself ({client[1]}, by default): attempts multiply",
            )


def _is_ours(loop: Loop) -> bool:
    # Errors that Stormproof has given up on are marked, and an outer Stormproof layer lets them pass.
    return loop.library == "stormproof"


def _retries_all(loop: Loop) -> bool:
    return bool(loop.everything) or not {"Exception", "BaseException"}.isdisjoint(loop.catches or ())


def _retries_clients(loop: Loop, module: Module) -> bool:
    """Return True if ``loop`` retries errors of a library or a system: those of its module may be others."""
    foreign = {name for name in loop.catches or () if "." in name or hasattr(builtins, name)}
    if loop.catches == () or _is_healthy(loop):
        return False
    return module.strict or not loop.catches or bool(foreign - EXPECTED)


def _share(outer: Loop, inner: Loop, module: Module) -> bool:
    """Return True if ``outer`` may retry a failure of a server that ``inner`` has given up on."""
    if not module.strict and (_is_healthy(outer) or not inner.remote):
        return False
    if inner.raises is not None:
        wide = {"Exception", "BaseException", *inner.raises}
        return bool(outer.everything) or not wide.isdisjoint(outer.catches or ())
    if _retries_all(outer) and not outer.filtered:
        return True
    if not outer.catches or not inner.catches or outer.filtered or inner.filtered:
        return module.strict
    pairs = [(wide, narrow) for wide in outer.catches for narrow in inner.catches]
    return any(_covers(wide, narrow, guesses=module.strict) for wide, narrow in pairs)


def _covers(wide: str, narrow: str, *, guesses: bool) -> bool:
    """Return True if ``wide`` is ``narrow`` or a base class of it, as far as their names show."""
    if wide == narrow:
        return True
    base, derived = getattr(builtins, wide, None), getattr(builtins, narrow, None)
    if isinstance(base, type) and isinstance(derived, type):
        return issubclass(derived, base)
    # A class that others derive from is called so; one named after a single failure is not.
    if wide in ("OSError", "IOError") and narrow.startswith(_SYSTEM_ERRORS):
        return True
    home, _, last = wide.rpartition(".")
    if guesses:
        return last.endswith(("Error", "Exception"))
    return last in _BASES and home.partition(".")[0] == narrow.partition(".")[0]


def _layers(module: Module) -> dict[int, list[Loop]]:
    """The decorating retries of each function, by its identity."""
    layers: dict[int, list[Loop]] = {}
    for loop in module.loops:
        if loop.function is not None and not loop.by_hand:
            layers.setdefault(id(loop.function), []).append(loop)
    return layers


def budget(loop: Loop, module: Module | None) -> Found:
    messages = {
        "none": "has no budget: in an outage it multiplies the load by its attempts",
        "loose": "has a budget that pays for a retry of every call: it bounds nothing",
        "tight": "has a budget whose burst is below 1: it can never pay for a first retry",
    }
    if loop.budget in messages:
        yield "budget", f"{loop.label} {messages[loop.budget]}"


def by_hand(loop: Loop, module: Module | None) -> Found:
    lacking = [
        word
        for word, lacks in (
            ("no limit", loop.bounded is False),
            ("no jitter", loop.waits == "fixed"),
            ("no wait", loop.waits == "none"),
        )
        if lacks
    ]
    if loop.by_hand and loop.remote and lacking:
        what = "a function that retries by calling itself" if loop.label == "recursion" else "a retry loop"
        how = "" if loop.label == "recursion" else " written by hand"
        yield "", f"{what}{how}, with {' and '.join(lacking)}"


def cancellation(loop: Loop, module: Module | None) -> Found:
    wrong = sorted(set(loop.catches or ()) & _NOT_EXCEPTIONS)
    if wrong and not (loop.by_hand and loop.filtered):
        how = "catches" if loop.by_hand else "retries"
        yield "catches", f"{loop.label} {how} {', '.join(wrong)}: cancelling and Ctrl-C no longer end it"


def hints(loop: Loop, module: Module | None) -> Found:
    if loop.hints == "shortened":
        yield "hints", f"{loop.label} draws a shorter wait than the server's Retry-After asks for"
    elif loop.hints == "ignored" or (loop.hints == "unread" and module is not None and module.strict):
        about = f"{loop.label} retries" if loop.library not in ("by hand", *GENERAL) else "429 is retried"
        yield "hints", f"{about} without regard to the server's Retry-After"


def many_attempts(loop: Loop, module: Module | None) -> Found:
    if (
        loop.attempts is not None
        and loop.attempts >= _MANY
        and loop.remote
        and not (loop.by_hand or loop.is_a_poll)
    ):
        yield "bounded", f"{loop.label} allows {loop.attempts} attempts of one call"


def uncapped(loop: Loop, module: Module | None) -> Found:
    if loop.uncapped and loop.remote and (loop.by_hand or (loop.attempts or 0) > _FEW):
        about = "the wait of this loop" if loop.by_hand else f"the wait of {loop.label}"
        at = "uncapped" if "uncapped" in loop.places else "waits"
        yield at, f"{about} doubles without a maximum"


def odd_jitter(loop: Loop, module: Module | None) -> Found:
    why = {
        "gauss": "a normal distribution can be negative, which time.sleep refuses, and has no maximum",
        "expovariate": "an exponential distribution has no maximum",
        "SystemRandom": "SystemRandom asks the operating system for each draw; random.uniform is enough",
        "secrets": "secrets asks the operating system for each draw; random.uniform is enough",
    }
    if loop.odd_chance is not None and loop.remote:
        yield "waits", f"jitter by {loop.odd_chance}: {why[loop.odd_chance]}"


def refusals(loop: Loop, module: Module | None) -> Found:
    wrong = sorted(set(loop.catches or ()) & _REFUSALS)
    if wrong:
        yield "catches", f"{loop.label} retries {', '.join(wrong)}: a refusal that says not to call now"


def per_call(loop: Loop, module: Module | None) -> Found:
    if loop.per_call:
        yield "", f"{loop.label} is made in each call: its budget and its state last one call"


def everything(loop: Loop, module: Module | None) -> Found:
    if loop.everything:
        yield "catches", f"{loop.label} retries every Exception, TypeError and KeyError included"


def blocking(loop: Loop, module: Module | None) -> Found:
    if loop.blocking:
        yield "blocking", "time.sleep in an async function stops the whole event loop while it waits"


def no_timeout(loop: Loop, module: Module | None) -> Found:
    if loop.unbounded_attempt:
        yield "", f"{loop.label} has neither timeout nor deadline: an attempt that hangs is never retried"


def order(loop: Loop, module: Module | None) -> Found:
    for warning in loop.warnings:
        yield "", f"{loop.label}: {warning}"
