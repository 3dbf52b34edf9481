"""Checks of SP005 and SP006: which requests are retried, and after which answers."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .findings import Place
from .loops import UNAUTHORIZED
from .statements import assigned_to, calls_in, name_of, walk, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .loops import Function, Loop
    from .source import Module

    Found = Iterator[tuple[Place | str, str]]

#: Client errors that stay: to others, such as 403, a server may tie a limit of its own.
_STAY = {400, 401, 402, 404, 405, 406, 410, 411, 414, 415, 422, 451}
#: Client errors that may pass: SPEC of HTTP retries, and 409 on request.
_MAY_PASS = {408, 409, 425, 429}
#: Raised for every status from 400 on by ``raise_for_status()``.
_STATUS_ERRORS = {
    *(f"requests.{home}HTTPError" for home in ("", "exceptions.")),
    *(f"aiohttp.{home}ClientResponseError" for home in ("", "client_exceptions.")),
    *("httpx.HTTPStatusError", "urllib.error.HTTPError"),
    # These cover the above, and much that is worth retrying.
    *(f"requests.{home}RequestException" for home in ("", "exceptions.")),
    *("Exception", "httpx.HTTPError", "aiohttp.ClientError"),
}
#: The server has not carried out the request: a 425, a 429, or no connection at all.
_NOT_SERVED = re.compile(r"RateLimit|TooManyRequests|TooEarly|ConnectionRefused|Connect(Error|Timeout)$")
#: Words for a request that must not be carried out twice.
_WRITES = re.compile(
    r"create|pay|payments?|charges?|orders?|insert|publish|transfers?|book|buy|purchase|invite|notify|trigger|"
    r"launch|deploy"
)
#: Words that say so only beside the name of a thing: every request is sent.
_MAY_WRITE = re.compile(r"send|submit|add|register|write|update")
#: Names of what a POST may make or ask for.
_THINGS = re.compile(
    r"notifications?|messages?|emails?|mail|sms|users?|invoices?|comments?|events?|jobs?|tasks?|transactions?"
)
#: Words for a POST that asks for something, or that may come twice.
_QUERIES = re.compile(
    r"query|queries|search|list|get|fetch|find|filter|lookup|read|count|check|validate|verify|graphql|token|auth|"
    r"oauth|login|session|connection|generate|predict|embed|embeddings?|completions?|chat|rerank|infer|translate|"
    r"batch|heart|heartbeat|beat|ping|alive|keepalive|health|status|refresh|renew|llms?|model|prompt"
)
#: Largest number of assignments followed from a request to its address.
_STEPS = 2
_CLIENTS = re.compile(r"(?:^|[._])(?:client|session|http|requests|httpx)$", re.IGNORECASE)


def client_errors(loop: Loop, module: Module | None) -> Found:
    guesses = module is not None and module.strict
    wrong = [
        str(s)
        for s in loop.statuses or ()
        if s in _STAY or (guesses and 400 <= s < 500 and s not in _MAY_PASS)
    ]
    if wrong:
        shown = ", ".join(wrong[:5]) + (", ..." if len(wrong) > 5 else "")
        yield "statuses", f"{loop.label} retries {shown}: the same request gets the same answer"
    if loop.any_status:
        about = "the loop" if loop.by_hand else loop.label
        yield "", f"{about} retries every status but 200: a 404 or 401 stays what it is"
    caught = set(loop.catches or ())
    if loop.filtered or module is None or loop.function is None:
        return
    if loop.everything:
        caught.add("Exception")
    if caught & _STATUS_ERRORS and _raises_for_status(loop.function, loop.body or loop.function.node.body):
        name = min(caught & _STATUS_ERRORS)
        yield "catches", f"{name} after raise_for_status() retries every 4xx, 404 included"


def _raises_for_status(function: Function, body: Sequence[ast.AST]) -> bool:
    """Return True if every bad status leaves ``body``: not where it is looked at or handled."""
    looked_at = any(
        isinstance(inner, ast.Attribute) and inner.attr in ("status_code", "status", "ok", "is_server_error")
        for inner in ast.walk(function.node)
    )
    tried = [inner for node in walk(body) if isinstance(node, ast.Try) for inner in node.body]
    blocks = [node for node in walk(body) if isinstance(node, (ast.With, ast.AsyncWith))]
    suppressed = [inner for node in blocks if _suppresses(node) for inner in node.body]
    inside = {id(call) for call in calls_in([*tried, *suppressed])}
    raising = [call for call in calls_in(body) if name_of(call.func) == "raise_for_status"]
    return not looked_at and any(id(call) not in inside for call in raising)


def _suppresses(block: ast.With | ast.AsyncWith) -> bool:
    return any(name_of(call.func) == "suppress" for call in calls_in([i.context_expr for i in block.items]))


def unsafe_method(loop: Loop, module: Module | None) -> Found:
    unsafe = [m for m in loop.methods or () if m in ("POST", "PATCH", "*")]
    maker = "" if loop.maker is None else f"{loop.maker.owner} {loop.maker.name}"
    # A second token does no harm.
    if unsafe and not UNAUTHORIZED.search(maker) and (module is None or _posts_writes(loop, module)):
        what = "every method, POST included," if "*" in unsafe else " and ".join(unsafe)
        yield "methods", f"{loop.label} retries {what} without an idempotency key"
    if module is None or loop.function is None or loop.library == "policy file":
        return
    if loop.retries_only(UNAUTHORIZED, _NOT_SERVED):
        return
    # What a condition says of an error that came after the request was sent, its name does not show.
    if loop.catches is None and not loop.everything and not module.strict:
        return
    if "idempoten" in module.segment(loop.function.node).lower() or (loop.by_hand and not loop.catches):
        return
    unseen = set() if module.strict else module.handled_in(loop)
    for call in calls_in(loop.body) if loop.by_hand else loop.function.calls:
        if id(call) not in unseen and _is_unsafe(call, loop.function, module):
            assert isinstance(call.func, ast.Attribute)
            target = module.names.dotted(call.func.value)
            if target is not None and _CLIENTS.search(target) and _writes(call, loop.function, module):
                method = call.func.attr.upper()
                yield Place.of(call), f"{method} is retried without an idempotency key: it may happen twice"


def _is_unsafe(call: ast.Call, function: Function, module: Module) -> bool:
    """Return True if ``call`` is a POST that may make something twice; with guesses: any POST or PATCH.

    A PATCH mostly sets fields to values, and a POST to the name of a thing, ``f"/users/{name}"``, makes that
    one thing.
    """
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if module.strict:
        return method in ("post", "patch")
    if method != "post":
        return False
    addresses = [*call.args[:1], *(k.value for k in call.keywords if k.arg in ("url", "path"))]
    for _ in range(_STEPS):
        assigned = [value for address in addresses for value in assigned_to(address, function.node)]
        addresses += [value for value in assigned if isinstance(value, ast.expr)]
    texts = [part for address in addresses for part in ast.walk(address) if isinstance(part, ast.JoinedStr)]
    return not any(isinstance(text.values[-1], ast.FormattedValue) for text in texts if text.values)


def _posts_writes(loop: Loop, module: Module) -> bool:
    """Return True if a POST that makes something is sent where ``loop`` is made, or the file is a sample."""
    if module.strict or not module.functions:
        return True
    maker = loop.maker
    if maker is None:
        return False
    near = [f for f in module.functions.values() if f is maker or (maker.owner and f.owner == maker.owner)]
    return any(
        _is_unsafe(call, function, module) and _writes(call, function, module)
        for function in near
        for call in function.calls
    )


def _writes(call: ast.Call, function: Function, module: Module) -> bool:
    """Return True if a name or an address says that ``call`` changes something: many a POST is a query."""
    texts = [inner.value for inner in ast.walk(call) if isinstance(inner, ast.Constant)]
    sent_to = [w for text in texts if isinstance(text, str) for w in words_of(text)]
    words = [*words_of(function.name), *sent_to]
    changes, may_change, things, asks = (
        any(map(meaning.fullmatch, words)) for meaning in (_WRITES, _MAY_WRITE, _THINGS, _QUERIES)
    )
    if module.strict:
        return changes or may_change or things
    return (changes or (may_change and things)) and not asks
