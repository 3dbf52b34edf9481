"""Policies to start from on the page, as the text of a policy file."""

from __future__ import annotations

EXAMPLES = [
    {
        "id": "stormproof",
        "title": "Stormproof's defaults",
        "toml": "[policies.stormproof]\nretry = { attempts = 4 }\n",
    },
    {
        "id": "naive",
        "title": "naive: at once, no budget",
        "toml": """\
[policies.naive]
retry = { attempts = 4, backoff = { kind = "constant", wait = "100ms" }, budget = "none" }
""",
    },
    {
        "id": "jitter",
        "title": "full jitter, no budget",
        "toml": """\
[policies.jitter]
retry = { attempts = 4, backoff = { base = "100ms", cap = "5s" }, budget = "none" }
""",
    },
    {
        "id": "by-call",
        "title": "budget earned by calls (Finagle)",
        "toml": """\
[policies.by-call]
retry = { attempts = 4, budget = { kind = "window", ratio = 0.2, floor = 1 } }
""",
    },
    {
        "id": "breaker",
        "title": "retries behind a breaker",
        "toml": """\
[policies.breaker]
retry = { attempts = 4 }
breaker = { failure_ratio = 0.5, min_calls = 10, window = "10s", open_for = "2s" }
""",
    },
    {
        "id": "once",
        "title": "no retries at all",
        "toml": "[policies.once]\nretry = { attempts = 1 }\n",
    },
]
