"""The table of rules: what each says, why, what to do, and a sample that fails and one that passes.

``stormproof lint --rules``, the page of the docs and the tests are all made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import checks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .findings import Place
    from .loops import Loop
    from .source import Module

    Check = Callable[[Loop, Module | None], Iterator[tuple[Place, str]]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``severity`` is "error", "warning" or "note"; ``default`` whether it is on unless asked for.

    The samples are Python, or a policy file where ``language`` is "toml".
    """

    code: str
    name: str
    severity: str
    summary: str
    why: str
    fix: str
    failing: str
    passing: str
    check: Check | None = None
    language: str = "python"
    default: bool = True


RULES: tuple[Rule, ...] = (
    Rule(
        "SP000",
        "unreadable",
        "error",
        "A file that cannot be read: a policy file Stormproof would refuse, Python that mentions retries and "
        "does not parse.",
        "A program that loads this file fails when it starts.",
        "Correct what the message names.",
        "[policies.search]\nretry = { atempts = 4 }\n",
        "[policies.search]\nretry = { attempts = 4 }\n",
        language="toml",
    ),
    Rule(
        "SP001",
        "no-jitter",
        "warning",
        "Waits without jitter.",
        "Callers that failed together come back together, as one wave after the other.",
        'Spread the waits: jitter="full" in Stormproof, wait_random_exponential in tenacity, '
        "jitter=backoff.full_jitter, backoff_jitter in urllib3.",
        """\
from tenacity import retry, stop_after_attempt, wait_exponential

@retry(stop=stop_after_attempt(4), wait=wait_exponential(max=10))
def fetch(): ...
""",
        """\
from tenacity import retry, stop_after_attempt, wait_random_exponential

@retry(stop=stop_after_attempt(4), wait=wait_random_exponential(max=10))
def fetch(): ...
""",
        checks.no_jitter,
    ),
    Rule(
        "SP002",
        "no-wait",
        "warning",
        "Retries without any wait.",
        "A server that is down is asked again at the speed of the network, by every client.",
        "Wait between attempts, longer each time: wait_random_exponential(), backoff_factor=0.5.",
        """\
from urllib3.util.retry import Retry

retries = Retry(total=5, status_forcelist=[502, 503])
""",
        """\
from urllib3.util.retry import Retry

retries = Retry(total=5, status_forcelist=[502, 503], backoff_factor=0.5, backoff_jitter=0.5)
""",
        checks.no_wait,
    ),
    Rule(
        "SP003",
        "unbounded",
        "error",
        "Retries without an end.",
        "If the dependency does not come back, every caller is stuck in its loop: the load never falls.",
        "Limit attempts or time: attempts=4, stop_after_attempt(4), max_tries=4, or a deadline around it.",
        """\
import backoff

@backoff.on_exception(backoff.expo, ConnectionError)
def fetch(): ...
""",
        """\
import backoff

@backoff.on_exception(backoff.expo, ConnectionError, max_tries=4)
def fetch(): ...
""",
        checks.unbounded,
    ),
    Rule(
        "SP004",
        "times-do-not-fit",
        "warning",
        "A timeout or a wait that is longer than the deadline around it.",
        "It can never do what it is there for: the deadline ends the call first.",
        "Let the timeout be a fraction of the deadline (deadline / attempts is a start).",
        '[policies.search]\ndeadline = "1s"\nretry = { attempts = 3 }\ntimeout = "2s"\n',
        '[policies.search]\ndeadline = "1s"\nretry = { attempts = 3 }\ntimeout = "300ms"\n',
        checks.times,
        language="toml",
    ),
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
        """\
from urllib3.util.retry import Retry

retries = Retry(total=3, backoff_factor=0.5, backoff_jitter=0.5, status_forcelist=[429, 503])
""",
        checks.client_errors,
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
        """\
import requests
import stamina

@stamina.retry(on=ConnectionError, attempts=3)
def pay(order, key):
    headers = {"Idempotency-Key": key}
    return requests.post("https://example.com/payments", json=order, headers=headers, timeout=5)
""",
        checks.unsafe_method,
    ),
    Rule(
        "SP007",
        "nested-retries",
        "warning",
        "A retry inside a retry.",
        "The attempts multiply: three layers of four make 64 calls, when the server can bear least.",
        "Retry in one layer. (Stormproof's own layers see each other's marks and do not multiply.)",
        """\
import stamina

@stamina.retry(on=ConnectionError, attempts=4)
def fetch(): ...

@stamina.retry(on=ConnectionError, attempts=4)
def page():
    return fetch()
""",
        """\
import stamina

@stamina.retry(on=ConnectionError, attempts=4)
def fetch(): ...

def page():
    return fetch()
""",
        checks.nested,
    ),
    Rule(
        "SP008",
        "budget",
        "warning",
        "No retry budget, or one that bounds nothing or pays for nothing.",
        "Without a budget an outage multiplies the load by the attempts; that load is what keeps it down.",
        "Leave the default budget (a tenth of the successes, and 3 in hand), or share one by name.",
        '[policies.search]\nretry = { attempts = 4, budget = "none" }\n',
        "[policies.search]\nretry = { attempts = 4, budget = { ratio = 0.1, burst = 3 } }\n",
        checks.budget,
        language="toml",
    ),
    Rule(
        "SP009",
        "by-hand",
        "warning",
        "A retry loop written by hand that lacks an end, a wait or jitter.",
        "These loops are copied, and each copy forgets something else.",
        "Use a retry that has all three: @retry(on=..., attempts=4), or retrying for a block.",
        """\
import time

def fetch(client):
    while True:
        try:
            return client.get("/")
        except ConnectionError:
            time.sleep(1)
""",
        """\
from stormproof import retry

@retry(on=ConnectionError, attempts=4)
def fetch(client):
    return client.get("/")
""",
        checks.by_hand,
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
        """\
import random
import time

def fetch(client):
    for attempt in range(4):
        try:
            return client.get("/")
        except ConnectionError:
            time.sleep(random.uniform(0, 2**attempt))
""",
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
        """\
import backoff

@backoff.on_predicate(backoff.runtime, predicate=too_many, value=retry_after, jitter=backoff.random_jitter)
def fetch(): ...
""",
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
        "SP013",
        "blocking-sleep",
        "error",
        "time.sleep in the retry loop of an async function.",
        "Nothing else in the process runs while it sleeps: one failing call stops all the others.",
        "await asyncio.sleep(...), or decorate the async function with retry.",
        """\
import random
import time

async def fetch(client):
    for attempt in range(4):
        try:
            return await client.get("/")
        except ConnectionError:
            time.sleep(random.uniform(0, 2**attempt))
""",
        """\
import asyncio
import random

async def fetch(client):
    for attempt in range(4):
        try:
            return await client.get("/")
        except ConnectionError:
            await asyncio.sleep(random.uniform(0, 2**attempt))
""",
        checks.blocking,
    ),
    Rule(
        "SP014",
        "no-timeout",
        "note",
        "A policy in which nothing bounds an attempt.",
        "An attempt that hangs does not fail, so it is never retried; the caller waits for ever.",
        'Add timeout = "500ms" innermost, or a deadline outermost, if the client has no timeout of its own.',
        "[policies.search]\nretry = { attempts = 4 }\n",
        '[policies.search]\nretry = { attempts = 4 }\ntimeout = "500ms"\n',
        checks.no_timeout,
        language="toml",
        default=False,
    ),
    Rule(
        "SP015",
        "order",
        "warning",
        "A policy whose strategies stand in an order that hardly does what was meant.",
        "The first strategy is the outermost. A timeout before the retry ends all attempts together; in TOML "
        "that comes about by itself, since plain keys stand before a table such as [policies.search.retry].",
        'Write the retry inline, retry = { attempts = 4 }, and the timeout below it; or say deadline = "2s" '
        "if the whole call is meant.",
        '[policies.search]\ntimeout = "500ms"\n\n[policies.search.retry]\nattempts = 4\n',
        '[policies.search]\nretry = { attempts = 4 }\ntimeout = "500ms"\n',
        checks.order,
        language="toml",
    ),
    Rule(
        "SP016",
        "many-attempts",
        "warning",
        "Twenty attempts of one call, or more.",
        "What four attempts do not bring is down, and every further one is load that it does not need.",
        "Allow three to five attempts, and a deadline; wait for something to start up outside the request.",
        """\
from tenacity import retry, stop_after_attempt, wait_random_exponential

@retry(stop=stop_after_attempt(100), wait=wait_random_exponential(max=10))
def fetch(): ...
""",
        """\
from tenacity import retry, stop_after_attempt, wait_random_exponential

@retry(stop=stop_after_attempt(4), wait=wait_random_exponential(max=10))
def fetch(): ...
""",
        checks.many_attempts,
    ),
    Rule(
        "SP017",
        "no-cap",
        "warning",
        "Waits that double without a maximum, over many attempts.",
        "The tenth wait is a quarter of an hour: the caller has long gone, and the recovery is noticed late.",
        "Set a maximum: cap=5 in Stormproof, max=10 in tenacity, max_value=10 in backoff, min(10, ...) by "
        "hand.",
        """\
import backoff

@backoff.on_exception(backoff.expo, ConnectionError, max_tries=12)
def fetch(): ...
""",
        """\
import backoff

@backoff.on_exception(backoff.expo, ConnectionError, max_tries=12, max_value=10)
def fetch(): ...
""",
        checks.uncapped,
    ),
    Rule(
        "SP018",
        "odd-jitter",
        "warning",
        "Jitter from a source that is not made for it.",
        "A normal or exponential distribution has no bounds; a source for secrets is slow for nothing.",
        "Draw from a range: random.uniform(0, ceiling), which is full jitter.",
        """\
import random
import time

def fetch(client):
    for attempt in range(4):
        try:
            return client.get("/")
        except ConnectionError:
            time.sleep(random.gauss(2**attempt, 1))
""",
        """\
import random
import time

def fetch(client):
    for attempt in range(4):
        try:
            return client.get("/")
        except ConnectionError:
            time.sleep(random.uniform(0, 2**attempt))
""",
        checks.odd_jitter,
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
        """\
import stormproof as sp

@sp.retry(on=ConnectionError)
def fetch(): ...
""",
        checks.refusals,
    ),
    Rule(
        "SP020",
        "made-per-call",
        "warning",
        "A policy, breaker, budget or limiter that is made anew in each call.",
        "What it learns from one call is gone at the next: a budget never runs out, a breaker never opens.",
        "Make it once, in the module or in the constructor, and use it in the function.",
        """\
import stormproof as sp

def fetch(client):
    policy = sp.Policy(sp.Retry(attempts=4), sp.Breaker())
    return policy.call(client.get, "/")
""",
        """\
import stormproof as sp

policy = sp.Policy(sp.Retry(attempts=4), sp.Breaker())

def fetch(client):
    return policy.call(client.get, "/")
""",
        checks.per_call,
    ),
)

BY_CODE = {rule.code: rule for rule in RULES}
