"""OpenAI answers 429 with ``insufficient_quota`` when an account is used up: it was retried as a throttle."""

from __future__ import annotations

import httpx2
import openai
import pytest

import stormproof as sp


def limit_error(code: str) -> openai.RateLimitError:
    request = httpx2.Request("POST", "http://llm.test/")
    body = {"message": "You exceeded your current quota", "type": code, "code": code}
    return openai.RateLimitError("429", response=httpx2.Response(429, request=request), body=body)


@pytest.mark.parametrize(("code", "retry"), [("insufficient_quota", False), ("rate_limit_exceeded", True)])
def test_rate_limit_error_is_judged_by_its_code(code: str, retry: bool) -> None:
    assert sp.transient(limit_error(code)).retry is retry
