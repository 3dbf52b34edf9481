"""Rules about the failures that are retried."""

from __future__ import annotations

from . import checks, http_checks
from .rule import Rule

FAILURE_RULES: tuple[Rule, ...] = (
    Rule(
        "SP005",
        "client-errors",
        "warning",
        "Retries of client errors (4xx other than 408, 409, 425 and 429).",
        "The request itself is wrong: sent again, it gets the same answer, and costs the same.",
        "Retry 408, 425, 429 and 5xx only; for exceptions, look at the status (transient does).",
        """\
from urllib3.util.retry import Retry

retries = Retry(total=3, backoff_factor=0.5, backoff_jitter=0.5, status_forcelist=[404, 429, 503])
""",
        (("404, ", ""),),
        http_checks.client_errors,
    ),
    Rule(
        "SP006",
        "unsafe-method",
        "warning",
        "POST or PATCH retried without an idempotency key.",
        "An attempt that timed out may have been carried out: the retry does it a second time.",
        "Send one Idempotency-Key with every attempt of a call, or leave POST out of the retried methods.",
        """\
import requests
import stamina

@stamina.retry(on=ConnectionError, attempts=3)
def pay(order):
    return requests.post("https://example.com/payments", json=order, timeout=5)
""",
        (
            ("order):", 'order, key):\n    headers = {"Idempotency-Key": key}'),
            ("json=order", "json=order, headers=headers"),
        ),
        http_checks.unsafe_method,
    ),
    Rule(
        "SP010",
        "cancellation",
        "error",
        "A retry that catches cancellation.",
        "A cancelled task runs on, Ctrl-C does not end the program, a timeout around it has no effect.",
        "Catch Exception or less. In tenacity, retry_if_not_exception_type retries everything else, "
        "KeyboardInterrupt included: use retry_if_exception_type.",
        """\
import random
import time

def fetch(client):
    for attempt in range(4):
        try:
            return client.get("/")
        except BaseException:
            time.sleep(random.uniform(0, 2**attempt))
""",
        (("BaseException", "ConnectionError"),),
        checks.cancellation,
    ),
    Rule(
        "SP011",
        "retry-after",
        "warning",
        "A server's Retry-After that is ignored or shortened.",
        "The server has said when it can answer; coming earlier earns another refusal, or a ban.",
        "Let Retry-After be the shortest wait (Stormproof and urllib3 do so by default).",
        """\
import backoff

@backoff.on_predicate(backoff.runtime, predicate=too_many, value=retry_after)
def fetch(): ...
""",
        (("retry_after", "retry_after, jitter=backoff.random_jitter"),),
        checks.hints,
    ),
    Rule(
        "SP012",
        "everything",
        "note",
        "A retry of every exception.",
        "A bug fails the same way every time: retried, it only costs more and is found later.",
        "Name the failures that may pass, or use transient.",
        """\
from tenacity import retry, stop_after_attempt, wait_random_exponential

@retry(stop=stop_after_attempt(4), wait=wait_random_exponential(max=10))
def fetch(): ...
""",
        """\
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

@retry(
    retry=retry_if_exception_type(ConnectionError),
    stop=stop_after_attempt(4),
    wait=wait_random_exponential(max=10),
)
def fetch(): ...
""",
        checks.everything,
        default=False,
    ),
    Rule(
        "SP019",
        "retries-a-refusal",
        "warning",
        "Retries of an open circuit breaker, an empty budget or an ended deadline.",
        "A refusal is there to keep calls away. Retrying it takes the caller's time and its protection.",
        "Leave it out of what is retried; give the caller a fallback, or its retry_after.",
        """\
import stormproof as sp

@sp.retry(on=(ConnectionError, sp.CircuitOpen))
def fetch(): ...
""",
        (("(ConnectionError, sp.CircuitOpen)", "ConnectionError"),),
        checks.refusals,
    ),
)
