"""Every row of docs/mistakes.md: the code on the left gets the message on the right."""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Awaitable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import stormproof
import stormproof.httpx

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mistakes.md"
ROWS = re.findall(r"^\| `(.+)` \| `(.+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


class Client:
    pass


def fetch() -> int:
    return 1


async def fetch_async() -> int:
    return 1


async def is_transient_async(error: Exception) -> bool:
    return True


def returns_awaitable() -> Awaitable[int]:
    return fetch_async()


NAMES: dict[str, Any] = {
    **{name: getattr(stormproof, name) for name in stormproof.__all__},
    **{fn.__name__: fn for fn in (fetch, fetch_async, is_transient_async, returns_awaitable)},
    "Client": Client,
    "ProcessPoolExecutor": ProcessPoolExecutor,
    "asyncio": asyncio,
    "httpx": httpx,
    "stormproof": stormproof,
}


def test_page_has_at_least_twenty_mistakes() -> None:
    assert len(ROWS) >= 20


@pytest.mark.parametrize(("code", "message"), ROWS)
def test_mistake_gets_the_message(code: str, message: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            eval(code, dict(NAMES))
            said = ""
        except (TypeError, ValueError, AttributeError) as error:
            said = str(error)
    assert message in said or any(message in str(warning.message) for warning in caught), said


def test_bare_decorator_is_refused_on_functions_and_methods() -> None:
    with pytest.raises(TypeError, match="needs its parentheses"):

        @stormproof.retry  # type: ignore[arg-type]
        def takes_a_callable(callback: Any) -> Any:
            return callback()

    with pytest.raises(TypeError, match="needs its parentheses"):

        class Service:
            @stormproof.retry  # type: ignore[arg-type]
            def get(self) -> None: ...


def test_function_that_judges_errors_is_not_taken_for_a_bare_decorator() -> None:
    def is_busy(error: Exception) -> bool:
        return "busy" in str(error)

    assert stormproof.retry(is_busy).strategies[0].on is is_busy
