"""The page: every claim, what was run, what came out, and the verdict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import fill

from .model import Claim, Found, Topic, Verdict
from .sources import EVERY

WIDTH = 118
#: Stands for a blank that no line may break at.
_BLANK = "\0"


def page(topics: Sequence[Topic], results: Mapping[str, Found]) -> str:
    """The whole page, from what `Claim.check` gave for each name."""
    parts = ["# Claims, checked", *_head(topics, results), _table(topics, results)]
    for topic in topics:
        parts += [f"## {topic.title}", *([_wrapped(topic.intro)] if topic.intro else [])]
        parts += [f"![{alt}](images/{name}.svg)" for name, alt in topic.plots]
        parts += [section(claim, results[claim.name]) for claim in topic.claims]
    parts += ["## Sources", "\n".join(_item(f"{source.name}: {source.about}.") for source in EVERY)]
    return "\n\n".join(parts) + "\n"


def section(claim: Claim, found: Found) -> str:
    """One claim with what came of it."""
    said = ", ".join(source.name for source in claim.sources)
    verdict = f"**{found.verdict.capitalize()}.** {found.why}".rstrip()
    lines = [f"Claim ({said}): {claim.says}"]
    if found.verdict is not Verdict.OPEN:
        lines += [f"Ran: {found.ran.rstrip('.')}.", f"Came out: {_spaced(found.out.rstrip('.'))}."]
    return "\n".join([f"### {claim.title}", "", *(_item(line) for line in [*lines, verdict])])


def _head(topics: Sequence[Topic], results: Mapping[str, Found]) -> list[str]:
    counts = Counter(found.verdict for found in results.values())
    said = ", ".join(f"{counts[verdict]} {_plural(verdict, counts[verdict])}" for verdict in Verdict)
    return [
        _wrapped(
            "What texts about retries say in figures, and what their sources say, run. Each claim below is "
            "in our words; a function makes the run and judges what comes out of it, and `make claims` makes "
            "this page from the results. What came out and the verdict are computed, and seeds are fixed: "
            "they are the same on every run. The words of the claims, what is said to have been run, and the "
            "sentences after a verdict are written by us. Libraries in other languages are not run: "
            "Stormproof's presets, budgets and limiter, which keep to their rules, stand for them."
        ),
        _wrapped(
            f"Of {len(results)} claims {said}. Who is who is under [Sources](#sources). "
            f"`python -m verification.claims {topics[0].claims[0].name}` runs one of them; the names are "
            "those in the links."
        ),
    ]


def _plural(verdict: Verdict, count: int) -> str:
    several = {Verdict.HOLDS: "hold", Verdict.PARTLY: "hold partly", Verdict.FAILS: "do not hold"}
    return several.get(verdict, verdict.value) if count != 1 else verdict.value


def _table(topics: Sequence[Topic], results: Mapping[str, Found]) -> str:
    rows = ["| claim | said by | verdict |", "|---|---|---|"]
    for topic in topics:
        for claim in topic.claims:
            said = ", ".join(source.name for source in claim.sources)
            rows.append(f"| [{claim.title}](#{claim.name}) | {said} | {results[claim.name].verdict} |")
    return "\n".join(rows)


def _wrapped(text: str, first: str = "", rest: str = "") -> str:
    """``text`` in lines, none of which ends within a `code span`."""
    whole = re.sub("`[^`]*`", lambda code: code[0].replace(" ", _BLANK), text)
    lines = fill(
        whole,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace(_BLANK, " ")


def _item(text: str) -> str:
    return _wrapped(text, "- ", "  ")


def _spaced(text: str) -> str:
    """Percentages as the docs write them."""
    return re.sub(r"(\d)%", r"\1 %", text)
