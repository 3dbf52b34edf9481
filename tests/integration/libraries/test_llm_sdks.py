"""The OpenAI and Anthropic SDKs over ``stormproof.httpx2``: one layer retries, and it is ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest
from tests.support.http.server import Server, answer, chunked, reset

import stormproof as sp
import stormproof.httpx2

QUICK = sp.Exponential(0.001, cap=0.002)


def openai_says(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}
    whole = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return json.dumps(whole).encode()


def anthropic_says(text: str) -> bytes:
    usage = {"input_tokens": 1, "output_tokens": 1}
    content = [{"type": "text", "text": text}]
    whole = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": content}
    return json.dumps({**whole, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}).encode()


class Sdk:
    """One SDK, its path, its answers, and how to ask it."""

    def __init__(self, name: str, path: str, says: Callable[[str], bytes]) -> None:
        self.name = name
        self.path = path
        self.says = says

    def __repr__(self) -> str:
        return self.name

    def ask(self, server: Server, policy: sp.Policy) -> str:
        transport = stormproof.httpx2.Transport(policy, idempotency_key="auto")
        if self.name == "openai":
            http_client: Any = openai.DefaultHttpxClient(transport=transport)
            with openai.OpenAI(
                api_key="k", base_url=server.url(), max_retries=0, http_client=http_client
            ) as client:
                found: Any = client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "?"}]
                )
                return str(found.choices[0].message.content)
        http_client = anthropic.DefaultHttpxClient(transport=transport)
        with anthropic.Anthropic(
            api_key="k", base_url=server.url(), max_retries=0, http_client=http_client
        ) as client:
            found = client.messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "?"}]
            )
            return str(found.content[0].text)

    async def ask_async(self, server: Server, policy: sp.Policy) -> str:
        transport = stormproof.httpx2.AsyncTransport(policy, idempotency_key="auto")
        if self.name == "openai":
            http_client: Any = openai.DefaultAsyncHttpxClient(transport=transport)
            async with openai.AsyncOpenAI(
                api_key="k", base_url=server.url(), max_retries=0, http_client=http_client
            ) as client:
                found: Any = await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "?"}]
                )
                return str(found.choices[0].message.content)
        http_client = anthropic.DefaultAsyncHttpxClient(transport=transport)
        async with anthropic.AsyncAnthropic(
            api_key="k", base_url=server.url(), max_retries=0, http_client=http_client
        ) as client:
            found = await client.messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "?"}]
            )
            return str(found.content[0].text)


SDKS = [
    Sdk("openai", "/chat/completions", openai_says),
    Sdk("anthropic", "/v1/messages", anthropic_says),
]
JSON = [("Content-Type", "application/json")]
LIMITED = answer(
    429, b'{"error": {"type": "rate_limit_error", "message": "slow down"}}', [*JSON, ("retry-after-ms", "3")]
)
OVERLOADED = answer(529, b'{"error": {"type": "overloaded_error", "message": "busy"}}', JSON)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def policy() -> sp.Policy:
    return sp.Policy(sp.Retry(on=sp.transient, attempts=4, backoff=QUICK))


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_429_with_a_hint_then_overload_then_the_answer(sdk: Sdk, server: Server, policy: sp.Policy) -> None:
    server.on(sdk.path, LIMITED, OVERLOADED, answer(200, sdk.says("yes"), JSON))
    waits: list[float] = []
    unsubscribe = sp.subscribe(lambda event: waits.append(getattr(event, "wait", None)))
    assert sdk.ask(server, policy) == "yes"
    unsubscribe()
    asked = server.requests(sdk.path)
    assert len(asked) == 3
    assert waits[0] >= 0.003
    # A POST is repeated because every attempt carries the same key.
    assert len({seen.header("Idempotency-Key") for seen in asked}) == 1
    assert len({seen.body for seen in asked}) == 1
    credentials = {seen.header("Authorization") or seen.header("x-api-key") for seen in asked}
    assert len(credentials) == 1 and None not in credentials


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_async_call_is_retried_after_a_reset(sdk: Sdk, server: Server, policy: sp.Policy) -> None:
    server.on(sdk.path, reset(), answer(200, sdk.says("yes"), JSON))
    assert asyncio.run(sdk.ask_async(server, policy)) == "yes"
    assert len(server.requests(sdk.path)) == 2


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_exhausted_call_raises_the_sdks_own_error(sdk: Sdk, server: Server, policy: sp.Policy) -> None:
    server.on(sdk.path, LIMITED)
    kind = openai.RateLimitError if sdk.name == "openai" else anthropic.RateLimitError
    with pytest.raises(kind):
        sdk.ask(server, policy)
    assert len(server.requests(sdk.path)) == 4


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_outer_layer_does_not_try_again(sdk: Sdk, server: Server, policy: sp.Policy) -> None:
    server.on(sdk.path, LIMITED)
    kind = openai.RateLimitError if sdk.name == "openai" else anthropic.RateLimitError
    outer = sp.retry(on=sp.transient, attempts=3, backoff=QUICK)
    with pytest.raises(kind):
        outer.call(sdk.ask, server, policy)
    assert len(server.requests(sdk.path)) == 4


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_bad_request_is_not_repeated(sdk: Sdk, server: Server, policy: sp.Policy) -> None:
    server.on(sdk.path, answer(400, b'{"error": {"message": "no such model"}}', JSON))
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)):
        sdk.ask(server, policy)
    assert len(server.requests(sdk.path)) == 1


def test_stream_is_retried_until_its_headers_and_not_after(server: Server, policy: sp.Policy) -> None:
    piece = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    delta = {"index": 0, "delta": {"content": "ye"}, "finish_reason": None}
    event = b"data: " + json.dumps({**piece, "choices": [delta]}).encode() + b"\n\n"
    streamed = [("Content-Type", "text/event-stream")]
    server.on("/chat/completions", OVERLOADED, chunked(event, headers=streamed, ends=False))
    client: Any = openai.DefaultHttpxClient(
        transport=stormproof.httpx2.Transport(policy, idempotency_key="auto")
    )
    heard: list[str] = []
    with openai.OpenAI(api_key="k", base_url=server.url(), max_retries=0, http_client=client) as sdk:
        stream: Any = sdk.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "?"}], stream=True
        )
        with pytest.raises(openai.APIConnectionError), stream:
            heard.extend(chunk.choices[0].delta.content for chunk in stream)
    assert heard == ["ye"]
    assert len(server.requests("/chat/completions")) == 2


def test_rate_limit_charges_the_tokens_that_a_call_used(server: Server) -> None:
    """A minute's tokens as a rate limit: what a call is likely to cost, corrected by what it did cost."""
    tokens = sp.Limiter(rate=1e-9, burst=1000)
    policy = sp.Policy(sp.RateLimit(tokens, cost=400, cost_of_result=lambda used: used), name="tokens")
    assert policy.call(lambda: 250) == 250
    assert tokens.tokens() == pytest.approx(750, abs=0.01)
    assert policy.call(lambda: 700) == 700
    with pytest.raises(sp.RateLimited):
        policy.call(lambda: 1)
