"""Rewrites tenacity, backoff and stamina: to ``stormproof.retry`` where that is certain, or to the drop-ins.

Formatting and comments stay as they are. A decorator that is rewritten has the default budget. Needs libcst.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst
import libcst.matchers as m
from libcst.helpers import get_full_name_for_node
from libcst.metadata import MetadataWrapper, QualifiedNameProvider

from . import native_form

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

LIBRARIES = ("tenacity", "backoff", "stamina")
_WIDTH = 100
_MENTION = re.compile(
    r"^\s*(from|import)\s.*\b(tenacity|backoff|stamina)\b|['\"](tenacity|backoff|stamina)\.", re.MULTILINE
)
#: The target of a patch: ``mock.patch("tenacity.nap.time.sleep")``.
_TARGET = re.compile(r"""(\w*['"]+)((?:tenacity|backoff|stamina)(?:\.\w+)+['"]+)""")
_PATCHERS = {"patch", "setattr", "delattr", "multiple"}
_REACHED = re.compile(r"\b(\w+)\.(?:retry|retry_with|statistics)\b")
_SLEEP_PATCHED = re.compile(r"\b(?:patch(?:\.object)?|setattr)\([^)]*(?<!retry\.)\bsleep['\"]")
#: Attributes that tenacity gives a decorated function, and the error that asks it for another attempt.
_TENACITY_NAMES = {"retry_with", "statistics", "retry", "TryAgain"}
#: Stands for every function.
ALL = "*"


def is_worth_fixing(text: str) -> bool:
    """Return True if ``text`` imports one of the libraries, or names one in a string."""
    return _MENTION.search(text) is not None


def reached_into(text: str) -> set[str]:
    """Return the names whose ``retry``, ``retry_with`` or ``statistics`` ``text`` uses, strings included.

    A test that replaces ``sleep`` reaches into every retry: Stormproof's own do not wait by that name.
    """
    return set(_REACHED.findall(text)) | ({ALL} if _SLEEP_PATCHED.search(text) else set())


def fix(source: bytes, kept: Collection[str] = ()) -> bytes:
    """Return ``source`` rewritten; the same bytes where there is nothing to do. Raises for a syntax error.

    Functions called as one of ``kept`` stay under tenacity's drop-in: another file reaches into their retry.
    `ALL` keeps those of all three libraries.
    """
    if not is_worth_fixing(source.decode(errors="replace")):
        return source
    wrapper = MetadataWrapper(cst.parse_module(source))
    uses = _Found(wrapper.resolve(QualifiedNameProvider), wrapper.module, kept)
    wrapper.module.visit(uses)
    module: Any = wrapper.module
    native = uses.native()
    for decorator, text in native.items():
        module = module.deep_replace(decorator.decorator, cst.parse_expression(text))
    used = _Used()
    module.visit(used)
    rewritten: bytes = module.visit(_Rewrite(used.names, bool(native))).bytes
    return rewritten


class _Found(cst.CSTVisitor):
    """Finds the decorators that have a certain meaning here."""

    def __init__(self, names: Any, module: cst.Module, kept: Collection[str]) -> None:
        self._names = names
        self._kept = kept
        self._module = module
        self._decorators: list[tuple[cst.Decorator, str, str]] = []
        self._libraries_in_functions: set[str] = set()
        self._attributes: set[str] = set()
        self._stars: set[str] = set()
        self._depth = 0

    def native(self) -> dict[cst.Decorator, str]:
        """Return the new text of each decorator that is rewritten."""
        return {
            decorator: text
            for decorator, library, text in self._decorators
            if library not in self._libraries_in_functions | self._stars
            and not (library == "tenacity" and self._attributes & _TENACITY_NAMES)
        }

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:  # noqa: N802
        self._depth += 1

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock) -> None:  # noqa: N802
        self._depth -= 1

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:  # noqa: N802
        library = _library_of(node)
        if library is not None and self._depth:
            self._libraries_in_functions.add(library)
        if library is not None and isinstance(node.names, cst.ImportStar):
            self._stars.add(library)

    def visit_Import(self, node: cst.Import) -> None:  # noqa: N802
        for alias in node.names:
            library = alias.evaluated_name.partition(".")[0]
            if library in LIBRARIES and self._depth:
                self._libraries_in_functions.add(library)

    def visit_Attribute(self, node: cst.Attribute) -> None:  # noqa: N802
        if self._name_of(node) not in native_form.READERS:
            self._attributes.add(node.attr.value)

    def visit_ImportAlias(self, node: cst.ImportAlias) -> None:  # noqa: N802
        if node.evaluated_name == "TryAgain":
            self._attributes.add(node.evaluated_name)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:  # noqa: N802
        for decorator in node.decorators:
            call = decorator.decorator
            name = self._name_of(call.func) if isinstance(call, cst.Call) else None
            if name not in native_form.READERS or m.findall(node.body, m.Yield()) or len(node.decorators) > 1:
                continue
            assert isinstance(call, cst.Call) and name is not None
            code = self._module.code_for_node(call)
            use = native_form.Decorator(call, self._name_of, self._module.code_for_node)
            options = None if "#" in code else native_form.READERS[name](use)
            is_kept = ALL in self._kept or (name == "tenacity.retry" and node.name.value in self._kept)
            if options is not None and not is_kept:
                self._decorators.append((decorator, name.partition(".")[0], _written(options, self._depth)))

    def _name_of(self, node: cst.CSTNode) -> str | None:
        names = self._names.get(node, set())
        # libcst computes most of them when they are asked for.
        names = names() if callable(names) else names
        name = next(iter(names)).name if len(names) == 1 else None
        return _public(name)


