"""The state of this process as plain data and as a page: operations, breakers, budgets, recent give-ups."""

from __future__ import annotations

from collections import deque
from html import escape

from .._events import bus
from .._runtime.clock import wall
from .._version import __version__
from .meters import Meters, gauges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._events.types import Event

#: Events in the list of recent trouble, and the field with the reason.
_TROUBLE = {"GaveUp": "reason", "Interrupted": "reason", "Refused": "by", "BreakerChanged": "after"}


class Status:
    """Counts from the moment it is made until `close`, and keeps the last ``recent`` troubles."""

    def __init__(self, recent: int) -> None:
        self._meters = Meters()
        # Appending to a bounded deque and copying it are each one atomic step.
        self._recent: deque[dict[str, Any]] = deque(maxlen=recent)
        self._since = wall()
        self._unsubscribe = bus.subscribe(self._on_event, first_tries=False)

    def close(self) -> None:
        """Count no further."""
        self._unsubscribe()

    def _on_event(self, event: Event) -> None:
        self._meters.add(event)
        kind = type(event).__name__
        if kind in _TROUBLE:
            self._recent.append(
                {
                    "at": wall(),
                    "operation": event.operation,
                    "what": kind,
                    "why": getattr(event, _TROUBLE[kind]),
                    "attempts": getattr(event, "attempts", None),
                    "error": getattr(event, "error", None),
                }
            )

    def read(self) -> dict[str, Any]:
        """Return all figures, ready for JSON."""
        reading, live = self._meters.read(), gauges()
        give_ups: dict[str, dict[str, int]] = {}
        for (name, reason), count in reading.counts["give_ups"].items():
            give_ups.setdefault(name, {})[reason] = count
        names = {name for name, _ in reading.counts["attempts"]}.union(give_ups, *live.values())
        return {
            "version": __version__,
            "since": self._since,
            "now": wall(),
            "operations": [
                {
                    "operation": name,
                    "attempts": reading.counts["attempts"].get((name, ""), 0),
                    "retries": reading.counts["retries"].get((name, ""), 0),
                    "give_ups": give_ups.get(name, {}),
                    "budget": live["budget_balance"].get(name),
                    "breaker": live["breaker_state"].get(name),
                    "in_use": live["bulkhead_in_use"].get(name),
                    "queued": live["bulkhead_queued"].get(name),
                    "tokens": live["limiter_tokens"].get(name),
                }
                for name in sorted(names)
            ],
            "recent": list(reversed(self._recent.copy())),
        }


STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #b3261e; --fair: #8a5a00;
  --soft: color-mix(in srgb, CanvasText 70%, Canvas); }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --fair: #ffc861; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; margin: 0; } h2 { font-size: 1rem; margin: 2rem 0 .4rem; }
p { color: var(--soft); margin: 0; }
div { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); } td.n, th.n { text-align: right; }
.open { color: var(--bad); font-weight: 600; } .half_open { color: var(--fair); font-weight: 600; }
"""


def page(data: dict[str, Any], refresh_s: int) -> str:
    """``data`` as one HTML page without a script, which asks for itself again after ``refresh_s`` seconds."""
    operations = [_operation(row) for row in data["operations"]]
    recent = [_trouble(row, data["now"]) for row in data["recent"]]
    since = f"{(data['now'] - data['since']) / 60:.0f} min"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Stormproof</title>'
        '<meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="refresh" content="{refresh_s}"><style>{STYLE}</style></head><body>'
        f"<h1>Stormproof {escape(data['version'])}</h1><p>counting for {since}</p>"
        "<h2>Operations</h2>"
        + _table(
            "Operation|Attempts|Retries|Gave up|Budget|Breaker|In use|Tokens",
            "1 2 4 6 7",
            operations,
            "Nothing yet.",
        )
        + "<h2>Recent trouble</h2>"
        + _table("When|Operation|What|Why|Attempts|Error", "0 4", recent, "None.")
        + "</body></html>"
    )


def _operation(row: dict[str, Any]) -> list[str]:
    return [
        _cell(row["operation"]),
        _cell(f"{row['attempts']:,}", "n"),
        _cell(f"{row['retries']:,}", "n"),
        _cell(", ".join(f"{reason} {count:,}" for reason, count in sorted(row["give_ups"].items()))),
        _cell(_number(row["budget"]), "n"),
        _cell((row["breaker"] or "").replace("_", " "), row["breaker"] or ""),
        _cell(_used(row), "n"),
        _cell(_number(row["tokens"]), "n"),
    ]


def _trouble(row: dict[str, Any], now: float) -> list[str]:
    return [
        _cell(f"{now - row['at']:.0f} s ago", "n"),
        _cell(row["operation"]),
        _cell({"BreakerChanged": "breaker", "Refused": "refused by"}.get(row["what"], "gave up:")),
        _cell(row["why"].replace("_", " "), row["why"]),
        _cell("" if row["attempts"] is None else str(row["attempts"]), "n"),
        _cell(row["error"] or ""),
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


def _used(row: dict[str, Any]) -> str:
    if row["in_use"] is None:
        return ""
    return f"{row['in_use']} (+{row['queued']})" if row["queued"] else str(row["in_use"])


def _cell(text: str, kind: str = "") -> str:
    return f'<td class="{escape(kind)}">{escape(text)}</td>'


def _table(heads: str, numeric: str, rows: list[list[str]], none: str) -> str:
    if not rows:
        return f"<p>{none}</p>"
    right = set(map(int, numeric.split()))
    head = "".join(
        f'<th scope="col"{" class=n" if at in right else ""}>{name}</th>'
        for at, name in enumerate(heads.split("|"))
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
