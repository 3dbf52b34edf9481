"""One GET over a warm connection to a server on loopback: what a client adds when nothing goes wrong."""

from __future__ import annotations

from .. import clients as c
from ..model import Bar, Case, Group
from ..request_timing import Talks


def _group(library: str, title: str, cases: tuple[Case, ...], is_async: bool, rival: str) -> Group:
    bare, ours, theirs = cases
    return Group(
        name=f"wire-{library}",
        title=title,
        baseline=bare.name,
        meter=Talks(bare.name, is_async),
        cases=cases,
        bars=(
            Bar(f"{library}: a GET, of bare {library}", ours.name, 1.03),
            # A run cannot tell less than a hundredth apart.
            Bar(f"{library}: a GET, of {rival}", ours.name, 1.01, goal=1.0, against=theirs.name),
        ),
    )


def _five(name: str, title: str, bare: Case, ours: Case, is_async: bool, limit_us: float) -> Group:
    """What the README's policy adds to a request; ``limit_us`` is half of what it once added."""
    return Group(
        name=name,
        title=title,
        baseline=bare.name,
        meter=Talks(bare.name, is_async),
        cases=(bare, ours),
        bars=(Bar(f"{name}: us added to a GET", ours.name, limit_us, of="excess"),),
        compare="excess",
    )


GROUPS = [
    _five(
        "httpx-five",
        "A GET with httpx under five strategies",
        Case("httpx", c.httpx_bare, needs="httpx"),
        Case("stormproof.httpx, five strategies", c.httpx_five),
        is_async=False,
        limit_us=19.5,
    ),
    _five(
        "httpx-five-async",
        "An awaited GET with httpx under five strategies",
        Case("httpx", c.httpx_async_bare, needs="httpx"),
        Case("stormproof.httpx, five strategies", c.httpx_async_five),
        is_async=True,
        limit_us=33.5,
    ),
    _group(
        "httpx",
        "A GET with httpx",
        (
            Case("httpx", c.httpx_bare, needs="httpx"),
            Case("stormproof.httpx", c.httpx_stormproof),
            Case("httpx-retries", c.httpx_retries, needs="httpx_retries"),
        ),
        is_async=False,
        rival="httpx-retries",
    ),
    _group(
        "httpx-async",
        "An awaited GET with httpx",
        (
            Case("httpx", c.httpx_async_bare, needs="httpx"),
            Case("stormproof.httpx", c.httpx_async_stormproof),
            Case("httpx-retries", c.httpx_async_retries, needs="httpx_retries"),
        ),
        is_async=True,
        rival="httpx-retries",
    ),
    _group(
        "aiohttp",
        "A GET with aiohttp",
        (
            Case("aiohttp", c.aiohttp_bare, needs="aiohttp"),
            Case("stormproof.aiohttp", c.aiohttp_stormproof),
            Case("aiohttp-retry", c.aiohttp_retry, needs="aiohttp_retry"),
        ),
        is_async=True,
        rival="aiohttp-retry",
    ),
    _group(
        "requests",
        "A GET with requests",
        (
            Case("requests", c.requests_bare, needs="requests"),
            Case("stormproof.requests", c.requests_stormproof),
            Case("requests + urllib3 Retry", c.requests_urllib3, needs="requests"),
        ),
        is_async=False,
        rival="urllib3 Retry",
    ),
    _group(
        "urllib3",
        "A GET with urllib3",
        (
            Case("urllib3", c.urllib3_bare, needs="urllib3"),
            Case("stormproof.urllib3", c.urllib3_stormproof),
            Case("urllib3 Retry", c.urllib3_retry, needs="urllib3"),
        ),
        is_async=False,
        rival="urllib3 Retry",
    ),
]
