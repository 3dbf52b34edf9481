"""The first lines of a policy's outermost wrapper: are policies off here, has the enclosing scope ended?"""

from __future__ import annotations

from .._context.deadlines import ambient, bypass, switches

#: What these lines use, as names of a template.
GATE_NAMES = {"ambient": ambient, "bypass": bypass, "switches": switches}

GATE = """\
    if (_sp_ambient() is not None or _sp_switches) and _sp_bypass():
        return {await_}_sp_bare({args})
"""
