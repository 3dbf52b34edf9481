"""Readers of the retry options of HTTP clients: urllib3 (and requests), httpx-retries, aiohttp-retry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .findings import Place
from .loops import Loop
from .names import UNKNOWN, Use

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Reader = Callable[[Use, str], Loop | None]


def _client(use: Use, label: str, library: str, statuses: str, methods: str) -> Loop:
    loop = Loop(library, label, Place.of(use.node))
    for name, option in zip(
        ("statuses", "methods", "hints"), (statuses, methods, "respect_retry_after_header"), strict=True
    ):
        _point(use, loop, name, option)
    listed = use.value(statuses, ())
    if isinstance(listed, tuple):
        loop.statuses = tuple(status for status in listed if type(status) is int)
    loop.methods = _methods(use.value(methods, UNKNOWN))
    if loop.statuses and use.value("respect_retry_after_header", True) is False:
        loop.hints = "ignored"
    return loop


def _methods(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, tuple):
        return tuple(method.upper() for method in value if isinstance(method, str))
    return None


def urllib3(use: Use, label: str) -> Loop | None:
    total = use.value("total", 10, 0)
    if total is False or (total == 0 and total is not UNKNOWN):
        return None
    option = "method_whitelist" if "method_whitelist" in use.keywords else "allowed_methods"
    loop = _client(use, label, "urllib3", "status_forcelist", option)
    if option in use.keywords and use.value(option, UNKNOWN) in (None, False) and total is not UNKNOWN:
        loop.methods = ("*",)
    others = [use.value(name, None) for name in ("connect", "read", "status", "other")]
    loop.bounded = None if total is UNKNOWN else total is not None or any(v is not None for v in others)
    loop.attempts = total + 1 if isinstance(total, int) else None
    factor, jitter = use.value("backoff_factor", 0), use.value("backoff_jitter", 0)
    if factor is not UNKNOWN and jitter is not UNKNOWN:
        if factor:
            loop.waits = "jittered" if jitter else "fixed"
        elif loop.statuses and (set(loop.statuses) != {429} or loop.hints == "ignored"):
            # A refused connection may be tried again at once; a 429 comes with its wait; a 503 has neither.
            loop.waits = "none"
    _point(use, loop, "waits", "backoff_factor")
    return loop


def httpx_retries(use: Use, label: str) -> Loop:
    loop = _client(use, label, "httpx_retries", "status_forcelist", "allowed_methods")
    loop.bounded = True
    factor, jitter = use.value("backoff_factor", 0.0), use.value("backoff_jitter", 1.0)
    if factor is not UNKNOWN and jitter is not UNKNOWN:
        loop.waits = "none" if factor == 0 else "jittered" if jitter else "fixed"
    _point(use, loop, "waits", "backoff_factor")
    return loop


def aiohttp_retry(use: Use, label: str) -> Loop:
    loop = _client(use, label, "aiohttp_retry", "statuses", "methods")
    loop.bounded = True
    jittered = label.rpartition(".")[2] in ("JitterRetry", "RandomRetry")
    loop.waits = "jittered" if jittered else "fixed"
    return loop


def _point(use: Use, loop: Loop, name: str, option: str) -> None:
    if (node := use.arg(option)) is not None:
        loop.places[name] = Place.of(node)


_URLLIB3 = ("urllib3", "requests.packages.urllib3")

READERS: dict[str, Reader] = {
    **{f"{home}{inner}.Retry": urllib3 for home in _URLLIB3 for inner in ("", ".util", ".util.retry")},
    "requests.adapters.Retry": urllib3,
    "httpx_retries.Retry": httpx_retries,
    **{
        f"aiohttp_retry.{kind}": aiohttp_retry
        for kind in ("ExponentialRetry", "JitterRetry", "RandomRetry", "ListRetry", "FibonacciRetry")
    },
}
