"""Checks of the rules. A check yields a place and a message for everything it finds in one retry."""

from __future__ import annotations

import ast
import builtins
import re
from typing import TYPE_CHECKING

from .._primitives.durations import spell
from .findings import Place
from .libraries import GENERAL
from .loops import EXPECTED
from .names import mentions_429
from .remote import words_of
from .statements import calls_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .loops import Function, Loop
    from .source import Module

    Found = Iterator[tuple[Place, str]]

#: Client errors that may pass: SPEC of HTTP retries, and 409 on request.
_MAY_PASS = {408, 409, 425, 429}
_NOT_EXCEPTIONS = {
    "BaseException",
    "KeyboardInterrupt",
    "SystemExit",
    "GeneratorExit",
    "asyncio.CancelledError",
    "asyncio.exceptions.CancelledError",
    "concurrent.futures.CancelledError",
    "trio.Cancelled",
}
#: Raised for every status from 400 on by ``raise_for_status()``.
_STATUS_ERRORS = {
    "requests.HTTPError",
    "requests.exceptions.HTTPError",
    "httpx.HTTPStatusError",
    "urllib.error.HTTPError",
    "aiohttp.ClientResponseError",
    "aiohttp.client_exceptions.ClientResponseError",
    # These cover the above, and much that is worth retrying.
    "Exception",
    "requests.RequestException",
    "requests.exceptions.RequestException",
    "httpx.HTTPError",
    "aiohttp.ClientError",
}
#: What a strategy raises instead of a call.
_REFUSALS = {
    *(f"stormproof.{name}" for name in ("CircuitOpen", "BudgetExhausted", "DeadlineExceeded", "Cancelled")),
    "pybreaker.CircuitBreakerError",
    "circuitbreaker.CircuitBreakerError",
}
#: The server is well: its answer cannot be used, or another writer was faster.
_HEALTHY = re.compile(
    r"incomplete|pars[ei]|validation|decode|schema|empty|malformed|conflict|stale|deadlock|concurrent|integrity|duplicate",
    re.IGNORECASE,
)
#: The server asks for other credentials: a new token is what the next attempt needs, not a wait.
_UNAUTHORIZED = re.compile(
    r"unauthori[sz]ed|authori[sz]ation|authenticat|oauth|login|token|credentials", re.IGNORECASE
)
#: The server has not carried out the request: a 425, a 429, or no connection at all.
_NOT_SERVED = re.compile(r"RateLimit|TooManyRequests|TooEarly|ConnectionRefused|Connect(Error|Timeout)$")
#: Words for a request that must not be carried out twice.
_WRITES = re.compile(
    r"create|pay|payments?|charges?|orders?|send|submit|insert|add|register|publish|write|transfers?|book|buy|"
    r"purchase|invite|notify|notifications?|messages?|emails?|trigger|launch|deploy|users?|invoices?|comments?|"
    r"events?|update"
)
#: So many attempts of one call are no longer a way to ride out a failure.
_MANY = 20
#: So few attempts may double their waits without a maximum.
_FEW = 8
#: Modules whose errors derive from `OSError`.
_SYSTEM_ERRORS = ("requests.", "socket.", "ssl.", "urllib.error.")
#: Errors that others of the same library derive from.
_BASES = {"RequestException", "HTTPError", "ClientError", "TransportError", "APIError", "RpcError", "Error"}
_CLIENTS = re.compile(r"(?:^|[._])(?:client|session|http|requests|httpx)$", re.IGNORECASE)


def no_jitter(loop: Loop, module: Module | None) -> Found:
    if loop.waits == "fixed" and loop.remote and not (loop.by_hand or loop.is_a_poll or _is_healthy(loop)):
        yield loop.at("waits"), f"{loop.label} waits the same time in every caller: no jitter"


def _is_healthy(loop: Loop) -> bool:
    """Return True if the server has answered each failure that is retried, and has not to recover."""
    return bool(loop.catches) and all(
        name in EXPECTED or _HEALTHY.search(name) or _UNAUTHORIZED.search(name) for name in loop.catches or ()
    )


