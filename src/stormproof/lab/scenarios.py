"""Scenarios that come with the lab, each with its story, policies to try, and the answer in words.

``scenarios["failover"].run()`` compares the policies; ``.scaled(0.01)`` is the same story a hundred times
smaller, for a quick look or where the fast engine is not at hand.
"""

from __future__ import annotations

from typing import Any

from .._policy.policy import Policy
from .._primitives.errors import AttemptTimeout
from .._strategies.budget.budget import Budget
from .._strategies.budget.other_systems import RateBudget, WindowBudget
from .._strategies.retry.backoff import Constant, Decorrelated, Exponential
from .._strategies.retry.retry import Retry
from .engines.contention import Contention, occ
from .model.backend import BackendError
from .model.clients_and_layers import Layer
from .model.faults import Burst, ColdCache, Deploy, Outage
from .model.scenario import Scenario
from .story import Story

ON = (BackendError, AttemptTimeout)


def retrying(jitter: str = "full", budget: object = None, **options: object) -> Policy:
    """A policy that retries what fails in a simulation: 100 ms, doubled up to 5 s."""
    given: dict[str, Any] = {"on": ON, "backoff": Exponential(jitter=jitter), "budget": budget, **options}  # type: ignore[arg-type]
    return Policy(Retry(**given))


def _jitters(**options: object) -> dict[str, Policy | None]:
    return {
        "no retry": None,
        "no jitter": retrying("none", **options),
        "equal jitter": retrying("equal", **options),
        "full jitter": retrying("full", **options),
    }


_ONCE_MORE: dict[str, Any] = {"on": ON, "attempts": 2, "backoff": Constant(0)}
_PATIENT: dict[str, Any] = {"on": ON, "attempts": None, "within": 120.0, "budget": None}

