"""Policies to start from on the page, as the text of a policy file."""

from __future__ import annotations

_TABLE = (
    ("stormproof", "Stormproof's defaults", "retry = { attempts = 4 }"),
    (
        "naive",
        "naive: at once, no budget",
        'retry = { attempts = 4, backoff = { kind = "constant", wait = "100ms" }, budget = "none" }',
    ),
    (
        "jitter",
        "full jitter, no budget",
        'retry = { attempts = 4, backoff = { base = "100ms", cap = "5s" }, budget = "none" }',
    ),
    (
        "by-call",
        "budget earned by calls (Finagle)",
        'retry = { attempts = 4, budget = { kind = "window", ratio = 0.2, floor = 1 } }',
    ),
    (
        "breaker",
        "retries behind a breaker",
        """retry = { attempts = 4 }
breaker = { failure_ratio = 0.5, min_calls = 10, window = "10s", open_for = "2s" }""",
    ),
    ("once", "no retries at all", "retry = { attempts = 1 }"),
)

EXAMPLES = [
    {"id": name, "title": title, "toml": f"[policies.{name}]\n{text}\n"} for name, title, text in _TABLE
]
