"""Policies by name, from a file: loaded, looked at, and reloaded while they are in use.

`Registry` hands out `ReloadablePolicy` objects: the functions they decorate use the registry's present
version of the policy. A reload first builds and checks everything anew; only then does it retune
the breakers, budgets and limiters in use and exchange the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from .._policy.policy import Policy
from .._runtime.locks import guard
from .._strategies.retry.retry import Retry
from . import sources
from .build import Builder, Pipeline
from .catalog import SECTIONS
from .errors import ConfigError, Document, unknown
from .live_policy import ReloadablePolicy
from .overrides import overridden
from .write import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._runtime.clock import Clock
    from .._runtime.randomness import Rng
    from .._strategies.hedge.hedge import Hedge

    #: Identifies an object from one load to the next: section or policy, kind, name or place.
    Key = tuple[str, ...]

__all__ = ["ConfigError", "Registry", "load", "to_data"]


class Registry(Mapping[str, Policy]):
    """Named policies: a mapping from a name to its policy. Made by `load` or `Registry.from_data`."""

    def __init__(
        self,
        read: Callable[[], Document],
        *,
        environ: Mapping[str, str] | None = None,
        prefix: str = "STORMPROOF",
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        self._read = read
        self._environ = {} if environ is None else environ
        self._prefix = prefix
        self._clock = clock
        self._rng = rng
        self._lock = guard(self)
        self._names: tuple[str, ...] = ()
        #: Policies that a reload removed stay here: functions that they decorate keep the last version.
        self._handles: dict[str, ReloadablePolicy] = {}
        self._texts: dict[str, str] = {}
        self._parts: dict[Key, Any] = {}
        self._shared: dict[str, dict[str, Any]] = {}
        self._store_entry: tuple[str, Any] | None = None
        self.file: str | None = None
        #: Number of times the data was loaded; 1 after the first.
        self.generation = 0
        self._take(read())

    @classmethod
    def from_data(
        cls,
        data: Mapping[str, Any],
        *,
        environ: Mapping[str, str] | None = None,
        prefix: str = "STORMPROOF",
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> Registry:
        """Return a registry of ``data``, which has the shape of a policy file."""
        document = Document(dict(data))
        return cls(lambda: document, environ=environ, prefix=prefix, clock=clock, rng=rng)

    # Reading it.

    def __getitem__(self, name: str) -> Policy:
        if name not in self._names:
            raise KeyError(unknown("policy", str(name), self._names))
        return self._handles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    @property
    def store(self) -> Any:
        """The store of the file's ``[store]``, or ``None``."""
        return None if self._store_entry is None else self._store_entry[1]

    @property
    def budgets(self) -> dict[str, Any]:
        """The shared budgets by name."""
        return dict(self._shared["budgets"])

    @property
    def limiters(self) -> dict[str, Any]:
        """The shared limiters by name."""
        return dict(self._shared["limiters"])

    @property
    def breakers(self) -> dict[str, Any]:
        """The shared breakers by name."""
        return dict(self._shared["breakers"])

    @property
    def bulkheads(self) -> dict[str, Any]:
        """The shared bulkheads by name."""
        return dict(self._shared["bulkheads"])

    def describe(self) -> dict[str, Any]:
        """Every policy and shared object with its live state, as plain data ready for JSON."""
        shared = {
            section: {name: part.describe() for name, part in self._shared[section].items()}
            for section in SECTIONS
            if self._shared[section]
        }
        policies = {name: self[name].describe() for name in self._names}
        store = {} if self.store is None else {"store": self.store.describe()}
        return {"file": self.file, "generation": self.generation, "policies": policies, **store, **shared}

    def dump(self) -> dict[str, Any]:
        """Return the content of a file that describes these policies: `from_data` rebuilds them from it."""
        names = {id(part): name for section in self._shared.values() for name, part in section.items()}
        writer = Writer(names)
        data: dict[str, Any] = {} if self.store is None else {"store": writer.store(self.store)}
        for section, kind in SECTIONS.items():
            for name, part in self._shared[section].items():
                data.setdefault(section, {})[name] = writer.table(kind, part)
        data["policies"] = {name: writer.policy(self[name]) for name in self._names}
        return data

    def __repr__(self) -> str:
        return f"<Registry of {self.file or 'data'}: {', '.join(self._names)}>"

    __eq__ = object.__eq__

    def __hash__(self) -> int:
        return id(self)

    # Taking data in.

    def reload(self, data: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """Take in the file as it is now (or ``data``); return the names of the policies that have changed.

        Breakers, budgets, limiters, bulkheads and whatever else has state keep it and use their new
        options; decorated functions follow. If anything is wrong, it raises and nothing changes.
        """
        if data is None:
            return self._take(self._read())
        document = Document(dict(data))
        changed = self._take(document)
        self._read = lambda: document
        return changed

    def _take(self, document: Document) -> tuple[str, ...]:
        builder = Builder(overridden(document, self._environ, self._prefix), self._store_entry)
        try:
            pipelines = builder.build()
            policies = {name: self._policy(name, pipeline) for name, pipeline in pipelines.items()}
        except BaseException:
            if builder.store_entry is not None and builder.store_entry is not self._store_entry:
                builder.store_entry[1].close()
            raise
        with self._lock:
            changed = self._exchange(pipelines, policies, builder.shared)
            former, self._store_entry = self._store_entry, builder.store_entry
            self.file = document.file
            self.generation += 1
        if former is not None and former is not self._store_entry:
            former[1].close()
        return changed

    def _policy(self, name: str, pipeline: Pipeline) -> Policy:
        """The policy of ``pipeline``, which also suits the functions that were decorated with it before."""
        try:
            policy = Policy(*pipeline.strategies, name=name, clock=self._clock, rng=self._rng)
            if name in self._handles:
                self._handles[name].check_compiles(policy)
            return policy
        except (TypeError, ValueError) as error:
            raise pipeline.spot.error(str(error)) from error

    def _exchange(
        self,
        pipelines: dict[str, Pipeline],
        policies: dict[str, Policy],
        new_parts: dict[str, dict[str, Any]],
    ) -> tuple[str, ...]:
        """Apply the new options to the objects in use. Nothing here can fail: everything is built already."""
        swap = PartSwap(self._parts)
        shared = {
            section: {name: swap.part((section, name), part) for name, part in parts.items()}
            for section, parts in new_parts.items()
        }
        replaced = any(
            shared[section].get(name, part) is not part
            for section, parts in self._shared.items()
            for name, part in parts.items()
        )
        changed = [name for name in self._names if name not in policies]
        for name, policy in policies.items():
            handle, text = self._handles.get(name), repr(pipelines[name].spot.value)
            pipeline = swap.pipeline(
                name, pipelines[name].kinds, policy.strategies, handle.strategies if handle else ()
            )
            hedge_budget = swap.part(("policies", name, "hedges"), policy.hedge_budget)
            if handle is not None and name in self._names and self._texts[name] == text and not replaced:
                continue
            changed.append(name)
            self._texts[name] = text
            policy = policy.with_pipeline(pipeline, hedge_budget)
            if handle is None:
                self._handles[name] = ReloadablePolicy(policy)
            else:
                handle.follow(policy)
        self._parts = swap.parts_in_use(policies)
        self._names, self._shared = tuple(policies), shared
        return tuple(changed)


class PartSwap:
    """Replaces the objects that a reload has built by those in use, retuned."""

    def __init__(self, parts: dict[Key, Any]) -> None:
        self._before = parts
        self._after: dict[Key, Any] = {}
        #: By the identity of the new object; the pairs keep both alive, so no identity comes twice.
        self._live: dict[int, tuple[Any, Any]] = {}

    def part(self, key: Key, new: object) -> Any:
        """Return the object in use under ``key``, with the options of ``new``; else ``new`` itself."""
        if id(new) in self._live:
            return self._live[id(new)][1]
        live = self._before.get(key)
        if live is None or not retune(live, new):
            live = new
        self._after[key] = live
        self._live[id(new)] = new, live
        return live

    def pipeline(
        self, policy: str, kinds: list[str], strategies: tuple[Any, ...], former: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Return the strategies of ``policy``, with the objects in use in them. ``former``: those so far."""
        keys = list(_keys(policy, kinds, strategies))
        pipeline = list(strategies)
        for place, (key, strategy) in enumerate(zip(keys, strategies, strict=True)):
            if kinds[place] == "retry":
                pipeline[place] = self._retry((*key, "budget"), strategy, former)
            elif kinds[place] == "rate_limit":
                pipeline[place] = strategy.replace(limiter=self.part((*key, "limiter"), strategy.limiter))
            elif kinds[place] == "hedge":
                pipeline[place] = self._hedge(key, strategy)
            else:
                pipeline[place] = self.part(key, strategy)
        return tuple(pipeline)

    def _retry(self, key: Key, retry: Any, former: tuple[Any, ...]) -> Any:
        if retry.budget is None:
            return retry
        if retry.owns_budget:
            # The default of all policies of this name; they share it, and no file may retune it.
            self._live[id(retry.budget)] = retry.budget, retry.budget
            return retry
        if key not in self._before and id(retry.budget) not in self._live:
            for strategy in former:
                if isinstance(strategy, Retry) and strategy.owns_budget:
                    retry.budget.inherit(strategy.budget)
        return retry.replace(budget=self.part(key, retry.budget))

    def _hedge(self, key: Key, hedge: Hedge) -> Hedge:
        if hedge.budget is not None:
            hedge = hedge.replace(budget=self.part((*key, "budget"), hedge.budget))
        live: Hedge = self.part(key, hedge)
        return live

    def parts_in_use(self, policies: Mapping[str, Policy]) -> dict[Key, Any]:
        """Return the parts in use for the next reload: those of this one, and those without a policy now."""
        absent = {
            key: part for key, part in self._before.items() if key[0] == "policies" and key[1] not in policies
        }
        return {**absent, **self._after}


def retune(live: Any, wanted: Any) -> bool:
    """Give ``live`` the options of ``wanted``, if it has state to keep and keeps it in the same place."""
    if type(live) is not type(wanted) or _is_stored_elsewhere(live, wanted):
        return False
    return live is wanted or live.retune(wanted)


def _is_stored_elsewhere(live: Any, wanted: Any) -> bool:
    """Return True if ``wanted`` has its state in another store, or under another name there."""
    homes = [getattr(part, "store", None) for part in (live, wanted)]
    return homes[0] is not homes[1] or (homes[0] is not None and live.name != wanted.name)


def _keys(policy: str, kinds: list[str], strategies: tuple[Any, ...]) -> Iterator[Key]:
    """Yield the key of each strategy, stable from one load to the next: kind, name, and position."""
    counts: dict[Key, int] = {}
    for kind, strategy in zip(kinds, strategies, strict=True):
        label = getattr(strategy, "name", None)
        key = ("policies", policy, kind, "" if label in (None, policy) else str(label))
        counts[key] = counts.get(key, 0) + 1
        yield (*key, str(counts[key]))


def load(
    file: str | os.PathLike[str],
    *,
    environ: Mapping[str, str] | None = None,
    prefix: str = "STORMPROOF",
    clock: Clock | None = None,
    rng: Rng | None = None,
) -> Registry:
    """The policies in ``file``: TOML, JSON or YAML by its suffix.

    Variables of ``environ`` (``None``: the process's) that begin with ``prefix`` change single
    options. ``clock`` and ``rng`` go to every policy, for tests. Raises `ConfigError` with file,
    line and key.
    """
    path = os.fspath(file)
    return Registry(
        lambda: sources.read(path),
        environ=os.environ if environ is None else environ,
        prefix=prefix,
        clock=clock,
        rng=rng,
    )


def to_data(policy: Policy) -> dict[str, Any]:
    """The table that describes ``policy`` in a policy file; `ConfigError` if a file cannot hold it."""
    return Writer().policy(policy)
