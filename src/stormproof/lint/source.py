"""Reads a Python module: one walk over its tree, out of which come its retries."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from . import byhand, clients, libraries, ours, sdks, too_many
from .findings import Place, lines_of
from .handled import RetriedErrors, bases_in, handled_calls
from .loops import Function, Loop
from .names import Names, Use
from .remote import Reach
from .statements import Rounds

if TYPE_CHECKING:
    from collections.abc import Callable

READERS: dict[str, Callable[[Use, str], Loop | None]] = {
    **libraries.READERS,
    **clients.READERS,
    **ours.READERS,
}

#: A file that holds none of these holds nothing to find, and is not even parsed.
TRIGGERS = ("sleep", "retry", "Retry", "backoff", "stamina", "tenacity", "stormproof")
#: A loop that may try again at once.
_LOOPS = re.compile(r"\bwhile (True|1)\b|\bin range\(")

#: What keeps state from one call to the next, and so must not be made in each.
_STATEFUL = {"stormproof.Policy", "stormproof.Breaker", "stormproof.Budget", "stormproof.Limiter"}
#: Functions that make things, and those that run once.
_MAKERS = re.compile(
    r"^_?(make|create|build|get|new|setup|set_up|init|main|test|from|default|configure)|__init__"
)


def worth_reading(text: str) -> bool:
    """Return True if ``text`` mentions anything that lint knows."""
    if any(trigger in text for trigger in TRIGGERS):
        return True
    return "except" in text and _LOOPS.search(text) is not None


class Module:
    """A parsed module: its names, its functions and its retries, in the order of the source."""

    def __init__(self, text: str, *, strict: bool = False) -> None:
        self.text = text
        #: A guess is evidence too.
        self.strict = strict
        self.lines = lines_of(text)
        self.names = Names()
        self.functions: dict[tuple[str | None, str], Function] = {}
        self.loops: list[Loop] = []
        #: What each name that a call is assigned to does by default, by the function or the class it is in.
        self._clients: dict[str, list[tuple[Function | None, str | None]]] = {}
        self._calls: list[tuple[ast.Call, Function | None]] = []
        self._rounds: list[tuple[Rounds, Function | None]] = []
        self._decorated: list[tuple[ast.expr, Function]] = []
        self._assigned: list[tuple[ast.Assign, Function | None]] = []
        tree = ast.parse(text)
        self._walk(tree)
        self._bases = bases_in(tree)
        self._reach = Reach(tree, self.names, self.functions, guesses=strict)
        self._read()

    def segment(self, node: ast.AST | None) -> str:
        """The lines that ``node`` stands on; "" for none."""
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        return "\n".join(self.lines[first - 1 : last]) if node is not None else ""

    def handled_in(self, loop: Loop) -> set[int]:
        """Return the ids of the calls whose failures a handler inside ``loop`` keeps from it."""
        body = loop.body if loop.by_hand or loop.function is None else loop.function.node.body
        return handled_calls(body, RetriedErrors.by(loop, self._bases))

    def _walk(self, tree: ast.Module) -> None:
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                if isinstance(statement.targets[0], ast.Name):
                    self.names.add_constant(statement.targets[0].id, statement.value)
        stack: list[tuple[ast.AST, Function | None, str | None]] = [(tree, None, None)]
        while stack:
            node, function, owner = stack.pop()
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                inner = Function(node.name, owner, node)
                self.functions.setdefault((owner, node.name), inner)
                self._decorated += [(decorator, inner) for decorator in node.decorator_list]
                # What stands in the decorators runs in the scope outside.
                stack += [(decorator, function, owner) for decorator in node.decorator_list]
                stack += [(child, inner, owner) for child in [*node.body, node.args]]
                continue
            self._note(node, function)
            if isinstance(node, ast.ClassDef):
                owner = node.name
            stack += [(child, function, owner) for child in ast.iter_child_nodes(node)]

    def _note(self, node: ast.AST, function: Function | None) -> None:
        if isinstance(node, ast.Call):
            self._calls.append((node, function))
            if function is not None:
                function.calls.append(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self.names.add_import(node)
        elif isinstance(node, (ast.For, ast.While)):
            self._rounds.append((node, function))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            # Decided in `_read`, when all imports are known.
            self._assigned.append((node, function))

    def _read(self) -> None:
        decorating = {id(node): function for node, function in self._decorated}
        for call, around in self._calls:
            self._add(call, call.func, decorating.get(id(call)), around)
        for node, decorated in self._decorated:
            if not isinstance(node, ast.Call):
                self._add(node, node, decorated)
                self._add_named(node, decorated)
        for rounds, function in self._rounds:
            scope = None if function is None else function.node
            loop = byhand.read(rounds, self.names, scope, self.segment(scope or rounds))
            self._add_by_hand(loop, function)
        for function in self.functions.values():
            self._add_by_hand(byhand.read_recursion(function, self.names), function)
        for assigned, inside in self._assigned:
            self._add_client(assigned, inside)
            if inside is not None:
                self._add_made_per_call(assigned, inside)
        self.loops.sort(key=lambda loop: loop.place)

    def _add_by_hand(self, loop: Loop | None, function: Function | None) -> None:
        if loop is not None:
            loop.function = function
            loop.remote = loop.any_status or self._reach.leaves_machine(
                loop.body, loop.catches or (), function, RetriedErrors.by(loop, self._bases)
            )
            self.loops.append(loop)

    def _add(
        self, node: ast.expr, called: ast.expr, function: Function | None, around: Function | None = None
    ) -> None:
        """A retry of a library: it decorates ``function``, or is made in the function ``around`` it."""
        if function is not None and self._is_method(called, function):
            return
        label = self.names.dotted(called)
        reader = None if label is None else READERS.get(label)
        if reader is None or label is None:
            return
        if not isinstance(node, ast.Call) and label.startswith(("stormproof.", "urllib3.")):
            return
        loop = reader(Use(self.names, node), label)
        never_retries = function is not None and function.is_generator
        if loop is not None and not (never_retries and loop.library in libraries.BLIND_TO_GENERATORS):
            loop.function, loop.maker = function, around
            retried = function or around
            evidence = (*(loop.catches or ()), loop.library)
            if function is not None and loop.library in libraries.GENERAL and loop.hints is None:
                loop.hints = too_many.in_function(loop, self.segment(function.node))
            if retried is not None and retried.is_abstract:
                loop.remote = False
            elif retried is not None and not retried.is_stub:
                # A retry that is made in a function does not retry all of it.
                sees = None if function is None else RetriedErrors.by(loop, self._bases)
                loop.remote = self._reach.library_retry_leaves_machine(retried, evidence, sees)
            elif retried is None and loop.library in libraries.GENERAL:
                loop.remote = self._reach.leaves_machine_at_import(evidence)
            self.loops.append(loop)

    def _is_method(self, called: ast.expr, decorated: Function) -> bool:
        """Return True if ``called`` is a method of the decorated one's class, not an import."""
        if decorated.owner is None or not isinstance(called, ast.Name):
            return False
        method = self.functions.get((decorated.owner, called.id))
        return method is not None and method.node.lineno < called.lineno

    def _add_named(self, node: ast.expr, function: Function) -> None:
        """``@policy``, where ``policy`` is a constant of the module that holds a retry."""
        call = self.names.follow(node)
        if not isinstance(call, ast.Call):
            return
        self._add(call, call.func, function)
        if self.names.dotted(call.func) == "stormproof.Policy":
            for strategy in map(self.names.follow, call.args):
                if isinstance(strategy, ast.Call):
                    self._add(strategy, strategy.func, function)

    def client_of(self, called: str, function: Function) -> tuple[str, str] | None:
        """Return the client, and its retries by default, that ``called`` in ``function`` is a method of.

        ``None`` if it may be another one: one that another function holds, or that is made in two ways.
        """
        for name, defaults in self._clients.items():
            if called.startswith(name + "."):
                own = [default for home, default in defaults if _is_seen(name, home, function)]
                if own and all(own) and own[0] is not None:
                    return name, own[0]
        return None

    def _add_client(self, node: ast.Assign, function: Function | None) -> None:
        call = node.value
        assert isinstance(call, ast.Call)
        constructor = self.names.dotted(call.func)
        use = Use(self.names, call)
        known = constructor is not None and not use.open
        default = sdks.default_retries(constructor, set(use.keywords)) if known and constructor else None
        for name in map(self.names.dotted, node.targets):
            if name is not None:
                self._clients.setdefault(name, []).append((function, default))

    def _add_made_per_call(self, node: ast.Assign, function: Function) -> None:
        """``policy = Policy(...)`` in a function that calls through it: its budget lasts one call."""
        call, target = node.value, node.targets[0]
        assert isinstance(call, ast.Call)
        label = self.names.dotted(call.func)
        if label not in _STATEFUL or not isinstance(target, ast.Name) or _MAKERS.search(function.name):
            return
        uses = [n for n in ast.walk(function.node) if isinstance(n, ast.Name) and n.id == target.id]
        called = {id(n.func.value) for n in function.calls if isinstance(n.func, ast.Attribute)}
        used = [n for n in uses if isinstance(n.ctx, ast.Load)]
        if used and all(id(n) in called for n in used):
            self.loops.append(Loop("stormproof", label, Place.of(call), per_call=True))


def _is_seen(name: str, home: Function | None, function: Function) -> bool:
    """Return True if ``name``, assigned in ``home``, is the same thing in ``function``."""
    if home is None:
        return True
    if name.startswith(("self.", "cls.")):
        return home.owner == function.owner
    return home.node.lineno <= function.node.lineno <= (home.node.end_lineno or 0)
