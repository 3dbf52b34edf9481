"""From strategies to plain data: the inverse of `build`. Options with their default are left out."""

from __future__ import annotations

from .._strategies.retry.retry import Retry
from .catalog import FAMILIES, REQUIRED, STORE, STRATEGIES, Form, form_of
from .errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .._policy.policy import Policy


class Writer:
    """Writes policies. ``shared`` maps objects that several policies may hold to their names."""

    def __init__(self, shared: dict[int, str] | None = None) -> None:
        self.shared = shared or {}
        self._path: list[str] = []
        self._policy: str | None = None

    def policy(self, policy: Policy) -> dict[str, Any]:
        """The table of one policy: a key for each strategy, or a list where a kind comes twice."""
        self._policy = policy.name
        pairs = [self._strategy(strategy, policy) for strategy in policy.strategies]
        if len(dict(pairs)) == len(pairs):
            return dict(pairs)
        return {"strategies": [{kind: data} for kind, data in pairs]}

    def _strategy(self, strategy: object, policy: Policy) -> tuple[str, Any]:
        match = form_of(STRATEGIES, strategy)
        if match is None:
            self._path = [type(strategy).__name__]
            self.refuse("not a strategy that files know")
        kind, form = match
        self._path = [kind]
        name = self.shared.get(id(strategy))
        if name is not None:
            return kind, name
        data = self._fields(form, strategy, _skipped(strategy, policy))
        if form.short is not None and list(data) == [form.short] and not isinstance(data[form.short], dict):
            return kind, data[form.short]
        return kind, data

    def part(self, family: str, instance: object) -> Any:
        """The table of a backoff, budget or limiter, or the name it is shared under."""
        name = self.shared.get(id(instance))
        return self._part_table(family, instance) if name is None else name

    def _part_table(self, family: str, instance: object) -> dict[str, Any]:
        known = FAMILIES[family]
        match = form_of(known.forms, instance)
        if match is None:
            self.refuse(f"a {type(instance).__name__}, which files do not know")
        kind, form = match
        data = self._fields(form, instance, ())
        return data if kind == known.default else {"kind": kind, **data}

    def table(self, kind: str, instance: object) -> dict[str, Any]:
        """The table of a shared object, in its section."""
        self._path = [kind]
        self._policy = self.shared.get(id(instance))
        if kind in FAMILIES:
            return self._part_table(kind, instance)
        return self._fields(STRATEGIES[kind], instance, ())

    def store(self, store: Any) -> dict[str, Any]:
        """The table ``[store]``; a URL that holds a password is not written."""
        self._path = ["store", "url"]
        if store.address.has_secret:
            self.refuse("a URL that may hold a password; give it as 'env:NAME'")
        self._path = ["store"]
        return {"url": store.address.target, **self._fields(STORE, store, ("url",))}

    def _fields(self, form: Form, instance: object, skipped: tuple[str, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        normal = _defaults(form)
        for name in form.code_only:
            if getattr(instance, name) != normal.get(name):
                self._path.append(name)
                self.refuse("a function")
        for name, value in form.options.items():
            present = getattr(instance, name)
            if name in skipped or present == normal.get(name, REQUIRED):
                continue
            if name == "name" and form is not STRATEGIES["chaos"] and present in (None, self._policy):
                continue
            self._path.append(name)
            data[name] = value.write(present, self)
            self._path.pop()
        return data

    def refuse(self, what: str) -> NoReturn:
        """Raise the error that says why the present value cannot be written."""
        raise ConfigError(f"cannot be written to a file: {what}", key=".".join(self._path))


def _skipped(strategy: Any, policy: Policy) -> tuple[str, ...]:
    """Return the options that the policy itself gave to the strategy, and will give again."""
    if isinstance(strategy, Retry) and strategy.owns_budget:
        return ("budget",)
    retry_budgets = [s.budget for s in policy.strategies if type(s) is STRATEGIES["retry"].type]
    if type(strategy) is STRATEGIES["hedge"].type and any(
        strategy.budget is budget for budget in retry_budgets
    ):
        return ("budget",)
    return ()


def _defaults(form: Form) -> dict[str, Any]:
    """The defaults as an object holds them: normalised, and with what ``None`` stands for filled in."""
    defaults = form.defaults()
    if REQUIRED in defaults.values() or form.home == "Chaos":
        return defaults
    plain = form.type()
    return {name: getattr(plain, name, default) for name, default in defaults.items()}
