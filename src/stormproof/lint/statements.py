"""Questions about statements of a syntax tree: what runs in them, what leaves them, what they are called."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
#: Functions whose call changes nothing for the next round.
REPORTS = {*"debug info warning warn error exception critical log print append str repr format emit".split()}

Rounds = ast.For | ast.While
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*")


def walk(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Every node of ``body`` that runs as part of it: not what functions inside it do later."""
    stack = list(body)
    while stack:
        node = stack.pop()
        if not isinstance(node, _FUNCTIONS):
            yield node
            stack += ast.iter_child_nodes(node)


def calls_in(body: Sequence[ast.AST]) -> list[ast.Call]:
    """Return the calls that run as part of ``body``."""
    return [node for node in walk(body) if isinstance(node, ast.Call)]


def flat(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of ``body``, and those inside its ``with`` blocks."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            yield from flat(statement.body)


def after(node: Rounds, attempt: ast.Try) -> list[ast.stmt]:
    """Return the statements of a loop that stand after its ``try``."""
    return [s for s in node.body if s.lineno > (attempt.end_lineno or 0)]


def always_leaves(body: Sequence[ast.stmt]) -> bool:
    """Return True if the last statement of ``body`` ends the loop around it."""
    return bool(body) and isinstance(body[-1], (ast.Raise, ast.Return, ast.Break))


def ends(statement: ast.stmt) -> bool:
    """Return True if ``statement`` can end the loop around it with a result."""
    if isinstance(statement, ast.Break):
        return True
    return any(
        isinstance(inner, ast.Return) or (isinstance(inner, ast.Break) and not isinstance(statement, Rounds))
        for inner in walk([statement])
    )


def last_acting(body: Sequence[ast.stmt]) -> ast.stmt | None:
    """Return the last statement but for those that count, print, log or sleep."""
    acting = [s for s in body if not isinstance(s, ast.AugAssign) and _acts(s)]
    return acting[-1] if acting else None


def _acts(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr):
        return True
    value = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
    return isinstance(value, ast.Call) and name_of(value.func) not in {*REPORTS, "sleep"}


def name_of(node: ast.AST) -> str:
    """The identifier of a name, or the last one of an attribute; "" for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def words_of(identifier: str) -> list[str]:
    """Return the words of ``snake_case`` and ``CamelCase`` identifiers, in lower case."""
    return [word.lower() for word in _WORDS.findall(identifier)]


def stored_in(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the last identifiers of the names and attributes that ``nodes`` assign to."""
    return _identifiers(nodes, ast.Store)


def loaded_in(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the last identifiers of the names and attributes that ``nodes`` read."""
    return _identifiers(nodes, ast.Load)


def _identifiers(nodes: Sequence[ast.AST], context: type[ast.expr_context]) -> set[str]:
    return {
        name_of(n)
        for n in walk(nodes)
        if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, context)
    }


def assigned_to(amount: ast.expr, scope: ast.AST | None) -> list[ast.AST]:
    """Return what is assigned, anywhere in ``scope``, to the names in ``amount``."""
    mentioned = {inner.id for inner in ast.walk(amount) if isinstance(inner, ast.Name)}
    if scope is None or not mentioned:
        return []
    return [
        inner.value
        for inner in ast.walk(scope)
        if isinstance(inner, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr))
        and inner.value is not None
        and mentioned & {name_of(part) for target in targets(inner) for part in ast.walk(target)}
    ]


def targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr) -> list[ast.expr]:
    """Return the expressions that an assignment binds."""
    return node.targets if isinstance(node, ast.Assign) else [node.target]
