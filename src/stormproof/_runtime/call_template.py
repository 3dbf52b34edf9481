"""Writes a wrapper in the wrapped function's own signature.

Passing ``*args, **kwargs`` through costs more than all the rest of a successful call, so the
success path is kept as a short template and compiled once per signature (see `Template`). The
text that is compiled consists of our own constants and the function's parameter names.
"""

from __future__ import annotations

import builtins
from types import CodeType, FunctionType

from .function_kind import GENERATORS, check_awaitable, check_callable, check_result, value_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_POSITIONAL_STAR, _KEYWORD_STAR = 0x04, 0x08


#: The type of every module's ``__spec__``; importing it by name would load more than one class.
_ModuleSpec: Any = type(__spec__)


#: What every wrapper finds where Python finds its builtins: one dict, so that a name that changes at run time
#: changes for all of them, and costs none of them a question.
SHARED_NAMES: dict[str, Any] = dict(vars(builtins))


class WrapperSource:
    """The lines of a wrapper, for tracebacks: those ask the loader in a frame's globals.

    ``spec`` goes there too: Python 3.15 warns of globals that have a loader and no spec.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.spec = _ModuleSpec("stormproof", self)

    def get_source(self, name: str) -> str:
        return self.text


class Template:
    """The text of a wrapper, with these places to fill:

    ``{params}`` the parameter list, ``{args}`` the same passed on, ``{packed}`` the same as
    ``args, kwargs`` for a slower path, ``{async_}`` and ``{await_}`` for the two colours.
    Names in the text start with ``_sp_`` so that no parameter hides them.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._made: dict[tuple[bool, str, str, str, bool, bool], tuple[CodeType, WrapperSource]] = {}

    def build(self, like: Callable[..., Any], is_async: bool, names: dict[str, Any]) -> Callable[..., Any]:
        """A function with ``like``'s signature; ``names`` fill the template's ``_sp_`` names."""
        params, args, packed, defaults = _signature(like)
        # The innermost wrapper of what only calls its first argument does so itself; the outermost one checks
        # what that is, or gives.
        inline = getattr(names.get("call"), "__code__", None) in _APPLIERS
        checks = getattr(like, "__code__", None) in _ENTRIES
        if checks:
            names = {**names, **_CHECK_NAMES}
        key = (is_async, params, args, packed, inline, checks)
        compiled = self._made.get(key)
        if compiled is None:
            compiled = self._compile(key)
            # A program has a bounded number of signatures; one that makes them up must not leak here.
            if len(self._made) < 1024:
                self._made[key] = compiled
        code, source = compiled
        scope = {f"_sp_{name}": value for name, value in {**names, **defaults}.items()}
        scope |= {
            "__name__": "stormproof",
            "__loader__": source,
            "__spec__": source.spec,
            "__builtins__": SHARED_NAMES,
        }
        # A copy each: functions that share a code object spoil each other's inline caches. Defined by a
        # statement, because Python 3.13 does not specialise the calls of a `FunctionType(...)`.
        own = [each.replace() if type(each) is CodeType else each for each in code.co_consts]
        exec(code.replace(co_consts=tuple(own)), scope)
        function: Callable[..., Any] = scope.pop(self.name)
        return function

    def _compile(self, key: tuple[bool, str, str, str, bool, bool]) -> tuple[CodeType, WrapperSource]:
        is_async, params, args, packed, inline, checks = key
        text = self.text.replace("_sp_call({args})", _APPLIED) if inline else self.text
        text = text.format(
            params=params,
            args=args,
            packed=packed,
            async_="async " if is_async else "",
            await_="await " if is_async else "",
        )
        if checks:
            text = text.replace(":\n", ":\n" + (_CHECK_AWAITABLE if is_async else _CHECK_CALLABLE), 1)
        if checks and not is_async:
            text = text.replace("return _sp_result\n", _CHECK_RESULT)
        filename = f"stormproof {'async ' if is_async else ''}{self.name}({params})"
        return compile(text, filename, "exec"), WrapperSource(text)


