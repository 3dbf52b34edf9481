"""Scenarios in policy files: ``[scenarios.NAME]``.

The keys of a table are the fields of `Scenario`; a duration is a number of seconds or a text such as
``"200ms"``. Every error says file, line and key.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..._config import sources
from ..._config.errors import ConfigError, Document, Spot, shown, unknown
from ..._config.registry import Registry
from ..._primitives import durations
from . import faults
from .clients_and_layers import Clients, Layer
from .spread import Spread
from .trace import Trace

FAULTS: dict[str, type[faults.Fault]] = {
    "outage": faults.Outage,
    "brownout": faults.Brownout,
    "ramp": faults.Ramp,
    "errors": faults.Errors,
    "latency": faults.Latency,
    "partition": faults.Partition,
    "deploy": faults.Deploy,
    "cold-cache": faults.ColdCache,
    "spike": faults.Spike,
    "burst": faults.Burst,
    "store-loss": faults.StoreLoss,
}
#: Of what the lists of tables are.
_TABLES: dict[str, type] = {"others": Clients, "layers": Layer}
_DURATIONS = frozenset(
    ("at", "lasts", "retry_after", "extra", "over", "detect", "timeout", "duration", "think", "resolution")
)


def load(kind: object, path: str | os.PathLike[str], name: str | None = None) -> Any:
    """Return the scenario ``name`` of the policy file ``path``, made by the class ``kind``; ``None``:
    the only one.
    """
    document = sources.read(os.fspath(path))
    return read(kind, document, name, folder=os.path.dirname(os.path.abspath(path)))


def names(document: Document) -> list[str]:
    """Return the names of the scenarios in ``document``."""
    sections = dict(document.root().entries())
    return [name for name, _ in sections["scenarios"].entries()] if "scenarios" in sections else []


def read(kind: object, document: Document, name: str | None = None, folder: str | None = None) -> Any:
    """Return a scenario of ``document``. ``folder`` is where the files lie that it names; None: it may name
    none.
    """
    known = names(document)
    root = document.root()
    if name is None:
        if len(known) != 1:
            count = f"has {len(known)}: {', '.join(known)}" if known else "has none"
            raise root.error(f"must have one table [scenarios.NAME], or one must be named; it {count}")
        name = known[0]
    if name not in known:
        raise root.error(unknown("scenario", name, known))
    return _Reader(kind, document, folder).scenario(root.at("scenarios").at(name), name)


class _Reader:
    """Reads one scenario."""

    def __init__(self, kind: Any, document: Document, folder: str | None) -> None:
        self._kind = kind
        self._document = document
        self._folder = folder
        self._policies: Registry | None = None

    def scenario(self, spot: Spot, name: str) -> Any:
        known = [field for field in self._kind.field_names() if field != "name"]
        return self._made(
            self._kind, {**self._options(spot, known, "field of a scenario"), "name": name}, spot
        )

    def _options(self, spot: Spot, known: Sequence[str], what: str) -> dict[str, Any]:
        """Return the values of a table whose keys must be ``known``."""
        values: dict[str, Any] = {}
        for key, value in spot.entries():
            if key not in known:
                raise spot.unknown(key, what, known)
            values[key] = self._field(key, value)
        return values

    def _field(self, key: str, spot: Spot) -> Any:
        if key == "outage":
            one = not isinstance(spot.value, list)
            rows = [self._table(each, faults.Outage) for each in ([spot] if one else _listed(spot))]
            return rows[0] if one else rows
        if key == "faults":
            return [self._fault(each) for each in _listed(spot)]
        if key in _TABLES:
            return [self._table(each, _TABLES[key]) for each in _listed(spot)]
        if key == "policy":
            return self._policy(spot)
        if key in ("service", "latency"):
            return self._spread(spot, key)
        if key == "arrivals" and isinstance(spot.value, dict):
            return self._trace(spot)
        return _duration(spot) if key in _DURATIONS else spot.value

    def _fault(self, spot: Spot) -> Any:
        given = dict(spot.entries())
        if "kind" not in given:
            raise spot.error(f"must have a kind: {', '.join(FAULTS)}")
        kind = str(given["kind"].value)
        if kind not in FAULTS:
            raise given["kind"].error(unknown("kind of fault", kind, FAULTS))
        options = self._options(spot, ("kind", *FAULTS[kind].field_names()), f"option of {kind}")
        del options["kind"]
        return self._made(FAULTS[kind], options, spot)

    def _table(self, spot: Spot, kind: Any) -> Any:
        options = self._options(spot, kind.field_names(), f"option of {kind.__name__.lower()}")
        return self._made(kind, options, spot)

    def _policy(self, spot: Spot) -> Any:
        if spot.value == "same":
            return "same"
        if self._policies is None:
            self._policies = Registry(lambda: self._document)
        if spot.value not in self._policies:
            raise spot.error(unknown("policy", str(spot.value), self._policies))
        return self._policies[spot.value]

    def _spread(self, spot: Spot, key: str) -> Any:
        if not isinstance(spot.value, dict):
            words = key == "service" or spot.value in ("fixed", "exponential", "lognormal")
            return spot.value if words else _duration(spot)
        given = dict(spot.entries())
        ways: dict[frozenset[str], Any] = {
            frozenset(("p50", "p99")): Spread.of,
            frozenset(("edges", "counts")): Spread.from_histogram,
            frozenset(("samples",)): Spread.from_samples,
        }
        values: dict[str, Any] = {}
        for name, value in given.items():
            several = isinstance(value.value, list) and name in ("edges", "samples")
            if several:
                values[name] = [_duration(value.at(place)) for place in range(len(value.value))]
            else:
                values[name] = _duration(value) if name in ("mean", "p50", "p99") else value.value
        way = ways.get(frozenset(given), Spread)
        if way is Spread:
            for name in given:
                if name not in ("kind", "mean", "sigma"):
                    known = ("kind", "mean", "sigma", "p50", "p99", "edges", "counts", "samples")
                    raise spot.unknown(name, "option of a spread", known)
        return self._made(way, values, spot)

    def _trace(self, spot: Spot) -> Any:
        given = dict(spot.entries())
        if list(given) == ["times"]:
            return self._made(Trace, {"times": given["times"].value}, spot)
        if list(given) != ["file"] or not isinstance(given["file"].value, str):
            raise spot.error("must be 'poisson', 'even', { times = [...] } or { file = \"trace.csv\" }")
        if self._folder is None:
            raise given["file"].error("must not be given here, where no file is opened")
        try:
            return Trace.load(os.path.join(self._folder, given["file"].value))
        except OSError as error:
            raise given["file"].error(f"{given['file'].value}: {error.strerror or error}") from None
        except ValueError as error:
            raise given["file"].error(str(error)) from None

    @staticmethod
    def _made(kind: Any, given: dict[str, Any], spot: Spot) -> Any:
        try:
            return kind(**given)
        except ConfigError:
            raise
        except (TypeError, ValueError) as error:
            raise spot.error(str(error)) from None


def _listed(spot: Spot) -> list[Spot]:
    if not isinstance(spot.value, list):
        raise spot.error(f"must be a list of tables, got {shown(spot.value)}")
    return [spot.at(place) for place in range(len(spot.value))]


def _duration(spot: Spot) -> Any:
    if not isinstance(spot.value, str):
        return spot.value
    try:
        return durations.parse(spot.value)
    except ValueError as error:
        raise spot.error(str(error)) from None
