"""A batch of prompts under a limit on tokens per minute.

    python examples/llm_batch/run.py

A pretended LLM API on loopback allows so many tokens and answers 429 with ``retry-after-ms`` beyond that.
The batch knows the limit: each call pays for the tokens it is likely to use and is corrected by what it did
use. What 429s remain are waited out as the server asks.
"""

from __future__ import annotations

import asyncio
import json
import time

import httpx

from stormproof import Exponential, Limiter, Policy, RateLimit, Retry, transient
from stormproof.httpx import AsyncTransport

PROMPTS = 60
TOKENS_PER_SECOND = 4000


class Api:
    """Counts tokens in a bucket of one second's worth."""

    def __init__(self) -> None:
        self.bucket = Limiter(rate=TOKENS_PER_SECOND, burst=TOKENS_PER_SECOND)
        self.refused = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(
                    next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)[15:]
                )
                words = len(json.loads(await reader.readexactly(length))["prompt"].split())
                used = 40 * words
                allowed = self.bucket.allow(used)
                self.refused += not allowed
                body = json.dumps(
                    {"text": "...", "tokens": used} if allowed else {"error": "slow down"}
                ).encode()
                status = b"200 OK" if allowed else b"429 Slow down\r\nretry-after-ms: 100"
                writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()


async def batch(url: str, tokens: Limiter | None) -> float:
    """All prompts, twenty at a time; gives how long it took."""
    # No budget: the limit on tokens keeps retries few, and no user waits for a batch.
    # stormproof: ignore[SP008]
    retry = Retry(on=transient, attempts=12, budget=None, backoff=Exponential(0.05, cap=1))
    transport = AsyncTransport(Policy(retry, name="llm"), idempotency_key="auto")
    paying = (
        Policy()
        if tokens is None
        else Policy(
            RateLimit(
                tokens, max_wait=None, cost=lambda prompt: 60 * len(prompt.split()), cost_of_result=_cost
            )
        )
    )
    gate = asyncio.Semaphore(20)
    began = time.monotonic()
    async with httpx.AsyncClient(transport=transport) as client:

        @paying
        async def complete(prompt: str) -> dict[str, int]:
            answer = await client.post(url, json={"prompt": prompt})
            answer.raise_for_status()
            found: dict[str, int] = answer.json()
            return found

        async def one(index: int) -> None:
            async with gate:
                await complete("word " * (3 + index % 5))

        await asyncio.gather(*(one(index) for index in range(PROMPTS)))
    return time.monotonic() - began


def _cost(answer: dict[str, int]) -> int:
    return answer["tokens"]


async def main() -> None:
    for name, tokens in (
        ("only retries", None),
        (
            "a token budget and retries",
            Limiter(rate=0.95 * TOKENS_PER_SECOND, burst=TOKENS_PER_SECOND // 2),
        ),
    ):
        api = Api()
        listening = await asyncio.start_server(api.handle, "127.0.0.1", 0)
        seconds = await batch(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/", tokens)
        listening.close()
        await asyncio.sleep(0.05)  # for the connections to notice that their other end is closed
        print(f"{name:>28}: {PROMPTS} prompts in {seconds:.1f} s, {api.refused} times 429")


if __name__ == "__main__":
    asyncio.run(main())
