"""What a decorated function still is: its signature, generators, pickling, and waits in tests."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import pickle
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ..model import Probe, seconds, yes_no
from ..setups.retriers import RETRIERS, Retrier


def _signature(library: Retrier) -> bool:
    def plain(a: int, *, b: str = "x") -> bytes:
        return b""

    async def waiting(a: int, *, b: str = "x") -> bytes:
        return b""

    decorated, awaited = library.plain()(plain), library.plain()(waiting)
    return (
        inspect.signature(decorated) == inspect.signature(plain)
        and inspect.signature(awaited) == inspect.signature(waiting)
        and inspect.iscoroutinefunction(awaited)
        and decorated.__name__ == "plain"
    )


signature_kept = Probe(
    "signature-kept",
    "retry",
    "A decorated `def` and `async def`.",
    "`inspect.signature`, the name, and `inspect.iscoroutinefunction` say what they said before.",
    yes_no("kept", "changed"),
)
signature_kept.on(RETRIERS, _signature)


def _generator(library: Retrier) -> str:
    tries = []

    def numbers() -> Iterator[int]:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError
        yield 1
        yield 2

    try:
        decorated = library.plain()(numbers)
    except TypeError:
        return "refused when decorated"
    try:
        with library.recorded():
            return "retried" if list(decorated()) == [1, 2] else "wrong items"
    except ConnectionError:
        return "silently not retried"


def _async_generator(library: Retrier) -> str:
    tries = []

    async def numbers() -> AsyncIterator[int]:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError
        yield 1
        yield 2

    try:
        decorated = library.plain()(numbers)
    except TypeError:
        return "refused when decorated"

    async def scenario() -> list[int]:
        return [item async for item in decorated()]

    try:
        return "retried" if asyncio.run(scenario()) == [1, 2] else "wrong items"
    except ConnectionError:
        return "silently not retried"
    except TypeError:
        return "no longer an async generator"


def _retried_or_refused(seen: str) -> tuple[str, bool]:
    return seen, seen in ("retried", "refused when decorated")


generator = Probe(
    "generator",
    "retry",
    "A decorated generator fails before its first item.",
    "it is begun again, or refused when it is decorated.",
    _retried_or_refused,
)
generator.on(RETRIERS, _generator)

async_generator = Probe(
    "async-generator",
    "retry",
    "The same with an async generator.",
    "it is begun again, or refused when it is decorated.",
    _retried_or_refused,
)
async_generator.on(RETRIERS, _async_generator)


def _midway(library: Retrier) -> list[int]:
    def numbers() -> Iterator[int]:
        yield 1
        yield 2
        raise ConnectionError

    items: list[int] = []
    with library.recorded(), contextlib.suppress(ConnectionError, TypeError):
        items.extend(library.plain()(numbers)())
    return items


generator_midway = Probe(
    "generator-midway",
    "retry",
    "A decorated generator fails after two items.",
    "no item comes twice.",
    lambda items: (
        f"items {', '.join(map(str, items))}" if items else "no items",
        len(items) == len(set(items)),
    ),
)
generator_midway.on(RETRIERS, _midway)


def _pickled(made: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(made))
    except Exception:
        return False
    return True


picklable = Probe(
    "picklable",
    "retry",
    "The object that holds the settings is pickled, to be sent to a worker process.",
    "it comes back.",
    yes_no("comes back", "cannot be pickled"),
)
picklable.lacks("backoff", "opnieuw", why="no such object")


@picklable.by("stormproof")
def _pickled_stormproof() -> bool:
    import stormproof as sp

    return _pickled(sp.Policy(sp.Deadline(5), sp.Retry(on=ConnectionError, attempts=4)))


@picklable.by("tenacity")
def _pickled_tenacity() -> bool:
    import tenacity as t

    return _pickled(t.Retrying(stop=t.stop_after_attempt(4), wait=t.wait_random_exponential()))


@picklable.by("stamina")
def _pickled_stamina() -> bool:
    import stamina

    return _pickled(stamina.RetryingCaller(attempts=4).on(ConnectionError))


@picklable.by("nopanic")
def _pickled_nopanic() -> bool:
    import nopanic

    return _pickled(nopanic.retry(attempts=4, on=ConnectionError))


def _down() -> None:
    raise ConnectionError


def _spent(call: Any) -> float:
    start = time.monotonic()
    try:
        call()
    except ConnectionError:
        pass
    return time.monotonic() - start


waits_in_tests = Probe(
    "waits-in-tests",
    "retry",
    "3 waits of 5 s, run as the library says to run them in a test, without patching the standard library.",
    "no real time passes.",
    lambda spent: ("no wait", True) if spent < 4 else (f"waits {seconds(spent)}", False),
)
waits_in_tests.lacks("backoff")


@waits_in_tests.by("stormproof")
def _free_stormproof() -> float:
    import stormproof as sp

    with sp.testing.instant():
        return _spent(RETRIERS["stormproof"].plain(4, 5)(_down))


@waits_in_tests.by("tenacity")
def _free_tenacity() -> float:
    import tenacity as t

    return _spent(RETRIERS["tenacity"].plain(4, 5)(_down).retry_with(wait=t.wait_none()))  # type: ignore[attr-defined]


@waits_in_tests.by("stamina")
def _free_stamina() -> float:
    import stamina

    with stamina.set_testing(True, attempts=4):
        return _spent(RETRIERS["stamina"].plain(4, 5)(_down))


@waits_in_tests.by("opnieuw")
def _free_opnieuw() -> float:
    from opnieuw.test_util import retry_immediately

    with retry_immediately():
        return _spent(RETRIERS["opnieuw"].plain(4, 5)(_down))


@waits_in_tests.by("nopanic")
def _free_nopanic() -> float:
    from nopanic import testing

    with testing.instant():
        return _spent(RETRIERS["nopanic"].plain(4, 5)(_down))


stale_answers = Probe(
    "stale-answers",
    "retry",
    "An answer has expired and asking again fails: is the old one served?",
    "the old answer is served.",
    yes_no("served", "not served"),
)
stale_answers.lacks("stormproof", "tenacity", "stamina", "backoff", "opnieuw")


@stale_answers.by("nopanic")
def _stale_nopanic() -> bool:
    import nopanic

    answers = ["old"]

    @nopanic.cache(ttl=0.01, stale_ttl=60, on=ConnectionError)
    def rates() -> str:
        if not answers:
            raise ConnectionError
        return answers.pop()

    rates()
    time.sleep(0.05)
    return rates() == "old"


PROBES = [
    signature_kept,
    generator,
    async_generator,
    generator_midway,
    picklable,
    waits_in_tests,
    stale_answers,
]