def apply(fn: Any, /, *args: Any, **kwargs: object) -> Any:
    """Call ``fn``: what a policy compiles to call any function."""
    return fn(*args, **kwargs)


async def apply_async(fn: Any, /, *args: object, **kwargs: object) -> Any:
    """Await a call of ``fn``."""
    return await fn(*args, **kwargs)


def enter(fn: Any, /, *args: object, **kwargs: object) -> Any:
    """`apply` as the outermost wrapper has it: ``fn`` must be a plain function."""
    result = fn(*args, **kwargs)
    return result if type(result) in value_types else check_result(fn, result)


async def enter_async(fn: Any, /, *args: object, **kwargs: object) -> Any:
    """`apply_async` as the outermost wrapper has it: ``fn`` must give something to await."""
    return await fn(*args, **kwargs)


_APPLIERS = (apply.__code__, apply_async.__code__)
_ENTRIES = (enter.__code__, enter_async.__code__)
_APPLIED = "fn(*args, **kwargs)"
_CHECK_AWAITABLE = f"""\
    if type(fn) is not _sp_function or fn.__code__.co_flags & {GENERATORS} or fn.__dict__:
        _sp_check_awaitable(fn)
"""
_CHECK_CALLABLE = """\
    if type(fn) is not _sp_function and not callable(fn):
        _sp_check_callable(fn, "call")
"""
#: A sync call looks at its result, too: calling a coroutine function or a generator function runs nothing.
_CHECK_RESULT = (
    "return _sp_result if type(_sp_result) in _sp_value_types else _sp_check_result(fn, _sp_result)\n"
)
_CHECK_NAMES = {
    "function": FunctionType,
    "check_awaitable": check_awaitable,
    "check_callable": check_callable,
    "value_types": value_types,
    "check_result": check_result,
}

_STARRED: tuple[str, str, str, dict[str, object]] = ("*args, **kwargs", "*args, **kwargs", "args, kwargs", {})


def _signature(like: Callable[..., Any]) -> tuple[str, str, str, dict[str, object]]:
    """(parameters, the same passed on, the same packed, names of the defaults) of a plain function.

    The starred form of anything else.
    """
    code = getattr(like, "__code__", None)
    if type(like) is not FunctionType or code is None:
        return _STARRED
    plain = code.co_argcount
    keyword = plain + code.co_kwonlyargcount
    names = code.co_varnames
    if any(name.startswith("_sp_") or not name.isidentifier() for name in names[: keyword + 2]):
        return _STARRED
    positional, keywords = list(names[:plain]), list(names[plain:keyword])
    rest = keyword
    star = double = ""
    if code.co_flags & _POSITIONAL_STAR:
        star, rest = names[rest], rest + 1
    if code.co_flags & _KEYWORD_STAR:
        double = names[rest]
    given = like.__defaults__ or ()
    by_name = {
        **dict(zip(positional[plain - len(given) :], given, strict=True)),
        **(like.__kwdefaults__ or {}),
    }
    defaults = {f"default_{name}": value for name, value in by_name.items()}
    listed = [f"{name}=_sp_default_{name}" if name in by_name else name for name in names[:keyword]]
    return (
        ", ".join(_parameters(listed[:plain], listed[plain:], star, double, code.co_posonlyargcount)),
        ", ".join(
            [*positional, *([f"*{star}"] if star else []), *(f"{k}={k}" for k in keywords)]
            + ([f"**{double}"] if double else [])
        ),
        "({}), {{{}}}".format(
            "".join(f"{item}, " for item in [*positional, *([f"*{star}"] if star else [])]),
            ", ".join([f"{k!r}: {k}" for k in keywords] + ([f"**{double}"] if double else [])),
        ),
        defaults,
    )


def _parameters(positional: list[str], keywords: list[str], star: str, double: str, only: int) -> list[str]:
    listed = [*positional[:only], *(["/"] if only else []), *positional[only:]]
    if star:
        listed.append(f"*{star}")
    elif keywords:
        listed.append("*")
    listed += keywords
    if double:
        listed.append(f"**{double}")
    return listed
