"""The note of a fleet's empty budget gave its options without advice, unlike that of a local one."""

from __future__ import annotations

import stormproof as sp


def test_shortage_of_a_fleet_budget_names_the_burst_to_set() -> None:
    with sp.redis.RedisStore("redis://127.0.0.1:1/0") as store:
        budget = sp.Budget(ratio=0.2, burst=5, store=store, name="search")
        assert budget.shortage() == (
            "retry budget exhausted: budget 'search' of the fleet is spent: burst 5, "
            "0.2 earned per success; to allow more, set burst=10"
        )
