"""Names of a module resolved: imports followed to their dotted names, constants to their values."""

from __future__ import annotations

import ast
import re
from typing import Any

#: A value that the text does not show.
UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda self: "UNKNOWN", "__bool__": lambda self: False})()


#: What ``from ... import *`` binds, as far as readers look for it.
STARS = {
    "tenacity": r"(Async)?Retrying|RetryError|TryAgain|retry|(retry|stop|wait|before|after)_\w+",
    "backoff": r"on_exception|on_predicate|expo|fibo|constant|runtime|full_jitter|random_jitter",
    "stamina": r"retry|retry_context|(Async)?RetryingCaller",
    "retrying": r"retry",
}
#: The drop-ins are read as what they stand in for.
_DROP_INS = "stormproof.compat."


class Names:
    """The imports and module-level constants of one module."""

    def __init__(self) -> None:
        self.imports: dict[str, str] = {}
        #: Libraries of `STARS` all of whose names are imported.
        self._stars: list[str] = []
        self._constants: dict[str, ast.expr | None] = {}

    def add_import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                self.imports[bound] = alias.name if alias.asname else bound
        elif node.level == 0 and node.module:
            for alias in node.names:
                if alias.name == "*":
                    self._stars.append(node.module.removeprefix(_DROP_INS))
                else:
                    self.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def add_constant(self, name: str, value: ast.expr) -> None:
        """A module-level assignment. A name assigned twice stands for an unknown value."""
        self._constants[name] = None if name in self._constants else value

    def dotted(self, node: ast.AST | None) -> str | None:
        """``tenacity.retry`` for whatever the module calls it; a name not imported stands for itself."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        parts.append(self.origin(node.id))
        return ".".join(reversed(parts)).removeprefix(_DROP_INS)

    def origin(self, name: str) -> str:
        """Return the dotted name of what ``name`` is imported from; itself if it is not imported."""
        stars = (star for star in self._stars if re.fullmatch(STARS.get(star, "$"), name))
        star = next(stars, None)
        return self.imports.get(name, name if star is None else f"{star}.{name}")

    def follow(self, node: ast.expr) -> ast.expr:
        """The expression that a module-level constant stands for, else ``node`` itself."""
        for _ in range(5):
            if not isinstance(node, ast.Name):
                break
            value = self._constants.get(node.id)
            if value is None:
                break
            node = value
        return node

    def value(self, node: ast.expr | None) -> Any:
        """The plain value of ``node``: a constant, a collection of them, a range; else `UNKNOWN`."""
        if node is None:
            return UNKNOWN
        node = self.follow(node)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.value(node.operand)
            return -inner if isinstance(inner, (int, float)) else UNKNOWN
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            items = [self.value(item) for item in node.elts]
            return UNKNOWN if any(item is UNKNOWN for item in items) else tuple(items)
        if isinstance(node, ast.Call) and not node.keywords:
            return self._called(node)
        return UNKNOWN

    def options(self, node: ast.expr) -> dict[str, ast.expr] | None:
        """Return the items of a dictionary display with plain keys; ``None`` for anything else."""
        node = self.follow(node)
        if not isinstance(node, ast.Dict):
            return None
        keys = [self.value(key) for key in node.keys]
        return (
            dict(zip(keys, node.values, strict=True)) if all(isinstance(key, str) for key in keys) else None
        )

    def _called(self, node: ast.Call) -> Any:
        name, values = self.dotted(node.func), [self.value(item) for item in node.args]
        if name in ("frozenset", "set", "list", "tuple") and len(values) == 1:
            return values[0] if isinstance(values[0], tuple) else UNKNOWN
        if name == "range" and 1 <= len(values) <= 2 and all(isinstance(v, int) for v in values):
            # HTTP statuses are listed like this; anything longer is not a list of them.
            numbers = range(*values)
            return tuple(numbers) if len(numbers) <= 1000 else UNKNOWN
        return UNKNOWN

    def exceptions(self, node: ast.expr | None) -> tuple[str, ...] | None:
        """The dotted names of an exception class or a tuple of them; ``None`` if it is something else."""
        if node is None:
            return None
        node = self.follow(node)
        items = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
        names = [self.dotted(item) for item in items]
        return None if any(name is None for name in names) else tuple(name for name in names if name)


class Use:
    """One call (or bare decorator) of something that retries, with its arguments by name."""

    def __init__(self, names: Names, node: ast.expr) -> None:
        self.names = names
        self.node = node
        call = node if isinstance(node, ast.Call) else None
        self.positional = [] if call is None else call.args
        spread = [names.options(k.value) for k in call.keywords if k.arg is None] if call else []
        self.keywords = {name: value for given in spread if given for name, value in given.items()}
        self.keywords |= {k.arg: k.value for k in call.keywords if k.arg} if call else {}
        #: Arguments may come from elsewhere, so that one not seen may still be given.
        self.open = None in spread or any(isinstance(a, ast.Starred) for a in self.positional)

    def arg(self, name: str, position: int | None = None) -> ast.expr | None:
        """The expression given for ``name``; ``None`` if it is not given (or cannot be seen)."""
        if name in self.keywords:
            return self.keywords[name]
        if position is not None and position < len(self.positional):
            argument = self.positional[position]
            return None if isinstance(argument, ast.Starred) else argument
        return None

    def value(self, name: str, default: Any, position: int | None = None) -> Any:
        """The plain value of ``name``, ``default`` if it is not given, else `UNKNOWN`."""
        given = self.arg(name, position)
        if given is None:
            return UNKNOWN if self.open else default
        return self.names.value(given)
