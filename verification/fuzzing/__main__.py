"""`python -m verification.fuzzing [TARGET ...]`: feed each parser with inputs until one breaks its rule.

With atheris the inputs are guided by the coverage they reach, and every target has a process of its own;
without it Hypothesis makes them, unguided. A full run, of every target and not cut short by the options,
writes verification/report/figures/fuzz.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .catalog import TARGETS
from .guided import FED
from .inputs import reproduction, strategy, unspelt
from .model import Target

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "verification" / "report" / "figures" / "fuzz.json"
WORK = ROOT / "build" / "fuzz"

#: A full run: a million inputs a target, or as many as fit into this time.
INPUTS = 1_000_000
SECONDS = 20.0
_AT_ONCE = 200


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    if options.input is not None:
        TARGETS[options.target[0]].feed(unspelt(options.input))
        sys.stdout.write("holds\n")
        return 0
    guided = importlib.util.find_spec("atheris") is not None and not options.hypothesis
    if not guided:
        sys.stdout.write(
            "Not guided by coverage: Hypothesis makes the inputs"
            f"{'' if options.hypothesis else '. atheris is not installed (pip install stormproof[dev])'}.\n"
        )
    seen: list[tuple[Target, int, float]] = []
    broken: list[str] = []
    for name in options.target or TARGETS:
        began = time.perf_counter()
        fed = (_guided if guided else _unguided)(TARGETS[name], options)
        took = time.perf_counter() - began
        seen.append((TARGETS[name], fed, took))
        broken += [] if fed else [name]
        said = f"{fed:>9,} inputs {took:7.1f} s" if fed else ""
        sys.stdout.write(f"{'holds' if fed else 'BROKEN':<7} {name:<16} {said}\n")
        sys.stdout.flush()
    full = options.inputs >= INPUTS and options.seconds >= SECONDS and not options.target
    if guided and full and not broken:
        _write(seen)
    return 1 if broken else 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m verification.fuzzing", description=__doc__)
    parser.add_argument("target", nargs="*", help=f"all, or some of: {', '.join(TARGETS)}")
    parser.add_argument("--inputs", type=int, default=INPUTS, help="inputs a target (default %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="at most, a target (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="another one makes other inputs (default 1)")
    parser.add_argument("--input", help="feed this one input, as a broken run has printed it")
    parser.add_argument("--hypothesis", action="store_true", help="even where atheris is installed")
    options = parser.parse_args(argv)
    for name in options.target:
        if name not in TARGETS:
            parser.error(f"no target is called {name!r}; there are {', '.join(TARGETS)}")
    for field in ("inputs", "seconds"):
        if not getattr(options, field) > 0:
            parser.error(f"--{field} must be > 0, got {getattr(options, field)}")
    if options.input is not None and len(options.target) != 1:
        parser.error("--input needs the one target that it is for")
    return options


def _guided(target: Target, options: argparse.Namespace) -> int:
    """Run the target's process: how many inputs it was fed. 0 if one broke it, and it is shown."""
    folder = WORK / target.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "verification.fuzzing.guided",
            target.check.__module__,
            target.name,
            str(options.inputs),
            str(options.seconds),
            str(options.seed),
            str(folder),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        check=False,
    )
    if done.returncode == 0 and done.stdout.startswith(FED):
        return int(done.stdout.removeprefix(FED))
    noise = ("INFO:", "WARNING:")
    lines = [line for line in done.stderr.splitlines(keepends=True) if not line.startswith(noise)]
    sys.stdout.write(done.stdout or "".join(lines[-40:]))
    if "--input" not in done.stdout:
        # A hang or too much memory: libFuzzer itself ended it, and left the input behind.
        for kept in folder.glob("broken-*"):
            sys.stdout.write(f"{kept.name}: {reproduction(target, kept.read_bytes())}\n")
    return 0


def _unguided(target: Target, options: argparse.Namespace) -> int:
    """The same by Hypothesis, which knows no time: it is asked for some inputs after the other."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import seed as seeded

    last, fed = b"", 0

    @given(strategy(target))
    def feed(data: bytes) -> None:
        nonlocal last, fed
        last = data
        fed += 1
        target.feed(data)

    end = time.perf_counter() + options.seconds
    for go in itertools.count():
        some = settings(
            max_examples=min(_AT_ONCE, options.inputs - fed),
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        try:
            seeded(f"{options.seed} {go}")(some(feed))()
        except Exception as error:
            sys.stdout.write(f"{type(error).__name__}: {error}\n{reproduction(target, last)}\n")
            return 0
        if fed >= options.inputs or time.perf_counter() > end:
            return fed
    raise AssertionError("unreachable")


def _write(seen: list[tuple[Target, int, float]]) -> None:
    total, took = sum(inputs for _, inputs, _ in seen), sum(took for _, _, took in seen)
    figures = {
        "title": "Fuzzing of every parser",
        "command": "make fuzz",
        "seen": [
            (
                f"{total:,} inputs to {len(seen)} parsers in {took / 60:.0f} minutes, guided by coverage: "
                "no error but the documented ones, no value out of range, no hang"
            ),
            *(f"{target.reads}: {inputs:,} inputs in {took:.0f} s" for target, inputs, took in seen),
        ],
        "machine": f"{os.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()}",
    }
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.stdout.write(f"{FIGURES.relative_to(ROOT)}\n")


if __name__ == "__main__":
    sys.exit(main())
