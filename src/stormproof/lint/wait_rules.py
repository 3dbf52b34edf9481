"""Rules about the waits of a retry and its limits."""

from __future__ import annotations

from . import checks
from .rule import Rule

WAIT_RULES: tuple[Rule, ...] = (
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
        (("wait_exponential", "wait_random_exponential"),),
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
        (("503]", "503], backoff_factor=0.5, backoff_jitter=0.5"),),
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
        (("ConnectionError)", "ConnectionError, max_tries=4)"),),
        checks.unbounded,
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
        (
            ("import random\nimport time", "import asyncio\nimport random"),
            ("time.sleep", "await asyncio.sleep"),
        ),
        checks.blocking,
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
        (("100", "4"),),
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
        (("max_tries=12", "max_tries=12, max_value=10"),),
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
        (("gauss(2**attempt, 1)", "uniform(0, 2**attempt)"),),
        checks.odd_jitter,
    ),
)
