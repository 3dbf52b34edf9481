"""The table of rules, in the order of their codes.

``stormproof lint --rules``, the page of the docs and the tests are all made from this table.
"""

from __future__ import annotations

from . import checks
from .failure_rules import FAILURE_RULES
from .rule import Rule
from .wait_rules import WAIT_RULES

#: Rules about policies, layers and loops.
_POLICY_RULES = (
    Rule(
        "SP000",
        "unreadable",
        "error",
        "A file that cannot be read: a policy file Stormproof would refuse, Python that mentions retries and "
        "does not parse.",
        "A program that loads this file fails when it starts.",
        "Correct what the message names.",
        "[policies.search]\nretry = { atempts = 4 }\n",
        (("atempts", "attempts"),),
        language="toml",
    ),
    Rule(
        "SP004",
        "times-do-not-fit",
        "warning",
        "A timeout or a wait that is longer than the deadline around it.",
        "It can never do what it is there for: the deadline ends the call first.",
        "Let the timeout be a fraction of the deadline (deadline / attempts is a start).",
        '[policies.search]\ndeadline = "1s"\nretry = { attempts = 3 }\ntimeout = "2s"\n',
        (('"2s"', '"300ms"'),),
        checks.times,
        language="toml",
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
        (("@stamina.retry(on=ConnectionError, attempts=4)\ndef page", "def page"),),
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

RULES: tuple[Rule, ...] = tuple(
    sorted((*WAIT_RULES, *FAILURE_RULES, *_POLICY_RULES), key=lambda rule: rule.code)
)
BY_CODE = {rule.code: rule for rule in RULES}