def no_wait(loop: Loop, module: Module | None) -> Found:
    # An answer that cannot be read, such as a language model's, is asked for again, an update is made on
    # the newest state, and a request that was refused is repeated with a new token: no server has to recover.
    # A function that counts on, to the next mirror say, makes another call each time.
    body = [] if loop.function is None else loop.function.node.body
    counted = [statement.target for statement in body if isinstance(statement, ast.AugAssign)]
    moves_on = any(isinstance(target, ast.Attribute) for target in counted)
    if loop.waits == "none" and loop.remote and not loop.by_hand and not _is_healthy(loop) and not moves_on:
        yield loop.at("waits"), f"{loop.label} tries again at once, without any wait"


def unbounded(loop: Loop, module: Module | None) -> Found:
    # A watch of something that runs for hours asks for a new token as often as it must.
    renews = bool(loop.catches) and all(map(_UNAUTHORIZED.search, loop.catches or ()))
    if loop.bounded is False and not loop.by_hand and not renews:
        yield loop.at("bounded"), f"{loop.label} has no limit of attempts or time"


def times(loop: Loop, module: Module | None) -> Found:
    limit = loop.deadline_s
    if limit is None:
        return
    if loop.timeout_s is not None and loop.timeout_s > limit:
        yield (
            loop.at("timeout_s"),
            f"a timeout of {spell(loop.timeout_s)} never acts inside a deadline of {spell(limit)}",
        )
    if loop.first_wait_s is not None and loop.first_wait_s >= limit:
        wait = spell(loop.first_wait_s)
        yield (
            loop.at("waits"),
            f"the first wait, {wait}, ends after the deadline of {spell(limit)}: no retry ever",
        )


def client_errors(loop: Loop, module: Module | None) -> Found:
    wrong = [str(s) for s in loop.statuses or () if 400 <= s < 500 and s not in _MAY_PASS]
    if wrong:
        shown = ", ".join(wrong[:5]) + (", ..." if len(wrong) > 5 else "")
        yield loop.at("statuses"), f"{loop.label} retries {shown}: the same request gets the same answer"
    if loop.any_status:
        about = "the loop" if loop.by_hand else loop.label
        yield loop.place, f"{about} retries every status but 200: a 404 or 401 stays what it is"
    caught = set(loop.catches or ())
    if loop.filtered or module is None or loop.function is None:
        return
    if loop.everything:
        caught.add("Exception")
    if caught & _STATUS_ERRORS and _raises_for_status(loop.function):
        name = min(caught & _STATUS_ERRORS)
        yield loop.at("catches"), f"{name} after raise_for_status() retries every 4xx, 404 included"


def _raises_for_status(function: Function) -> bool:
    """Return True if every bad status is raised: not where the code looks at the status itself."""
    looked_at = any(
        isinstance(inner, ast.Attribute) and inner.attr in ("status_code", "status", "ok", "is_server_error")
        for inner in ast.walk(function.node)
    )
    return not looked_at and any(
        isinstance(c.func, ast.Attribute) and c.func.attr == "raise_for_status" for c in function.calls
    )


def unsafe_method(loop: Loop, module: Module | None) -> Found:
    unsafe = [m for m in loop.methods or () if m in ("POST", "PATCH", "*")]
    maker = "" if loop.maker is None else f"{loop.maker.owner} {loop.maker.name}"
    # A second token does no harm.
    if unsafe and not _UNAUTHORIZED.search(maker):
        what = "every method, POST included," if "*" in unsafe else " and ".join(unsafe)
        yield loop.at("methods"), f"{loop.label} retries {what} without an idempotency key"
    if module is None or loop.function is None or loop.library == "policy file":
        return
    if loop.catches and all(_UNAUTHORIZED.search(n) or _NOT_SERVED.search(n) for n in loop.catches):
        return
    if "idempoten" in module.segment(loop.function.node).lower() or (loop.by_hand and not loop.catches):
        return
    for call in calls_in(loop.body) if loop.by_hand else loop.function.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("post", "patch"):
            target = module.names.dotted(call.func.value)
            if target is not None and _CLIENTS.search(target) and _writes(call, loop.function):
                method = call.func.attr.upper()
                yield Place.of(call), f"{method} is retried without an idempotency key: it may happen twice"


