"""Bad header names and methods: refused when the middleware is made, by owner, field and value."""

from __future__ import annotations

from typing import Any

import pytest

import stormproof.asgi as asgi
import stormproof.wsgi as wsgi
from stormproof.idempotency import MemoryStore


def app(*args: Any) -> None: ...


@pytest.mark.parametrize("module", [asgi, wsgi])
@pytest.mark.parametrize("header", [5, (), "", "bad name\r\n", ("fine", 7)], ids=repr)
def test_bad_deadline_header_is_refused(module: Any, header: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="DeadlineMiddleware: header must be"):
        module.DeadlineMiddleware(app, header=header)


@pytest.mark.parametrize("module", [asgi, wsgi])
@pytest.mark.parametrize("header", [7, "", "a b"], ids=repr)
def test_bad_attempt_header_is_refused(module: Any, header: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="SheddingMiddleware: attempt_header must be"):
        module.SheddingMiddleware(app, attempt_header=header)


@pytest.mark.parametrize("methods", [5, "POST", [1], None], ids=repr)
def test_bad_methods_are_refused(methods: Any) -> None:
    with pytest.raises(TypeError, match="IdempotencyMiddleware: methods must be a collection"):
        asgi.IdempotencyMiddleware(app, MemoryStore(), methods=methods)
