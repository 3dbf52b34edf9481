"""Putting a mutant in the place of a function that is already imported, by exchanging its code object."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType

from .generate import Mutant

#: (file, qualified name, first line): the functions whose code that is.
Index = dict[tuple[str, str, int], list[FunctionType]]


class CannotSwap(Exception):
    """The mutant's code does not fit the function that exists."""


def index(files: set[str]) -> Index:
    """Every function of ``files`` that exists, also those that the collector was told to forget."""
    found: Index = {}
    gc.unfreeze()
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename in files:
            code = thing.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(thing)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _codes(const)


def warm_up(source: str, filename: str) -> None:
    """Do before the fork what every mutant of ``source`` needs."""
    _compiled(source, filename)


def _swap_defaults(old: str, new: str, live: Index, filename: str) -> None:
    """Exchange the default value, a literal, that the mutant changes."""
    trees = [
        [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        for text in (old, new)
    ]
    for before, after in zip(*trees, strict=True):
        first = min([before.lineno, *(d.lineno for d in before.decorator_list)])
        for kind in ("defaults", "kw_defaults"):
            olds, news = getattr(before.args, kind), getattr(after.args, kind)
            for place, (one, other) in enumerate(zip(olds, news, strict=True)):
                if one is None or ast.dump(one) == ast.dump(other):
                    continue
                value = ast.literal_eval(other)
                for (file, _, line), functions in live.items():
                    if (file, line) != (filename, first):
                        continue
                    for function in functions:
                        if function.__name__ != before.name:
                            continue
                        if kind == "defaults":
                            values = list(function.__defaults__ or ())
                            values[place] = value
                            function.__defaults__ = tuple(values)
                        else:
                            name = before.args.kwonlyargs[place].arg
                            function.__kwdefaults__ = {**(function.__kwdefaults__ or {}), name: value}
                return
    raise CannotSwap(filename)


@cache
def _compiled(source: str, filename: str) -> list[CodeType]:
    return list(_codes(compile(source, filename, "exec", dont_inherit=True)))


def put(mutant: Mutant, source: str, filename: str, live: Index) -> None:
    """Make every function that exists run ``mutant`` instead of what it was."""
    mutated = mutant.apply(source)
    try:
        new = list(_codes(compile(mutated, filename, "exec", dont_inherit=True)))
    except SyntaxError:
        raise CannotSwap(mutant.key) from None
    if mutant.is_default:
        _swap_defaults(source, mutated, live, filename)
        return
    old = _compiled(source, filename)
    if len(old) != len(new):
        # A lambda or a comprehension is gone: what stood before and after it keeps its order by name.
        names = [code.co_qualname for code in old]
        new_names = [code.co_qualname for code in new]
        pairs = [
            (code, new[new_names.index(code.co_qualname)])
            for code in old
            if names.count(code.co_qualname) == new_names.count(code.co_qualname) == 1
        ]
    else:
        pairs = list(zip(old, new, strict=True))
    swapped = False
    for before, after in pairs:
        if before == after.replace(co_firstlineno=before.co_firstlineno):
            continue
        for function in live.get((filename, before.co_qualname, before.co_firstlineno), ()):
            if len(before.co_freevars) != len(after.co_freevars):
                if "<locals>" in before.co_qualname:
                    continue
                raise CannotSwap(mutant.key)
            function.__code__ = after
            swapped = True
    if not swapped:
        raise CannotSwap(mutant.key)