def _public(name: str | None) -> str | None:
    """Return ``tenacity.wait_fixed`` for ``tenacity.wait.wait_fixed``."""
    if name is None or not name.startswith("tenacity."):
        return name
    return f"tenacity.{name.rpartition('.')[2]}"


def _written(options: list[str], depth: int) -> str:
    line = f"stormproof.retry({', '.join(options)})"
    if 4 * depth + len(line) + 1 <= _WIDTH:
        return line
    # Without the indentation of the block, which libcst adds.
    rows = "".join(f"    {option},\n" for option in options)
    return f"stormproof.retry(\n{rows})"


class _Used(cst.CSTVisitor):
    """Collects the names that are used, imports aside, and the words of strings such as ``__all__``."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_Import(self, node: cst.Import) -> bool:  # noqa: N802
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:  # noqa: N802
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:  # noqa: N802
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:  # noqa: N802
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:  # noqa: N802
        self.names.add(node.value)

    def visit_SimpleString(self, node: cst.SimpleString) -> None:  # noqa: N802
        self.names.update(re.findall(r"\w+", node.value))


def _library_of(node: cst.ImportFrom) -> str | None:
    name = None if node.relative or node.module is None else get_full_name_for_node(node.module)
    root = (name or "").partition(".")[0]
    return root if root in LIBRARIES else None


class _Rewrite(cst.CSTTransformer):
    """Points imports of the libraries, and patches in tests, at the drop-ins, or at ``stormproof``."""

    def __init__(self, used: set[str], native: bool) -> None:
        super().__init__()
        self._used = used
        self._native = native
        self._done = False

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> Any:  # noqa: N802
        if _library_of(original_node) is None:
            return updated_node
        assert updated_node.module is not None
        module = cst.parse_expression(
            f"stormproof.compat.{cst.Module([]).code_for_node(updated_node.module)}"
        )
        if isinstance(updated_node.names, cst.ImportStar) or not self._native:
            return updated_node.with_changes(module=module)
        commented = "#" in cst.Module([]).code_for_node(updated_node)
        aliases = [alias for alias in updated_node.names if commented or self._bound(alias) in self._used]
        if not aliases:
            return cst.RemoveFromParent() if self._done else self._first()[0]
        if len(aliases) < len(updated_node.names):
            aliases[-1] = aliases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        rest = updated_node.with_changes(module=module, names=aliases)
        return rest if self._done else cst.FlattenSentinel([*self._first(), rest])

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        """Give each statement that an import became a line of its own."""
        body = updated_node.body
        if len(body) <= len(original_node.body):
            return updated_node
        lines = [cst.SimpleStatementLine([s.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]) for s in body]
        lines[0] = lines[0].with_changes(leading_lines=updated_node.leading_lines)
        lines[-1] = lines[-1].with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        return cst.FlattenSentinel(lines)

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> Any:  # noqa: N802
        mine = [a for a in updated_node.names if a.evaluated_name.partition(".")[0] in LIBRARIES]
        if not mine:
            return updated_node
        others = [alias for alias in updated_node.names if alias not in mine]
        statements: list[cst.BaseSmallStatement] = []
        if others:
            others[-1] = others[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            statements.append(updated_node.with_changes(names=others))
        drop_ins = [alias for alias in mine if not self._native or self._bound(alias) in self._used]
        statements += [_drop_in(alias) for alias in drop_ins]
        if self._native and not self._done:
            statements = [*self._first(), *statements]
        return cst.FlattenSentinel(statements) if statements else cst.RemoveFromParent()

    def _bound(self, alias: cst.ImportAlias) -> str:
        return alias.evaluated_alias or alias.evaluated_name.partition(".")[0]

    def _first(self) -> list[cst.BaseSmallStatement]:
        self._done = True
        return [cst.Import([cst.ImportAlias(cst.Name("stormproof"))])]

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:  # noqa: N802
        function, args = updated_node.func, updated_node.args
        name = function.attr if isinstance(function, cst.Attribute) else function
        if not (isinstance(name, cst.Name) and name.value in _PATCHERS and args):
            return updated_node
        target = args[0].value
        match = _TARGET.fullmatch(target.value) if isinstance(target, cst.SimpleString) else None
        if match is None:
            return updated_node
        text = cst.SimpleString(f"{match[1]}stormproof.compat.{match[2]}")
        return updated_node.with_changes(args=[args[0].with_changes(value=text), *args[1:]])


def _drop_in(alias: cst.ImportAlias) -> cst.ImportFrom:
    """Return ``from stormproof.compat import tenacity`` for ``import tenacity``."""
    library = alias.evaluated_name.partition(".")[0]
    dotted = alias.evaluated_name if alias.evaluated_alias else library
    home, _, name = f"stormproof.compat.{dotted}".rpartition(".")
    asname = alias.asname
    module = cst.parse_expression(home)
    assert isinstance(module, cst.Attribute)
    return cst.ImportFrom(module=module, names=[cst.ImportAlias(cst.Name(name), asname=asname)])
