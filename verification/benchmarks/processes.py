"""Measures what happens before the first call: fresh interpreters, spawned in turn."""

from __future__ import annotations

import subprocess
import sys
import time

from .model import Effort, Figures, Ready

_LIST_MODULES = """\
import sys
_before = set(sys.modules)
{code}
print(*sorted({{name.partition(".")[0] for name in set(sys.modules) - _before}}))
"""


def _spawn(code: str) -> str:
    # -I: neither the environment nor the current directory may change what is imported.
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(last[0])
    return done.stdout


class Processes:
    """Milliseconds from the start of an interpreter that runs a case's code to its end."""

    units = ("ms",)

    def check(self, ready: Ready) -> None:
        # Also writes the bytecode, so that no measured run has to compile.
        _spawn(ready.made)

    def measure(self, cases: list[Ready], effort: Effort) -> dict[str, Figures]:
        best = {ready.case.name: float("inf") for ready in cases}
        for _ in range(effort.spawns):
            for ready in cases:
                began = time.perf_counter()
                _spawn(ready.made)
                best[ready.case.name] = min(best[ready.case.name], time.perf_counter() - began)
        return {name: {"ms": seconds * 1e3} for name, seconds in best.items()}


class Modules:
    """Top-level modules that a case's code loads: those from outside the standard library, and all.

    Its own package does not count as third-party: a case's code imports it by the name in ``needs``,
    or ``stormproof``.
    """

    units = ("third-party", "all")

    def check(self, ready: Ready) -> None:
        _spawn(ready.made)

    def measure(self, cases: list[Ready], effort: Effort) -> dict[str, Figures]:
        return {ready.case.name: self._count(ready) for ready in cases}

    def _count(self, ready: Ready) -> Figures:
        loaded = _spawn(_LIST_MODULES.format(code=ready.made)).split()
        own = ready.case.needs or "stormproof"
        foreign = [name for name in loaded if name not in sys.stdlib_module_names and name != own]
        return {"third-party": len(foreign), "all": len(loaded)}