def _writes(call: ast.Call, function: Function) -> bool:
    """Return True if a name or an address says that ``call`` changes something: many a POST is a query."""
    texts = [inner.value for inner in ast.walk(call) if isinstance(inner, ast.Constant)]
    words = words_of(function.name) + [w for text in texts if isinstance(text, str) for w in words_of(text)]
    return any(map(_WRITES.fullmatch, words))


def nested(loop: Loop, module: Module | None) -> Found:
    if module is None or loop.function is None:
        return
    function = loop.function
    layers = _layers(module)
    own = layers.get(id(function), [])
    others = [each for each in own[1:] if _share(loop, each, module)]
    if not loop.by_hand and others and own[0] is loop and not all(_is_ours(each) for each in own):
        yield loop.place, f"{function.name}() is retried by {len(own)} decorators, which multiply"
    for call in calls_in(loop.body) if loop.by_hand else function.calls:
        inner = _called(call, function, module)
        if inner is None or inner is function:
            inner = None
        for layer in layers.get(id(inner), []) if inner is not None else []:
            if inner is not None and not (_is_ours(loop) and _is_ours(layer)) and _share(loop, layer, module):
                inside = "a retry loop" if loop.by_hand else loop.label
                yield (
                    Place.of(call),
                    f"{inner.name}() retries already ({layer.label}): inside {inside} the attempts multiply",
                )
        name = module.names.dotted(call.func) or ""
        client = next((known for known in module.clients if name.startswith(known + ".")), None)
        if client is not None and not (loop.by_hand and loop.filtered) and _retries_clients(loop, module):
            default = module.clients[client]
            yield (
                Place.of(call),
                f"the client {client!r} retries by itself ({default}, by default): attempts multiply",
            )


def _is_ours(loop: Loop) -> bool:
    # Errors that Stormproof has given up on are marked, and an outer Stormproof layer lets them pass.
    return loop.library == "stormproof"


def _retries_all(loop: Loop) -> bool:
    return bool(loop.everything) or not {"Exception", "BaseException"}.isdisjoint(loop.catches or ())


def _retries_clients(loop: Loop, module: Module) -> bool:
    """Return True if ``loop`` retries errors of a library or a system: those of its module may be others."""
    foreign = {name for name in loop.catches or () if "." in name or hasattr(builtins, name)}
    return module.strict or not loop.catches or bool(foreign - EXPECTED)


def _share(outer: Loop, inner: Loop, module: Module) -> bool:
    """Return True if ``outer`` may retry a failure that ``inner`` has given up on."""
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
        if loop.function is not None and not loop.by_hand and not loop.function.is_generator:
            layers.setdefault(id(loop.function), []).append(loop)
    return layers


def _called(call: ast.Call, within: Function, module: Module) -> Function | None:
    """The function of this module that ``call`` calls: by its name, or as ``self.name`` of the same class."""
    func = call.func
    if isinstance(func, ast.Name):
        return module.functions.get((None, func.id))
    if (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and func.value.id in ("self", "cls")
    ):
        return module.functions.get((within.owner, func.attr))
    return None


def budget(loop: Loop, module: Module | None) -> Found:
    messages = {
        "none": "has no budget: in an outage it multiplies the load by its attempts",
        "loose": "has a budget that pays for a retry of every call: it bounds nothing",
        "tight": "has a budget whose burst is below 1: it can never pay for a first retry",
    }
    if loop.budget in messages:
        yield loop.at("budget"), f"{loop.label} {messages[loop.budget]}"


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
        yield loop.place, f"{what}{how}, with {' and '.join(lacking)}"


