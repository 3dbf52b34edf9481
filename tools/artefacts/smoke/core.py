"""The core from an installed wheel, with nothing else beside it: what the README's first minute promises."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stormproof as sp


def installed() -> None:
    home = Path(sp.__file__).parent
    assert home.is_relative_to(sys.prefix), home
    assert (home / "py.typed").is_file()
    assert (home / "lab/_page/index.html").is_file() or "without-page" in sys.argv
    assert {path.stem for path in (home / "_fleet" / "lua").glob("*.lua")} >= {
        "budget",
        "breaker",
        "limiter",
        "bulkhead",
    }


def failing(times: int, then: object = "done") -> list[object]:
    return [*[ConnectionError("refused")] * times, then]


def answer(left: list[object]) -> object:
    first = left.pop(0)
    if isinstance(first, Exception):
        raise first
    return first


def raised(kind: type[Exception], call: Callable[..., object], *args: object) -> Any:
    """The exception of this kind that ``call`` ends with, and has to."""
    try:
        call(*args)
    except kind as error:
        return error
    raise AssertionError(f"{call} did not raise {kind.__name__}")


def retries() -> None:
    left = failing(2)

    @sp.retry(on=ConnectionError, attempts=3, budget=sp.Budget(burst=10))
    def fetch() -> object:
        return answer(left)

    @sp.retry(on=sp.transient, attempts=3)
    async def fetch_async() -> object:
        return answer(left)

    with sp.testing.instant() as clock:
        assert fetch() == "done"
        assert len(clock.sleeps) == 2
    left[:] = failing(1)
    assert asyncio.run(fetch_async()) == "done"
    left[:] = failing(9)
    with sp.testing.instant():
        assert "3 attempts" in raised(ConnectionError, fetch).__notes__[0]


def budget() -> None:
    policy = sp.Policy(sp.Retry(on=ConnectionError, attempts=5, budget=sp.Budget(burst=1)))
    left = failing(9)
    with sp.testing.instant():
        error = raised(ConnectionError, policy.call, answer, left)
    stopped = sp.stopped(error)
    assert stopped is not None
    assert stopped.reason == "budget"
    assert len(left) == 8, "one call and one retry"


def breaker() -> None:
    policy = sp.Policy(sp.Breaker(consecutive=2))
    left = failing(9)
    for _ in range(2):
        raised(ConnectionError, policy.call, answer, left)
    assert raised(sp.CircuitOpen, policy.call, answer, left).retry_after > 29
    assert len(left) == 8


def files_and_presets() -> None:
    Path("policies.toml").write_text('[policies.scores]\ndeadline = "5s"\nretry = { attempts = 4 }\n')
    assert sp.load("policies.toml")["scores"].worst_case().attempts == 4
    assert sp.presets.aws_standard().worst_case().attempts == 3
    assert sp.idempotency.MemoryStore() is not None


def alone() -> None:
    """Nothing that was imported came from elsewhere than the standard library and the wheel."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        assert file is None or "site-packages" not in file or "stormproof" in file, file


for part in (installed, retries, budget, breaker, files_and_presets, alone):
    part()
print("calls sync and async, a budget, a breaker, a policy file, a preset")
