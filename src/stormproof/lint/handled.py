"""Finds the calls whose failures do not reach the retry: a handler inside what is retried keeps them.

``except Exception: raise OwnError`` hides a lost connection from a retry that waits for lost connections. A
handler lets failures pass if it raises them again, or raises what the retry retries.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .statements import calls_in, name_of, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .loops import Loop

#: Errors that all others derive from, or all of a client's.
_BROAD = {"Exception", "BaseException", "RequestException"}


@dataclass(frozen=True, slots=True)
class RetriedErrors:
    """Which errors a retry retries: all of them, or those that ``names`` lists; ``bases`` are a file's."""

    everything: bool
    names: frozenset[str]
    bases: dict[str, set[str]]

    @classmethod
    def by(cls, loop: Loop, bases: dict[str, set[str]]) -> RetriedErrors:
        """Return what ``loop`` retries."""
        names = frozenset(name.rpartition(".")[2] for name in loop.catches or ())
        wide = not names.isdisjoint({"Exception", "BaseException"})
        return cls(bool(loop.everything) or wide, names, bases)

    def covers(self, name: str) -> bool:
        """Return True if an error of class ``name`` is retried, as far as the file shows."""
        if self.everything or name in self.names:
            return True
        derived = getattr(builtins, name, None)
        if isinstance(derived, type) and not self.names.isdisjoint(base.__name__ for base in derived.__mro__):
            return True
        return any(self.covers(base) for base in self.bases.get(name, ()))


def bases_in(tree: ast.Module) -> dict[str, set[str]]:
    """Return the names of the base classes of each class of a file."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {node.name: {name_of(base) for base in node.bases} - {"", node.name} for node in classes}


def handled_calls(body: Sequence[ast.AST], retried: RetriedErrors) -> set[int]:
    """Return the ids of the calls in ``body`` whose failures end in a handler, unseen by the retry."""
    tries = [node for node in walk(body) if isinstance(node, ast.Try)]
    nodes = [inner for node in tries if _keeps(node, retried) for inner in node.body]
    return {id(call) for call in calls_in(nodes)}


def _keeps(node: ast.Try, retried: RetriedErrors) -> bool:
    """Return True if a broad handler of ``node`` keeps the failure, and none above it lets one pass."""
    for handler in node.handlers:
        if _lets_pass(handler, retried):
            return False
        if handler.type is None or not _BROAD.isdisjoint(name_of(n) for n in ast.walk(handler.type)):
            return True
    return False


def _lets_pass(handler: ast.ExceptHandler, retried: RetriedErrors) -> bool:
    for inner in (n for n in walk(handler.body) if isinstance(n, ast.Raise)):
        error = inner.exc.func if isinstance(inner.exc, ast.Call) else inner.exc
        name = "" if error is None else name_of(error)
        if not name or name == handler.name or retried.covers(name):
            return True
    # What a function that is given the error does with it, the text does not show.
    arguments = [argument for call in calls_in(handler.body) for argument in call.args]
    given = {argument.id for argument in arguments if isinstance(argument, ast.Name)}
    return retried.everything and handler.name in given
