"""The mutants of a module: what mutmut's operators make of the bodies of its functions.

Left alone: functions that only join a thing to its store (`targets.WIRING`), annotations, decorators,
assertions, ``__repr__`` and ``__str__``, what stands outside functions (there is no code to put in
place), docstrings, and the text of messages, by which we mean literals with a space in them and whatever
stands inside an f-string. A literal without a space is a word of the code (``"open"``, ``"timeout"``),
and is mutated.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper, WhitespaceInclusivePositionProvider
from mutmut.mutation.mutators import mutation_operators

from .targets import WIRING

_UNTOUCHED_CALLS = {"len", "isinstance", "cast"}
_TEXT_ONLY = {"__repr__", "__str__"}


@dataclass(frozen=True)
class Mutant:
    """One change: the text ``[start, end)`` of the module's source becomes ``text``."""

    module: str
    function: str
    lines: tuple[int, int]
    start: int
    end: int
    text: str
    before: str
    after: str
    #: Stays the same as long as the function does.
    key: str
    #: Whether it changes the default value of a parameter.
    is_default: bool

    def apply(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]


def _changed(source: str, mutated: str) -> tuple[str, str]:
    """The lines that differ, as one line each."""
    old, new = source.splitlines(), mutated.splitlines()
    while old and new and old[0] == new[0]:
        del old[0], new[0]
    while old and new and old[-1] == new[-1]:
        del old[-1], new[-1]
    return " ".join(map(str.strip, old)), " ".join(map(str.strip, new))


def _is_text(node: cst.BaseExpression) -> bool:
    """Whether ``node`` is part of a message, and no word of the code."""
    if isinstance(node, cst.FormattedString):
        return True
    if not isinstance(node, cst.SimpleString | cst.ConcatenatedString):
        return False
    value = node.evaluated_value
    return value is None or (isinstance(value, str) and " " in value)


def _only_text(before: cst.Call, after: cst.CSTNode) -> bool:
    """Whether all that a call has lost is a message."""
    if not isinstance(after, cst.Call):
        return False
    kept = {id(arg) for arg in after.args}
    lost = [arg.value for arg in before.args if id(arg) not in kept]
    return bool(lost) and all(map(_is_text, lost))


class _Maker(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (WhitespaceInclusivePositionProvider,)

    def __init__(self, module: str, source: str, tree: cst.Module) -> None:
        super().__init__()
        self.mutants: list[Mutant] = []
        self._module = module
        self._source = source
        self._tree = tree
        self._path: list[str] = []
        self._functions: list[cst.FunctionDef] = []
        self._seen: set[str] = set()
        self._offsets = [0]
        for line in source.splitlines(keepends=True):
            self._offsets.append(self._offsets[-1] + len(line))

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            if self._is_left_alone(node):
                return False
            self._path.append(node.name.value)
            if isinstance(node, cst.FunctionDef):
                self._functions.append(node)
            return True
        if isinstance(node, cst.Annotation | cst.Decorator | cst.Assert):
            return False
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
            if node.func.value in _UNTOUCHED_CALLS:
                return False
        if isinstance(node, cst.Param) and node.default is not None and not self._plain(node.default):
            return False
        if isinstance(node, cst.BaseExpression) and _is_text(node):
            return False
        if self._functions and not isinstance(node, cst.Expr):
            self._mutate(node)
        return not (isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString))

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.FunctionDef | cst.ClassDef):
            if self._is_left_alone(original_node):
                return
            self._path.pop()
            if isinstance(original_node, cst.FunctionDef):
                self._functions.pop()

    def _is_left_alone(self, node: cst.FunctionDef | cst.ClassDef) -> bool:
        name = node.name.value
        return name in _TEXT_ONLY or ".".join([*self._path, name]) in WIRING.get(self._module, ())

    @staticmethod
    def _plain(node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.Name | cst.BaseNumber | cst.BaseString)

    def _at(self, line: int, column: int) -> int:
        return self._offsets[line - 1] + column

    def _mutate(self, node: cst.CSTNode) -> None:
        made = [
            mutated
            for kind, operator in mutation_operators
            if isinstance(node, kind)
            for mutated in operator(node)
        ]
        if not made:
            return
        where = self.get_metadata(WhitespaceInclusivePositionProvider, node)
        start, end = (
            self._at(where.start.line, where.start.column),
            self._at(where.end.line, where.end.column),
        )
        outer = self.get_metadata(WhitespaceInclusivePositionProvider, self._functions[0])
        base = self._at(outer.start.line, outer.start.column)
        body = self._source[base : self._at(outer.end.line, outer.end.column)].rstrip()
        lines = (where.start.line, where.end.line)
        inner = self.get_metadata(WhitespaceInclusivePositionProvider, self._functions[-1].body)
        is_default = end <= self._at(inner.start.line, inner.start.column)
        if is_default:
            lines = (outer.start.line, outer.end.line)
        for mutated in made:
            if isinstance(node, cst.Call) and _only_text(node, mutated):
                continue
            text = self._tree.code_for_node(mutated)
            if text == self._source[start:end]:
                continue
            function = ".".join(self._path)
            stem = f"{self._module}\0{function}\0{body}\0{start - base}\0{end - base}\0{text}"
            key = hashlib.sha256(stem.encode()).hexdigest()[:16]
            if key in self._seen:
                continue
            self._seen.add(key)
            whole = self._source[:start] + text + self._source[end:]
            before, after = _changed(self._source, whole)
            self.mutants.append(
                Mutant(self._module, function, lines, start, end, text, before, after, key, is_default)
            )


def mutants_of(module: str, source: str) -> list[Mutant]:
    """Every mutant of ``source``, which is the text of ``module``; a few of them may not even compile."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    maker = _Maker(module, source, wrapper.module)
    wrapper.visit(maker)
    return maker.mutants
