"""Runs cells, each in a process of its own with a time limit, a few side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .catalog import GROUPS, PROBES, installed
from .model import BROKEN, NOT, NOT_INSTALLED, Cell

ROOT = Path(__file__).parents[2]
Key = tuple[str, str]


def keys(probes: Iterable[str] = (), libraries: Iterable[str] = ()) -> list[Key]:
    """The cells of ``probes`` and ``libraries``; none named means all."""
    probes, libraries = list(probes), list(libraries)
    columns = {group.name: group.columns for group in GROUPS}
    return [
        (name, library)
        for name, probe in PROBES.items()
        if not probes or name in probes
        for library in columns[probe.group]
        if not libraries or library in libraries
    ]


def cell(key: Key) -> Cell:
    """One cell: what the process said, or that it hung."""
    name, library = key
    probe = PROBES[name]
    if installed(library) is None:
        return Cell("not installed", NOT_INSTALLED)
    if library in probe.lacking:
        return probe.cell(library)
    return in_a_process(
        [sys.executable, "-m", "verification.comparison.single_cell", name, library], probe.limit_s
    )


def in_a_process(command: Sequence[str], limit_s: float) -> Cell:
    """Run ``command``, read the cell it prints last. Past ``limit_s`` it is killed: "hangs" is the fact."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return Cell("hangs", NOT)
    try:
        return Cell(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        tail = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Cell(tail[:200], BROKEN)


def run(
    wanted: Sequence[Key], jobs: int | None = None, each: Callable[[Key], Cell] = cell
) -> Iterator[tuple[Key, Cell]]:
    """The cells in the order of ``wanted``. ``jobs``: how many at once; None takes two per processor.

    Most probes wait most of the time. Many more would disturb each other's clocks.
    """
    with ThreadPoolExecutor(jobs or 2 * (os.cpu_count() or 1)) as pool:
        yield from zip(wanted, pool.map(each, wanted), strict=True)
