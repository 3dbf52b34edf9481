"""Assertions about runs: ``availability > 0.99 and recovery_time < 30``. Read as a tree, never executed."""

from __future__ import annotations

import ast
import operator

from ._outcome import CommandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..lab import Result

_LONGEST = 1000
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Assertion:
    """One assertion about runs: comparisons of figures, joined by ``and``, ``or`` and ``not``.

    A bare figure is about every policy, ``name.figure`` (or ``'a name'.figure``) about one. A figure that a
    run does not have, such as the recovery time of one that collapsed, makes each comparison with it false.
    """

    def __init__(self, text: str, policies: Sequence[str]) -> None:
        self.text = text
        self.runs = self.held = 0
        self._policies = policies
        try:
            if len(text) > _LONGEST:
                raise SyntaxError
            self._tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise CommandError(
                f"--assert: must read like 'availability > 0.99 and recovery_time < 30', got {text[:100]!r}"
            ) from None
        self._about = {named for node in ast.walk(self._tree) if (named := _policy_of(node)) is not None}
        for name in self._about:
            if name not in policies:
                from .._config.errors import unknown

                raise CommandError(f"--assert: {unknown('policy', name, policies)}")

    def holds(self, results: Sequence[Result]) -> bool:
        """Return True if it holds in every run that it is about."""
        seeds = dict.fromkeys(result.seed for result in results)
        for seed in seeds:
            row = {result.name: result for result in results if result.seed == seed}
            for own in [row[name] for name in self._policies] if not self._about else [None]:
                self.runs += 1
                self.held += bool(self._value(self._tree, own, row))
        return self.held == self.runs

    def _value(self, node: ast.AST, own: Result | None, row: dict[str, Result]) -> Any:
        if isinstance(node, ast.BoolOp):
            values = (self._value(part, own, row) for part in node.values)
            return all(values) if isinstance(node.op, ast.And) else any(values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            value = self._value(node.operand, own, row)
            return not value if isinstance(node.op, ast.Not) else None if value is None else -value
        if isinstance(node, ast.Compare):
            return self._compare(node, own, row)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            left, right = self._value(node.left, own, row), self._value(node.right, own, row)
            return None if left is None or right is None else self._compute(node, left, right)
        if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float, str)):
            return node.value
        if isinstance(node, ast.Name):
            if own is None:
                raise CommandError(f"--assert: {node.id} must say of which policy, as in {self.text[:100]!r}")
            return self._figure(own, node.id)
        if isinstance(node, ast.Attribute) and (name := _policy_of(node)) is not None:
            return self._figure(row[name], node.attr)
        raise CommandError(f"--assert: cannot be part of a claim: {ast.unparse(node)[:100]!r}")

    def _compare(self, node: ast.Compare, own: Result | None, row: dict[str, Result]) -> bool:
        left = self._value(node.left, own, row)
        for sign, part in zip(node.ops, node.comparators, strict=True):
            right = self._value(part, own, row)
            if type(sign) not in _COMPARISONS:
                raise CommandError(
                    f"--assert: must compare with <, <=, >, >=, == or !=, got {self.text[:100]!r}"
                )
            try:
                holds = left is not None and right is not None and _COMPARISONS[type(sign)](left, right)
            except TypeError:
                raise CommandError(f"--assert: compares a text with a number: {self.text[:100]!r}") from None
            if not holds:
                return False
            left = right
        return True

    def _compute(self, node: ast.BinOp, left: object, right: object) -> Any:
        try:
            return _ARITHMETIC[type(node.op)](left, right)
        except (TypeError, ArithmeticError):
            raise CommandError(f"--assert: cannot be computed: {self.text[:100]!r}") from None

    @staticmethod
    def _figure(result: Result, name: str) -> Any:
        if name not in result.metrics or isinstance(result.metrics[name], dict):
            from .._config.errors import unknown

            known = [figure for figure, value in result.metrics.items() if not isinstance(value, dict)]
            raise CommandError(f"--assert: {unknown('figure', name, known)}")
        return result.metrics[name]


def _policy_of(node: ast.AST) -> str | None:
    """The policy that ``name.figure`` or ``'a name'.figure`` is about."""
    match node:
        case ast.Attribute(value=ast.Name(id=name) | ast.Constant(value=str(name))):
            return name
    return None
