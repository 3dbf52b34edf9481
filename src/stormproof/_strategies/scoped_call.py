"""The wrapper of a strategy that gives each call a scope: `Deadline` and `Timeout`."""

from __future__ import annotations

from itertools import product

from .._context.deadlines import LEFT, Scope, ambient, reset_ambient, set_ambient, timed_kind
from .._events import bus
from .._runtime.call_template import Template
from .gate import GATE, GATE_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._runtime.interrupts import Timers
    from .protocol import Env

_TEXT = """\
{{async_}}def {name}({{params}}):
{gate}    _sp_scope = _sp_kind()
    _sp_scope.clock = _sp_clock
    _sp_scope.parent = {enclosing}
    _sp_scope.began = _sp_began = _sp_now()
{arm}    _sp_scope.token = _sp_set(_sp_scope)
    try:
{prepare}        _sp_result = {{await_}}_sp_call({{args}})
    except BaseException{error}:
{fail}        raise
{leave}    _sp_scope.token = None
    return _sp_result
"""
#: Its time counts from here on, before it is entered.
_ARM = """\
    _sp_scope.token = _sp_left
    _sp_scope._arm = _sp_arm(_sp_scope, _sp_clock, _sp_began)
"""
#: Nothing interrupts sync code, so there is nothing to disarm, and calls are left in the order of entering.
_FAIL = """\
        _sp_reset(_sp_scope.token)
        _sp_scope.token = _sp_left
        _sp_scope.last_error = None
"""
_FAIL_ASYNC = """\
        _sp_scope.__exit__(type(_sp_error), _sp_error, _sp_error.__traceback__)
"""
_LEAVE = """\
    _sp_reset(_sp_scope.token)
    if _sp_now() - _sp_began > _sp_limit:
        _sp_late(_sp_scope)
"""
#: A coroutine may be driven in another context than it began in: the scope that is in force there stays.
_LEAVE_ASYNC = """\
    try:
        _sp_reset(_sp_scope.token)
    except ValueError:
        pass
    if _sp_scope._arm is not None:
        _sp_scope._arm.disarm(None, None, None)
        _sp_scope._arm = None
"""


def _template(gate: bool, named: bool, checks: bool, is_async: bool) -> Template:
    name = "gated_scope" if gate else "scoped"
    rename = "" if named else "        _sp_scope.name = _sp_operation({packed})\n"
    return Template(
        name,
        _TEXT.format(
            name=name,
            gate=GATE if gate else "",
            enclosing="_sp_around" if gate else "_sp_enclosing()",
            arm=_ARM if is_async else "    _sp_scope._arm = None\n",
            prepare=rename + ("        _sp_check()\n" if checks else ""),
            error=" as _sp_error" if is_async else "",
            fail=_FAIL_ASYNC if is_async else _FAIL,
            leave=_LEAVE_ASYNC if is_async else _LEAVE,
        ),
    )


def _report_late(scope: Scope) -> None:
    """Report a result that came after its limit: nothing interrupts a plain function."""
    if bus.has_listener("Late"):
        bus.publish(
            "Late",
            operation=scope.name,
            limit=scope.limit,
            elapsed=scope.clock.now() - scope.began,
            scope=scope.kind,
        )


_TEMPLATES = {key: _template(*key) for key in product((False, True), repeat=4)}


def scoped(
    kind: type[Scope],
    seconds: float,
    call: Callable[..., Any],
    env: Env,
    like: Callable[..., Any],
    timers: Timers | None,
    check: Callable[[], object] | None,
) -> Callable[..., Any]:
    """``call`` in a scope of ``kind``, with ``timers`` if it is async; ``check`` runs once it is entered.

    Outermost in its policy, it is the gate as well: it looks whether policies are off, or a scope has ended.
    """
    names = {
        **GATE_NAMES,
        "arm": None if timers is None else timers.arm,
        "bare": like,
        "call": call,
        "check": check,
        "enclosing": ambient,
        "kind": timed_kind(kind, seconds, env.name),
        "late": _report_late,
        "left": LEFT,
        "limit": seconds,
        "operation": lambda args, kwargs: env.operation(args),
        "reset": reset_ambient,
        "set": set_ambient,
    }
    if env.clock is not None:
        # In place of the ambient one's, which are shared names.
        names |= {"clock": env.clock, "now": env.clock.now}
    is_async = timers is not None
    template = _TEMPLATES[env.outermost, env.name is not None, check is not None, is_async]
    return template.build(like, is_async, names)
