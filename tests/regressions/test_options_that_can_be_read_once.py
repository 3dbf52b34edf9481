"""``drop_headers=(name for name in ...)`` dropped nothing: the names were gone once they had been checked.

Stormproof: options that are collections are read once, whatever gives them, and refused by name otherwise.
"""

from __future__ import annotations

from typing import Any

import pytest

from stormproof.asgi import IdempotencyMiddleware
from stormproof.grpc.rpc import Wire
from stormproof.idempotency import MemoryStore


async def app(*given: Any) -> None:
    raise AssertionError("never called")


def test_drop_headers_may_be_an_iterator() -> None:
    made = IdempotencyMiddleware(app, MemoryStore(), drop_headers=(name for name in ["X-Secret"]))
    assert b"x-secret" in made.dropped


def test_attempt_metadata_may_be_an_iterator() -> None:
    wire = Wire(attempt_metadata=(name for name in ["x-tries"]))  # type: ignore[arg-type]
    assert wire.attempt_metadata == ("x-tries",)


def test_idempotent_methods_may_be_an_iterator() -> None:
    wire = Wire(idempotent=(name for name in ["/pkg.Store/Get"]))  # type: ignore[arg-type]
    assert wire.idempotent == ("/pkg.Store/Get",)


@pytest.mark.parametrize("given", [5, [5], b"pkg.Store/Get", "pkg.Store/Get", None])
def test_idempotent_that_does_not_name_methods_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="interceptors: idempotent must be method names or a function"):
        Wire(idempotent=given)


@pytest.mark.parametrize("given", [5, (5,), b"x-tries", ("",), None])
def test_attempt_metadata_that_does_not_name_headers_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="interceptors: attempt_metadata must be a tuple of lower-case"):
        Wire(attempt_metadata=given)
