"""Source and settings that lint reads."""

from __future__ import annotations

import tomllib
import warnings

from stormproof.lint import Settings, SettingsError, check
from stormproof.lint.findings import lines_of
from stormproof.lint.settings import make

from ..model import Target, must, text

_ALL = make({"select": ["ALL"]})
_SUFFIXES = (".py", ".toml", ".json", ".yaml")


def check_source(data: bytes) -> None:
    """No text raises; every finding stands in the file; the first byte chooses the kind of file. A comment
    that ignores the file ignores all of it.
    """
    place, rest = (data[0], text(data[1:])) if data else (0, "")
    suffix = _SUFFIXES[place % len(_SUFFIXES)]
    with warnings.catch_warnings():
        # What the compiler thinks of the text is the text's own business.
        warnings.simplefilter("ignore")
        found = check(rest, f"file{suffix}", _ALL)
        ignored = check(f"# stormproof: ignore-file\n{rest}", "file.py", _ALL) if suffix == ".py" else []
    # PyYAML ends a line at more characters than the others do.
    last = len(rest.splitlines()) + 1 if suffix == ".yaml" else len(lines_of(rest))
    for finding in found:
        at = finding.place
        must(1 <= at.line <= at.end_line <= last, f"{finding.code} on line {at.line} of {last}")
        must(at.column >= 1 and at.end_column >= 1, f"{finding.code} in column {at.column}")
        must((at.end_line, at.end_column) >= (at.line, at.column), f"{finding.code} ends before it begins")
        must(finding.message and len(finding.message) < 2000, f"{finding.code} says {finding.message!r}")
    must(found == sorted(found, key=lambda f: (f.place, f.code, f.message)), "findings are in order")
    must(ignored == [], "an ignored file has no findings")


def check_settings(data: bytes) -> None:
    """Settings, or SettingsError; the rules that apply are rules that exist."""
    try:
        table = tomllib.loads(text(data))
    except (ValueError, RecursionError):
        return
    try:
        settings = make(table)
    except SettingsError as error:
        must(len(str(error)) < 6000, "an error must be short")
        return
    must(settings.select <= _ALL.select, "no such rule")
    must(
        settings.is_policy_file("a/stormproof.toml") and isinstance(settings.excluded("a/b.py"), bool),
        "paths",
    )
    must(Settings().select <= _ALL.select, "no such rule by default")


_HAND = """\
import time, random
import httpx as h
from tenacity import retry, stop_after_attempt, wait_exponential

WAITS = (1, 2, 4)

@retry(stop=stop_after_attempt(9), wait=wait_exponential())
def one():
    return h.post("u")

def two(n=5):
    for attempt in range(n):
        try:
            return h.get("u", timeout=3)
        except Exception:  # stormproof: ignore[SP004]
            if attempt == n - 1:
                raise
            time.sleep(2 ** attempt * random.random())
"""
_OURS = """\
import stormproof as sp
import backoff, stamina, openai
from urllib3 import Retry
policy = sp.Policy(sp.Retry(attempts=10, budget=None, on=Exception), sp.Timeout(5))
client = openai.OpenAI()

@policy
@stamina.retry(on=OSError, attempts=10**3)
@backoff.on_exception(backoff.expo, Exception, max_tries=3)
async def ask():
    while True:
        try:
            return await client.ask()
        except (OSError, ValueError):
            await asyncio.sleep(1)
"""
_WORDS = (
    "import ",
    "from ",
    "tenacity",
    "stamina",
    "backoff",
    "stormproof",
    "urllib3",
    "retry",
    "Retry",
    "sleep",
    "time.",
    "for i in range(3):\n",
    "while True:\n",
    "try:\n",
    "except Exception:\n",
    "except:\n",
    "    ",
    "\t",
    "\n",
    "\r",
    "\x0c",
    "\u2028",
    "\\\n",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "*",
    "**",
    "=",
    ":",
    ",",
    ".",
    "-",
    "~",
    "@",
    "def f():\n",
    "class A:\n",
    "lambda: 0",
    "raise",
    "return",
    "await ",
    "async ",
    "pass",
    "1e999",
    "10**9",
    "range(9**99)",
    "None",
    "'",
    '"',
    '"""',
    "f'{a}'",
    "ä",
    "# stormproof: ignore",
    "attempts",
    "stop_after_attempt",
    "0x" + "f" * 40,
)

TARGETS = (
    Target(
        "lint-source",
        "Python source and policy files, as lint reads them",
        check_source,
        (
            "\x00" + _HAND,
            "\x00" + _OURS,
            "\x00time.sleep(1)\nretry\n\x0cfor i in range(-~-3):\n try: f()\n except: sleep(-(-i))\n",
            "\x00from tenacity import retry\n\x0c\n@retry  # stormproof: ignore\ndef f(): pass\n",
            "\x00import stormproof\nx = " + "-" * 200 + "1\nsleep(x)\n",
            "\x01[policies.p]\nretry = { attempts = 50, budget = 'none', backoff = { kind = 'linear' } }\n",
            '\x02{"policies": {"p": {"retry": {"on": "Exception"}, "timeout": 5}}}',
            "\x03policies:\n  p:\n    retry: {attempts: 3}\n",
        ),
        _WORDS,
        longest=1200,
        slowest_s=3.0,
    ),
    Target(
        "lint-settings",
        "the settings of lint in pyproject.toml",
        check_settings,
        (
            'select = ["ALL"]\nignore = ["SP001, SP002"]\n',
            'exclude = ["a/*"]\npolicy-files = ["[!a]"]\n',
            "x = 1",
        ),
        (
            "select",
            "ignore",
            "exclude",
            "policy-files",
            "=",
            "[",
            "]",
            '"',
            ",",
            "SP0",
            "ALL",
            "\n",
            "*",
            "[!",
            "1",
        ),
        longest=200,
    ),
)
