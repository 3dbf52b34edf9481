"""The content of a store, read key by key: for ``stormproof fleet`` and `RedisStore.inspect`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .key_format import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_VALUE = 200


def survey(client: object, prefix: str, limit: int, is_cluster: bool) -> list[dict[str, Any]]:
    """One entry a resource, in the order of their names; at most ``limit`` keys are looked at."""
    entries = []
    for key in _keys(client, prefix, limit, is_cluster):
        parts = parts_of(prefix, key.decode("utf-8", "replace"))
        if parts is not None:
            entries.append(_entry(client, key, *parts))
    return sorted(entries, key=lambda entry: (entry["name"], entry["kind"]))


def _keys(client: Any, prefix: str, limit: int, is_cluster: bool) -> Iterator[bytes]:
    # SCAN with a pattern may come back empty many times; the bound is on keys of ours.
    pattern = f"{_escaped(prefix)}:{{*"
    nodes = {"target_nodes": "primaries"} if is_cluster else {}
    for place, key in enumerate(client.scan_iter(match=pattern, count=500, **nodes)):
        if place >= limit:
            return
        yield key


def _escaped(prefix: str) -> str:
    return prefix.replace("\\", "\\\\").replace("*", "\\*").replace("?", "\\?").replace("[", "\\[")


def _entry(client: Any, key: bytes, name: str, kind: str) -> dict[str, Any]:
    ttl: int = client.pttl(key)
    redis_type = client.type(key).decode()
    entry: dict[str, Any] = {"name": name, "kind": kind, "ttl": ttl / 1000 if ttl >= 0 else None}
    if redis_type == "hash":
        fields = {
            field.decode("utf-8", "replace"): _value(value) for field, value in client.hgetall(key).items()
        }
        try:
            entry["state"] = _read(kind, fields)
        except (TypeError, ValueError, OverflowError):
            # A key of another program or version: the others are still shown.
            entry["state"] = {"state": "unreadable"}
    else:
        entry["state"] = {"type": redis_type}
    return entry


def _value(value: bytes) -> Any:
    text = value.decode("utf-8", "replace")
    try:
        return int(text)
    except ValueError:
        return text if text.isprintable() and len(text) <= _LONGEST_VALUE else "..."


def _read(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the state in everyday units, without data that others may have written into the key."""
    if kind in ("budget", "limiter"):
        return {
            "level": fields.get("level", 0) / 1e6,
            "instances": max(fields.get("now", 0), fields.get("before", 0)),
        }
    if kind == "breaker":
        return _breaker(fields)
    if kind == "bulkhead":
        places = [str(value).split(",")[0] for value in fields.values()]
        return {"places": sum(int(number) for number in places if number.isdigit()), "instances": len(places)}
    if kind == "idempotency":
        return {"state": "done" if fields.get("done") == 1 else "running"}
    return {"fields": len(fields)}


def _breaker(fields: dict[str, Any]) -> dict[str, Any]:
    def named(kind: str) -> list[str]:
        return sorted(name[2:] for name in fields if name.startswith(f"{kind}:"))

    slices = [str(value).split(",") for name, value in fields.items() if name.startswith("s:")]
    return {
        "state": fields.get("state"),
        "generation": fields.get("gen"),
        "instances": len(named("i")),
        "reporters": named("f"),
        "votes": named("v"),
        "probes": len(named("p")),
        "calls": sum(int(pair[0]) for pair in slices),
        "failures": sum(int(pair[-1]) for pair in slices),
    }
