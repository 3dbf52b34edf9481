"""From plain data to strategies: everything is checked, and every error says where it is."""

from __future__ import annotations

from .catalog import AMBIENT, FAMILIES, SECTION_OF, SECTIONS, STORE, STRATEGIES, Form
from .errors import ConfigError, Document, Spot, shown, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: Keys at the top of a file beside the sections.
_TOP = ("policies", "store", "scenarios", "$schema")


class Pipeline:
    """The strategies of one policy, outermost first, each with the name of its kind."""

    def __init__(self, spot: Spot) -> None:
        self.spot = spot
        self.kinds: list[str] = []
        self.strategies: list[Any] = []


class Builder:
    """Builds the objects of one document. ``shared`` holds its named budgets, limiters and the like.

    ``store_entry`` is the store in use and the table it was built from: the same table means the same store.
    """

    def __init__(self, document: Document, store_entry: tuple[str, Any] | None = None) -> None:
        self.root = document.root()
        self.shared: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
        #: The file's store, with the text of its table.
        self.store_entry: tuple[str, Any] | None = None
        self._former = store_entry
        self._policy: str | None = None

    def build(self) -> dict[str, Pipeline]:
        """The pipelines of all policies, by name."""
        sections = dict(self.root.entries())
        for key in sections:
            if key not in SECTIONS and key not in _TOP and not key.startswith("x-"):
                raise self.root.unknown(key, "section", ["policies", "store", "scenarios", *SECTIONS])
        if "store" in sections:
            self.store_entry = self._store(sections["store"])
        for section, kind in SECTIONS.items():
            for name, spot in sections[section].entries() if section in sections else ():
                self.shared[section][name] = self._shared(kind, name, spot)
        if "policies" not in sections:
            raise self.root.error("must have a table 'policies'")
        return {name: self._row(name, spot) for name, spot in sections["policies"].entries()}

    def _store(self, spot: Spot) -> tuple[str, Any]:
        text = repr(spot.value)
        if self._former is not None and self._former[0] == text:
            return self._former
        try:
            return text, self._make(STORE, spot)
        except ImportError:
            raise spot.error("needs redis-py: install stormproof[redis]") from None

    def store(self, spot: Spot) -> Any:
        """Return the file's store, for the object at ``spot``."""
        if self.store_entry is None:
            raise spot.error("must not be true without a table [store]")
        return self.store_entry[1]

    def _shared(self, kind: str, name: str, spot: Spot) -> Any:
        if not name or name == "none" or "/" in name:
            raise spot.error(f"must not be called {name!r}")
        self._policy = name
        if kind in FAMILIES:
            return self.part(kind, spot, refer=False)
        return self.strategy(kind, spot, refer=False)

    def _row(self, name: str, spot: Spot) -> Pipeline:
        if not name:
            raise spot.error("a policy must have a name")
        self._policy = name
        pipeline = Pipeline(spot)
        for kind, inner in self._listed(spot):
            if kind not in STRATEGIES:
                raise inner.error(unknown("strategy", kind, [*STRATEGIES, "strategies"]))
            pipeline.kinds.append(kind)
            pipeline.strategies.append(self.strategy(kind, inner))
        return pipeline

    def _listed(self, spot: Spot) -> list[tuple[str, Spot]]:
        """The strategies of a policy in order: its keys, or the items of its list ``strategies``."""
        entries = spot.entries()
        if "strategies" not in dict(entries):
            return entries
        if len(entries) > 1:
            other = next(key for key, _ in entries if key != "strategies")
            raise spot.named(other).error("must be in the list 'strategies' when there is one")
        listed = spot.at("strategies")
        if not isinstance(listed.value, list):
            raise listed.error(
                f"must be a list of tables such as {{ retry = {{}} }}, got {shown(listed.value)}"
            )
        entries = []
        for place in range(len(listed.value)):
            item = listed.at(place)
            inner = item.entries()
            if len(inner) != 1:
                raise item.error(f"must have one key, the strategy's name, got {len(inner)}")
            entries += inner
        return entries

    def strategy(self, kind: str, spot: Spot, refer: bool = True) -> Any:
        """The strategy that ``spot`` describes, or the shared one that it names."""
        section = SECTION_OF.get(kind)
        if refer and section is not None and isinstance(spot.value, str):
            return self._named(section, spot)
        return self._make(STRATEGIES[kind], spot)

    def part(self, family: str, spot: Spot, refer: bool = True) -> Any:
        """The backoff, budget or limiter that ``spot`` describes or names."""
        known = FAMILIES[family]
        if isinstance(spot.value, str) and family in SECTION_OF:
            text = str(spot.value)
            if family == "limiter" and text not in self.shared["limiters"] and "/" in text:
                from .._primitives.rates import parse
                from .._strategies.limiter.limiter import Limiter

                try:
                    return Limiter(*parse(text, "limiter"))
                except ValueError as error:
                    raise spot.error(str(error)) from None
            if refer:
                return self._named(SECTION_OF[family], spot)
        entries = dict(spot.entries())
        kind = known.default
        if "kind" in entries:
            named = entries.pop("kind")
            if not isinstance(named.value, str) or named.value not in known.forms:
                raise named.error(unknown(f"kind of {family}", str(named.value), known.forms))
            kind = str(named.value)
        return self._fill(known.forms[kind], spot, entries)

    def _named(self, section: str, spot: Spot) -> Any:
        name = str(spot.value)
        if name not in self.shared[section]:
            raise spot.error(unknown(f"name in {section}", name, self.shared[section]))
        return self.shared[section][name]

    def _make(self, form: Form, spot: Spot) -> Any:
        if not isinstance(spot.value, dict):
            if form.short is None:
                raise spot.error(f"must be a table, got {shown(spot.value)}")
            return self._fill(form, spot, {form.short: spot})
        return self._fill(form, spot, dict(spot.entries()))

    def _fill(self, form: Form, spot: Spot, entries: dict[str, Spot]) -> Any:
        """An object of ``form`` with the options of ``entries``."""
        given: dict[str, Any] = {}
        for key, inner in entries.items():
            if key in form.code_only:
                raise inner.error("can only be given in code: it is a function")
            if key not in form.options:
                raise inner.error(unknown("option", key, form.options))
            given[key] = form.options[key].read(inner, self)
        self._default_name(form, given)
        try:
            return form.type(**given)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise _at_fault(error, form, spot, entries) from error

    def _default_name(self, form: Form, given: dict[str, Any]) -> None:
        """Errors and events of a breaker or bulkhead without a name of its own say the policy's."""
        if "name" in form.options and "name" not in given and form is not STRATEGIES["chaos"]:
            given["name"] = self._policy


def _at_fault(error: Exception, form: Form, spot: Spot, entries: dict[str, Spot]) -> ConfigError:
    """The constructor's error, at the option that its message names."""
    message = str(error)
    words = message.partition(": ")[2].split()
    field = words[0].partition("[")[0] if words else ""
    if field in entries:
        return entries[field].error(message)
    missing = [name for name, default in form.defaults().items() if _is_missing(name, default, entries)]
    if missing:
        return spot.error(f"must have {' and '.join(map(repr, missing))}")
    return spot.error(message)


def _is_missing(name: str, default: object, entries: dict[str, Spot]) -> bool:
    from .catalog import REQUIRED

    return default is REQUIRED and name not in entries and name not in AMBIENT
