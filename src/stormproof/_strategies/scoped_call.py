"""The wrapper of a strategy that gives each call a scope: `Deadline` and `Timeout`."""

from __future__ import annotations

from .._context.deadlines import ambient, bypass, enter
from .._runtime.call_template import Template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._context.deadlines import Scope
    from .._runtime.interrupts import Timers
    from .protocol import Env

_TEXT = """\
{{async_}}def {name}({{params}}):
{gate}    _sp_scope = _sp_enter(_sp_kind, _sp_limit, {operation}, _sp_clock, _sp_timers)
    try:
{check}        _sp_result = {{await_}}_sp_call({{args}})
    except BaseException as _sp_error:
        _sp_scope.__exit__(type(_sp_error), _sp_error, _sp_error.__traceback__)
        raise
    _sp_scope.__exit__(None, None, None)
    return _sp_result
"""
_GATE = """\
    if _sp_ambient() is not None and _sp_bypass():
        return {await_}_sp_bare({args})
"""


def _template(gate: bool, named: bool, checks: bool) -> Template:
    name = "gated_scope" if gate else "scoped"
    return Template(
        name,
        _TEXT.format(
            name=name,
            gate=_GATE if gate else "",
            operation="_sp_name" if named else "_sp_operation({packed})",
            check="        _sp_check()\n" if checks else "",
        ),
    )


_TEMPLATES = {
    (gate, named, checks): _template(gate, named, checks)
    for gate in (False, True)
    for named in (False, True)
    for checks in (False, True)
}


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
        "ambient": ambient,
        "bare": like,
        "bypass": bypass,
        "call": call,
        "check": check,
        "clock": env.clock,
        "enter": enter,
        "kind": kind,
        "limit": seconds,
        "name": env.name,
        "operation": lambda args, kwargs: env.operation(args),
        "timers": timers,
    }
    template = _TEMPLATES[env.outermost, env.name is not None, check is not None]
    return template.build(like, timers is not None, names)
