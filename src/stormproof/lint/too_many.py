"""A 429 in the code: whether it is retried, and whether the server's ``Retry-After`` is read."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .statements import always_leaves, name_of, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .loops import Loop
    from .statements import Rounds

#: Services that send no Retry-After name the time at which a limit is reset.
_HINTED = re.compile(r"retry.?after|wait_hinted|wait_exception|runtime|reset", re.IGNORECASE)
#: Names of responses, which have headers; an error of a library's own may have none.
_RESPONSE = re.compile(r"_?(\w*_)?(resp|response|res|r|rsp|reply)")
_BROAD = {"Exception", "BaseException"}


def in_loop(node: Rounds, attempt: ast.Try, retried: Sequence[str], text: str) -> str | None:
    """Return "ignored" if a loop goes on after a 429, "unread" if it may, ``None`` if it does not.

    ``text`` is the source of the function around it.
    """
    if _HINTED.search(text):
        return None
    spared: set[int] = set()
    of_responses = {id(inner) for test in _status_tests(node.body) for inner in ast.walk(test)}
    for choice in (n for n in walk(node.body) if isinstance(n, ast.If)):
        branch = _branch_of_429(choice)
        if branch is not None and always_leaves(branch):
            raised = _raised(branch[-1])
            is_tried = any(inner is choice for inner in walk(attempt.body))
            caught = {name.rpartition(".")[2] for name in retried} if is_tried else set()
            if raised is None or not caught & {raised, *_BROAD}:
                spared |= {id(inner) for inner in ast.walk(choice.test)}
    constants = [n for n in walk(node.body) if isinstance(n, ast.Constant) and n.value in (429, "429")]
    if any(id(n) in of_responses and id(n) not in spared for n in constants):
        return "ignored"
    return "unread" if any(id(n) not in spared for n in constants) else None


def in_function(loop: Loop, text: str) -> str | None:
    """Return the same for the function, with source ``text``, that a library retries."""
    if loop.function is None or loop.waits is None or _HINTED.search(text):
        return None
    caught = {name.rpartition(".")[2] for name in loop.catches or ()}
    body = loop.function.node.body
    of_responses = {id(test) for test in _status_tests(body)}
    for choice in (n for n in walk(body) if isinstance(n, ast.If)):
        branch = _branch_of_429(choice) if id(choice.test) in of_responses else None
        raised = _raised(branch[-1]) if branch else None
        if raised and (loop.everything or caught & {raised, *_BROAD}):
            return "ignored"
    constants = [n.value for n in walk(body) if isinstance(n, ast.Constant)]
    return "unread" if 429 in constants or "429" in constants else None


def _status_tests(body: Sequence[ast.AST]) -> list[ast.Compare]:
    """Return the comparisons of a response's status: there its ``Retry-After`` is at hand."""
    assigned = [n for n in walk(body) if isinstance(n, ast.Assign)]
    names = {
        name_of(target)
        for n in assigned
        if any(map(_is_status_of_response, ast.walk(n.value)))
        for target in n.targets
    } - {""}
    tests = [n for n in walk(body) if isinstance(n, ast.Compare)]
    return [
        test
        for test in tests
        if any(_is_status_of_response(inner) or name_of(inner) in names for inner in ast.walk(test))
    ]


def _is_status_of_response(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr not in ("status_code", "status"):
        return False
    return _RESPONSE.fullmatch(name_of(node.value)) is not None


def _branch_of_429(choice: ast.If) -> list[ast.stmt] | None:
    """Return what runs after a status of 429; ``None`` if ``choice`` does not compare with it."""
    for test in (n for n in ast.walk(choice.test) if isinstance(n, ast.Compare)):
        if any(isinstance(n, ast.Constant) and n.value == 429 for n in ast.walk(test)):
            return choice.orelse if isinstance(test.ops[0], (ast.NotEq, ast.NotIn)) else choice.body
    return None


def _raised(statement: ast.stmt) -> str | None:
    """Return the name of the error that ``statement`` raises, "" for one it does not name."""
    if not isinstance(statement, ast.Raise):
        return None
    error = statement.exc
    return "" if error is None else name_of(error.func if isinstance(error, ast.Call) else error)
