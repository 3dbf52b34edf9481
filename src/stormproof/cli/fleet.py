"""``stormproof fleet``: what a store holds: every resource, its state, who reported it, and for how long."""

from __future__ import annotations

import os
import sys

from .._events import labels
from ._options import Option
from ._outcome import CommandError, print_json
from ._values import choice, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._fleet.store import RedisStore

_VARIABLE = "STORMPROOF_STORE__URL"

OPTIONS = (
    Option(
        "target",
        f"A store's URL, or a policy file with a [store]. Without one: the URL in {_VARIABLE}.",
        default="",
        metavar="URL|FILE",
    ),
    Option("prefix", "What the store's keys begin with; of a file, its own.", "--prefix", metavar="TEXT"),
    Option(
        "kind", "Only this kind: budget, limiter, breaker, bulkhead, idempotency.", "--kind", metavar="KIND"
    ),
    Option("limit", "Largest number of keys to read.", "--limit", default="1000", metavar="NUMBER"),
    Option("as_json", "The same as JSON.", "--json", kind="flag"),
)

_MOST_KEYS = 1_000_000

_KINDS = ("breaker", "budget", "bulkhead", "idempotency", "limiter")


def command(target: str, prefix: str | None, kind: str | None, limit: str, as_json: bool) -> int:
    """Every resource of a fleet, as its store has it: state, instances, reporters, time to live."""
    if kind is not None:
        choice("--kind", kind, _KINDS)
    most = whole("--limit", limit, least=1, most=_MOST_KEYS)
    with _store(target, prefix) as store:
        entries = _read(store, most)
        if kind is not None:
            entries = [entry for entry in entries if entry["kind"] == kind]
        survey = {"store": str(store.address), "prefix": store.prefix, "resources": entries}
    if as_json:
        print_json(survey)
    else:
        _show(survey)
    return 0


def _store(target: str, prefix: str | None) -> RedisStore:
    try:
        from .._fleet.store import RedisStore
    except ModuleNotFoundError as missing:
        raise CommandError(f"fleet: {missing.name} is missing: install stormproof[redis]") from None
    target = target or os.environ.get(_VARIABLE, "")
    if not target:
        raise CommandError(f"fleet: give a store's URL or a policy file, or set {_VARIABLE}")
    try:
        # A person waits here, not a call.
        if "://" in target:
            return RedisStore(target, "sp" if prefix is None else prefix, timeout=2.0)
        store = _of_file(target)
        return RedisStore(store.address.target, store.prefix if prefix is None else prefix, timeout=2.0)
    except (OSError, TypeError, ValueError) as problem:
        raise CommandError(f"fleet: {problem}") from None


def _of_file(file: str) -> RedisStore:
    from .._config.registry import load

    registry = load(file)
    store: RedisStore | None = registry.store
    if store is None:
        raise ValueError(f"{file} has no table [store]")
    store.close()
    return store


def _read(store: RedisStore, limit: int) -> list[dict[str, Any]]:
    from .._fleet.store import StoreUnavailable

    try:
        return store.inspect(limit)
    except StoreUnavailable as down:
        raise CommandError(f"fleet: {down} at {store.address}") from None


def _show(survey: dict[str, Any]) -> None:
    from ._style import Style

    style = Style.of(sys.stdout)
    print(style.dim(f"{survey['store']}, prefix {survey['prefix']}"))
    rows = [
        (labels.clean(entry["name"]), labels.clean(entry["kind"]), _state(entry["state"]), _ttl(entry["ttl"]))
        for entry in survey["resources"]
    ]
    if not rows:
        print("Nothing is kept there.")
        return
    heads = ("NAME", "KIND", "STATE", "GONE IN")
    widths = [max(len(row[at]) for row in (heads, *rows)) for at in range(4)]
    for place, row in enumerate((heads, *rows)):
        line = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        print(style.bold(line) if not place else style.red(line) if row[2].startswith("open") else line)


def _state(state: dict[str, Any]) -> str:
    """``open, 3 instances, 2 reporters: ab12, cd34``: the state first, then its details."""
    words = [labels.clean(str(state["state"]))] if "state" in state else []
    for name, value in state.items():
        if isinstance(value, list):
            if value:
                words.append(
                    f"{len(value)} {name}: {' '.join(labels.clean(str(each)[:8]) for each in value[:5])}"
                )
        elif name == "level":
            words.append(f"{value:g} tokens")
        elif name not in ("state", "generation"):
            words.append(f"{value} {name[:-1] if value == 1 else name}")
    return ", ".join(words)


def _ttl(ttl: float | None) -> str:
    return "never" if ttl is None else f"{ttl:.0f} s"
