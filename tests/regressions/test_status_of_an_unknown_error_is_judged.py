"""An exception that carries `status_code`, `status` or `response.status_code` was final to `transient`,
unless its class was one that the tables know."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import stormproof as sp


class ApiError(Exception):
    """An error of a client that no table knows."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__("failed")
        self.__dict__.update(attributes)


def carrying(where: str, status: Any) -> ApiError:
    if where == "response":
        return ApiError(response=SimpleNamespace(status_code=status))
    return ApiError(**{where: status})


@pytest.mark.parametrize("where", ["status_code", "status", "response"])
@pytest.mark.parametrize(
    ("status", "retried"),
    [
        (503, True),
        (500, True),
        (429, True),
        (408, True),
        (404, False),
        (400, False),
        (501, False),
        (401, False),
    ],
)
def test_unknown_error_with_a_status_is_judged_by_the_http_table(
    where: str, status: int, retried: bool
) -> None:
    verdict = sp.transient(carrying(where, status))
    assert verdict.retry is retried
    assert verdict.kind == ("throttle" if status == 429 else "transient" if retried else "fatal")


@pytest.mark.parametrize("where", ["status_code", "status", "response"])
@pytest.mark.parametrize("status", [None, "503", True, 99, 600, -503, 503.0, 10**9, "failed"])
def test_unknown_error_with_something_else_for_a_status_stays_final(where: str, status: Any) -> None:
    assert not sp.transient(carrying(where, status)).retry


def test_unknown_error_with_a_status_keeps_the_hint_of_its_headers() -> None:
    assert sp.transient(ApiError(status_code=429, headers={"Retry-After": "7"})).after == 7
    response = SimpleNamespace(status_code=503, headers={"Retry-After": "3"})
    assert sp.transient(ApiError(response=response)).after == 3
    assert not sp.transient(ApiError(status=503, headers={"x-should-retry": "false"})).retry


def test_own_classifier_judges_unknown_errors_by_its_table() -> None:
    judge = sp.transient.with_(statuses={409})
    assert judge(ApiError(status_code=409)).retry
    assert not judge(ApiError(status_code=503)).retry


def test_unknown_error_whose_status_cannot_be_read_stays_final() -> None:
    class Hostile(Exception):
        @property
        def status_code(self) -> int:
            raise RuntimeError

    assert not sp.transient(Hostile()).retry


@pytest.mark.parametrize("where", ["error", "response"])
def test_unknown_error_of_a_post_without_a_key_stays_final(where: str) -> None:
    request = SimpleNamespace(method="POST", headers={})
    if where == "error":
        error = ApiError(status_code=503, request=request)
    else:
        error = ApiError(response=SimpleNamespace(status_code=503, request=request))
    assert not sp.transient(error).retry
    request.headers["Idempotency-Key"] = "k"
    assert sp.transient(error).retry