#: Of a scenario, the clients, their calls a second and the capacity come first.
_STORIES = (
    Story(
        "config-reload",
        "A 200 ms config reload under 1,000 callers",
        "500 calls per second meet a backend that answers 503 for 200 ms. Does a retry storm follow?",
        "No. Only the hundred callers of those 200 ms meet it. Their retries lift the load from 500/s to "
        "1,000/s without jitter and to about 1,200/s with it, for 50 ms: calls that were spread out stay "
        "spread out, and jitter has nothing to mend. Without retries those hundred calls fail, with them "
        "none does.",
        Scenario(
            1000, 500, 1000, Outage(2, 0.2, "fail"), duration=6, timeout=1, arrivals="even", resolution=0.05
        ),
        _jitters(attempts=6),
    ),
    Story(
        "herd",
        "1,000 callers fail at one instant",
        "The same reload, but all 1,000 callers call within the same millisecond. What does jitter do?",
        "It decides. After the reload the crowd comes back at 20,000/s (over 50 ms) without jitter, at "
        "half of that with equal jitter, at a third with full jitter, which also tries more often in the "
        "200 ms themselves.",
        Scenario(
            clients=1000,
            arrival_rps=100,
            capacity_rps=2000,
            outage=Outage(2, 0.2, "fail"),
            faults=[Burst(2.05, 1000, over=0.001)],
            duration=6,
            timeout=1,
            arrivals="even",
            resolution=0.05,
        ),
        _jitters(attempts=6),
    ),
    Story(
        "failover",
        "100,000 clients and a 2 s failover",
        "Each client calls once a second; for two seconds the answer is 503. What does the recovering "
        "service see?",
        "Without jitter 4 times the usual load, with full jitter 3.6 times: the calls were spread out "
        "before, so jitter alone mends little. A budget earned by success ends the retrying within the "
        "outage: the recovering service sees its usual load and nothing more, for the price of 17 % failed "
        "calls in these 12 s, not 11 to 14 %.",
        Scenario(100_000, 100_000, 120_000, Outage(2, 2, "fail"), duration=12, timeout=1, arrivals="even"),
        {
            "no jitter": retrying("none"),
            "full jitter": retrying("full"),
            "full jitter and budget": retrying("full", Budget(ratio=0.1, burst=1)),
        },
    ),
    Story(
        "video-players",
        "25 million video players after a 100 ms hiccup",
        "Every player asks for a segment every four seconds; for 100 ms the origin refuses.",
        "The hiccup meets 625,000 players, 2.5 % of them, not all: no player asks for a segment more than "
        "every four seconds. Retried at once, all of these fail, since the hiccup outlasts three attempts "
        "without a wait. One retry with full jitter, and no more than one in 30 s, brings half of them "
        "through, and one retry per player is the most that the origin can see.",
        Scenario(
            25_000_000, 6_250_000, 7_500_000, Outage(2, 0.1, "fail"), duration=12, timeout=2, arrivals="even"
        ),
        {
            "three times at once": retrying(backoff=Constant(0), attempts=3),
            "once, jittered, one in 30 s": retrying(attempts=2, budget=RateBudget(rate=1 / 30, burst=1)),
        },
        engine="fast",
    ),
    Story(
        "three-layers",
        "The three-layer storm",
        "Clients call a gateway, which calls orders, which calls a database that is down; each layer tries "
        "four times.",
        "64 attempts on the database for each call when every layer retries what the layer below has given "
        "up on. Where the mark of the innermost layer is honoured it is 4.",
        Scenario(
            clients=100,
            arrival_rps=20,
            capacity_rps=2000,
            outage=Outage(2, 20, "fail"),
            duration=30,
            layers=[Layer("gateway", "same", instances=4), Layer("orders", "same", instances=4)],
        ),
        {
            "every layer retries all": retrying(retry_exhausted=True),
            "marks are honoured": retrying(),
        },
        engine="exact",
    ),
    Story(
        "metastable",
        "Metastable collapse",
        "280 calls per second on a backend for 300; it hangs for 10 s; attempts time out after 1 s and are "
        "made once more.",
        "With budgets that refill by time, by call, or not at all, never: retries of work that no "
        "caller waits for keep the backend busy with more of it. A budget earned by success earns nothing, "
        "the retries end, and the queue drains at the spare 20/s: it takes about 160 s, but it recovers by "
        "itself.",
        Scenario(1, 280, 300, Outage(10, 10), timeout=1, duration=240),
        {
            "no budget": Policy(Retry(**_ONCE_MORE, budget=None)),
            "a budget refilled by time": Policy(Retry(**_ONCE_MORE, budget=RateBudget())),
            "a budget refilled by calls": Policy(Retry(**_ONCE_MORE, budget=WindowBudget())),
            "a budget earned by success": Policy(Retry(**_ONCE_MORE, budget=Budget())),
        },
    ),
    Story(
        "cold-cache",
        "A cold cache after a restart",
        "After a 5 s restart the caches are empty: requests cost four times as much until 3,000 have been "
        "served.",
        "Without a budget the retries keep the load at more than the cold backend can serve, and it never "
        "warms up for any caller that still waits. With one it recovers in about 20 s.",
        Scenario(
            clients=50,
            arrival_rps=200,
            capacity_rps=400,
            outage=Outage(5, 5, "fail"),
            timeout=1,
            faults=[ColdCache(10, cost=4.0, warm=3000)],
            duration=90,
        ),
        {
            "no budget": retrying(),
            "budget": retrying(budget=Budget(burst=1)),
        },
    ),
    Story(
        "rolling-deploy",
        "A rolling deploy",
        "Ten instances restart one after the other, 3 s each; for half a second each, its share of the "
        "calls is refused.",
        "Without retries 1 % of the calls fail. With the default policy none does, for 1 % more load.",
        Scenario(100, 400, 500, timeout=1, faults=[Deploy(5, 30, instances=10, detect=0.5)], duration=50),
        {"no retry": None, "default": Policy(Retry(on=ON))},
    ),
    Story(
        "reconnects",
        "Thundering reconnects",
        "20,000 connections are lost at one moment; the server takes 1,000 new ones a second, and a queue "
        "of 500.",
        "Every second and exponential with full jitter both have all connected in 36 s, which is what the "
        "server needs for 20,000 of them, but the one with nine attempts per call, the other with three. "
        "Without jitter the crowd stays a crowd: it comes back together, the queue takes 500, and a third "
        "of the calls fail in two minutes.",
        Scenario(20_000, 200, 1000, timeout=2, queue=500, faults=[Burst(1, 20_000, over=0.1)], duration=120),
        {
            "every second": Policy(Retry(**_PATIENT, backoff=Constant(1))),
            "exponential, no jitter": Policy(
                Retry(**_PATIENT, backoff=Exponential(1, cap=30, jitter="none"))
            ),
            "exponential, full jitter": Policy(Retry(**_PATIENT, backoff=Exponential(1, cap=30))),
        },
    ),
)

#: Every story by its name. (Contention is not about load over time: see `contention`.)
scenarios: dict[str, Story] = {story.name: story for story in _STORIES}


def contention(clients: int = 100, runs: int = 100, seed: int = 0) -> dict[str, Contention]:
    """AWS's contention for one row, for each kind of wait: 5 ms, doubled up to 2 s."""
    kinds = {
        "none": Constant(0),
        "exponential, no jitter": Exponential(0.005, cap=2.0, jitter="none"),
        "equal jitter": Exponential(0.005, cap=2.0, jitter="equal"),
        "full jitter": Exponential(0.005, cap=2.0),
        "decorrelated": Decorrelated(0.005, cap=2.0, clip="sample"),
    }
    return {name: occ(backoff, clients, runs, seed) for name, backoff in kinds.items()}