def cancellation(loop: Loop, module: Module | None) -> Found:
    wrong = sorted(set(loop.catches or ()) & _NOT_EXCEPTIONS)
    if wrong and not (loop.by_hand and loop.filtered):
        how = "catches" if loop.by_hand else "retries"
        yield (
            loop.at("catches"),
            f"{loop.label} {how} {', '.join(wrong)}: cancelling and Ctrl-C no longer end it",
        )


def hints(loop: Loop, module: Module | None) -> Found:
    if loop.hints == "shortened":
        yield loop.at("hints"), f"{loop.label} draws a shorter wait than the server's Retry-After asks for"
    elif loop.hints is None and _ignores_hints(loop, module):
        yield loop.place, f"{loop.label} retries 429 without regard to the server's Retry-After"
    elif loop.hints == "ignored":
        about = "429 is retried" if loop.by_hand else f"{loop.label} retries"
        yield loop.at("hints"), f"{about} without regard to the server's Retry-After"


def _ignores_hints(loop: Loop, module: Module | None) -> bool:
    """Return True if a function that a library retries looks at 429 and never at ``Retry-After``."""
    if module is None or loop.function is None or loop.by_hand or loop.library not in GENERAL:
        return False
    if loop.waits is None:
        return False
    text = module.segment(loop.function.node)
    hinted = re.search(r"retry.?after|wait_hinted|wait_exception|runtime", text, re.IGNORECASE)
    return mentions_429(loop.function.node) and hinted is None


def many_attempts(loop: Loop, module: Module | None) -> Found:
    if (
        loop.attempts is not None
        and loop.attempts >= _MANY
        and loop.remote
        and not (loop.by_hand or loop.is_a_poll)
    ):
        yield loop.at("bounded"), f"{loop.label} allows {loop.attempts} attempts of one call"


def uncapped(loop: Loop, module: Module | None) -> Found:
    if loop.uncapped and loop.remote and (loop.by_hand or (loop.attempts or 0) > _FEW):
        about = "the wait of this loop" if loop.by_hand else f"the wait of {loop.label}"
        yield (
            loop.at("uncapped" if "uncapped" in loop.places else "waits"),
            f"{about} doubles without a maximum",
        )


def odd_jitter(loop: Loop, module: Module | None) -> Found:
    why = {
        "gauss": "a normal distribution can be negative, which time.sleep refuses, and has no maximum",
        "expovariate": "an exponential distribution has no maximum",
        "SystemRandom": "SystemRandom asks the operating system for each draw; random.uniform is enough",
        "secrets": "secrets asks the operating system for each draw; random.uniform is enough",
    }
    if loop.odd_chance is not None and loop.remote:
        yield loop.at("waits"), f"jitter by {loop.odd_chance}: {why[loop.odd_chance]}"


def refusals(loop: Loop, module: Module | None) -> Found:
    wrong = sorted(set(loop.catches or ()) & _REFUSALS)
    if wrong:
        yield (
            loop.at("catches"),
            f"{loop.label} retries {', '.join(wrong)}: a refusal that says not to call now",
        )


def per_call(loop: Loop, module: Module | None) -> Found:
    if loop.per_call:
        yield loop.place, f"{loop.label} is made in each call: its budget and its state last one call"


def everything(loop: Loop, module: Module | None) -> Found:
    if loop.everything:
        yield loop.at("catches"), f"{loop.label} retries every Exception, TypeError and KeyError included"


def blocking(loop: Loop, module: Module | None) -> Found:
    if loop.blocking:
        yield loop.at("blocking"), "time.sleep in an async function stops the whole event loop while it waits"


def no_timeout(loop: Loop, module: Module | None) -> Found:
    if loop.unbounded_attempt:
        yield (
            loop.place,
            f"{loop.label} has neither timeout nor deadline: an attempt that hangs is never retried",
        )


def order(loop: Loop, module: Module | None) -> Found:
    for doubt in loop.doubts:
        yield loop.place, f"{loop.label}: {doubt}"
