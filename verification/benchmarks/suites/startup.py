"""What a program pays before its first call: the import, and the first decorated function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from .. import contenders as c
from ..model import Bar, Case, Group
from ..processes import Modules, Processes

_FIRST_USE = {
    "stormproof": "stormproof.retry(on=ConnectionError)(f)",
    "tenacity": "tenacity.retry(stop=tenacity.stop_after_attempt(4))(f)",
    "stamina": "stamina.retry(on=ConnectionError, attempts=4)(f)",
    "backoff": "backoff.on_exception(backoff.expo, ConnectionError, max_tries=4)(f)",
    "nopanic": "nopanic.retry(attempts=4, on=ConnectionError)(f)",
    "opnieuw": "opnieuw.retry(retry_on_exceptions=ConnectionError, max_calls_total=4)(f)",
}


def _nothing() -> str:
    """python -I -c pass."""
    return "pass"


def _import(module: str) -> str:
    """python -I -c 'import ...', the bytecode being there."""
    if module != "stormproof":
        return f"import {module}"
    # An isolated interpreter does not see PYTHONPATH; take the Stormproof that this process sees.
    spec = find_spec("stormproof")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("stormproof is neither installed nor on the path")
    return f"import sys; sys.path.insert(0, {str(Path(spec.origin).parents[1])!r}); import stormproof"


def _first_use(module: str) -> str:
    """The import, then one function decorated with 4 attempts on ConnectionError, not called."""
    return f"{_import(module)}\ndef f(): pass\n{_FIRST_USE[module]}"


def _cases(verb: str, make: Callable[[str], str]) -> tuple[Case, ...]:
    return (
        Case("bare interpreter", _nothing),
        Case(f"{verb} stormproof", partial(make, "stormproof")),
        *(Case(f"{verb} {rival}", partial(make, rival), needs=rival) for rival in c.RIVALS),
    )


GROUPS = [
    Group(
        name="import",
        title="An interpreter that imports it",
        baseline="bare interpreter",
        meter=Processes(),
        cases=_cases("import", _import),
        bars=(Bar("import, ms over a bare interpreter", "import stormproof", 15.0, of="excess"),),
        compare="excess",
    ),
    Group(
        name="first-use",
        title="An interpreter that imports it and decorates a function",
        baseline="bare interpreter",
        meter=Processes(),
        cases=_cases("first use of", _first_use),
        compare="excess",
    ),
    Group(
        name="modules",
        title="Modules loaded by the first use",
        baseline="bare interpreter",
        meter=Modules(),
        cases=_cases("first use of", _first_use),
        bars=(Bar("third-party modules loaded", "first use of stormproof", 0, of="value"),),
        compare="value",
    ),
]
