"""Compilation of the fast engine's kernel, and the cache of compiled code."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import ir  # type: ignore[import-untyped,unused-ignore]
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

Function = TypeVar("Function", bound=Callable[..., Any])

# What is compiled keeps its type; numba's tools for code of one's own have none.
_njit: Any = numba.njit
_tools: Any = cgutils
_array_of: Any = make_array

# Nothing in the kernel allocates or keeps an array, so that no references need counting, and nothing divides
# by what may be 0 unawares.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}


def compiled(function: Function) -> Function:
    """A part of the kernel that is called from one place, or is small: it becomes part of the one loop."""
    dispatcher: Function = _njit(forceinline=True, **_OPTIONS)(function)
    return dispatcher


def apart(function: Function) -> Function:
    """A part of the kernel that is called from several places, and seldom: it stays a function."""
    dispatcher: Function = _njit(**_OPTIONS)(function)
    return dispatcher


def kept(function: Function) -> Function:
    """The kernel itself: kept on disk for the next process, where there is a place for that. Other threads
    run beside it.
    """
    try:
        dispatcher: Function = _njit(cache=True, nogil=True, **_OPTIONS)(function)
    except RuntimeError:
        # Neither beside this file nor in the user's cache directory may anything be written.
        dispatcher = _njit(nogil=True, **_OPTIONS)(function)
    return dispatcher


def stamp() -> str:
    """A name that changes whenever the kernel's source does.

    What is kept on disk is found by the types of the arguments and by the date of one file. As the name of a
    field it makes the types change with all of them.
    """
    try:
        sources = sorted(Path(__file__).parent.glob("*.py"))
        return f"kernel_{zlib.crc32(b''.join(source.read_bytes() for source in sources)):08x}"
    except OSError:
        # A package in an archive: nothing is kept of it either.
        return "kernel"


def _prefetch(typingctx: object, array: Any, index: Any, offset: Any) -> Any:
    """Ask for the memory ``offset`` bytes past ``array[index]``, needed soon. Nothing waits for it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _array_of(array)(context, builder, args[0])
        stride = _tools.unpack_tuple(builder, pointer.strides)[0]
        index_, offset_ = (
            context.cast(builder, arg, kind, numba.types.intp)
            for arg, kind in zip(args[1:], signature.args[1:], strict=True)
        )
        first = builder.ptrtoint(pointer.data, stride.type)
        place = builder.add(builder.add(first, builder.mul(index_, stride)), offset_)
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [_tools.voidptr_t, word, word, word])
        hint = _tools.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # To be written to, kept near, data.
        builder.call(hint, [builder.inttoptr(place, _tools.voidptr_t), word(1), word(3), word(1)])
        return context.get_dummy_value()

    return numba.types.void(array, index, offset), codegen


prefetch: Any = intrinsic(_prefetch)
