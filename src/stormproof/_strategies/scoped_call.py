"""The wrapper of a strategy that gives each call a scope: `Deadline` and `Timeout`."""

from __future__ import annotations

from itertools import product

from .._context.deadlines import enter, leave
from .._runtime.call_template import Template
from .gate import GATE, GATE_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._context.deadlines import Scope
    from .._runtime.interrupts import Timers
    from .protocol import Env

_TEXT = """\
{{async_}}def {name}({{params}}):
{gate}    _sp_scope = _sp_enter(_sp_kind, _sp_clock, _sp_timers)
    try:
{prepare}        _sp_result = {{await_}}_sp_call({{args}})
    except BaseException as _sp_error:
        _sp_scope.__exit__(type(_sp_error), _sp_error, _sp_error.__traceback__)
        raise
    {leave}
    return _sp_result
"""
#: It bounds nothing any more, not even what was started inside.
_LEAVE = """\
_sp_leave(_sp_scope._token)
    _sp_scope._token = None"""


def _template(gate: bool, named: bool, checks: bool, is_async: bool) -> Template:
    name = "gated_scope" if gate else "scoped"
    rename = "" if named else "        _sp_scope.name = _sp_operation({packed})\n"
    return Template(
        name,
        _TEXT.format(
            name=name,
            gate=GATE if gate else "",
            prepare=rename + ("        _sp_check()\n" if checks else ""),
            leave="_sp_scope.__exit__(None, None, None)" if is_async else _LEAVE,
        ),
    )


_TEMPLATES = {key: _template(*key) for key in product((False, True), repeat=4)}


def scoped(
    kind: type[Scope],
    seconds: float,
    call: Callable[..., Any],
    env: Env,
    like: Any,
    timers: Timers | None,
    check: Callable[[], object] | None,
) -> Callable[..., Any]:
    """``call`` in a scope of ``kind``, with ``timers`` if it is async; ``check`` runs once it is entered.

    Outermost in its policy, it is the gate as well: it looks whether policies are off, or a scope has ended.
    """
    names = {
        **GATE_NAMES,
        "bare": like,
        "call": call,
        "check": check,
        "clock": env.clock,
        "enter": enter,
        "kind": type(kind.__name__, (kind,), {"limit": seconds, "name": env.name}),
        "leave": leave,
        "operation": lambda args, kwargs: env.operation(args),
        "timers": timers,
    }
    is_async = timers is not None
    template = _TEMPLATES[env.outermost, env.name is not None, check is not None, is_async]
    return template.build(like, is_async, names)
