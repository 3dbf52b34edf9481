"""``python -m verification.mutation [module ...]``: see ``--help``."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from . import swap
from .generate import Mutant, mutants_of
from .page import KILLED, Outcome, reasons, write
from .session import Session
from .targets import LEFT_OUT, MODULES, TESTS

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "stormproof"
BUILD = ROOT / "build" / "mutants"
RESULTS = BUILD / "results.json"


def _load() -> dict[str, dict[str, Any]]:
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}


def _save(results: dict[str, dict[str, Any]]) -> None:
    fresh = RESULTS.with_suffix(".new")
    fresh.write_text(json.dumps(results), encoding="utf-8")
    fresh.replace(RESULTS)


class Run:
    """One go over the mutants that are not settled yet."""

    def __init__(self, modules: list[str], limit_s: float, minutes: float, again: bool) -> None:
        self._modules = modules
        self._limit_s = limit_s
        self._until = time.monotonic() + 60 * minutes
        self._again = again
        self.results = _load()
        self._killers: dict[tuple[str, str], list[str]] = {}

    def __call__(self, session: Session) -> None:
        if session.red:
            print(f"not asked, red without a mutant: {len(session.red)}")
            for nodeid in session.red:
                print(f"    {nodeid}")
        for module in self._modules:
            mutants = mutants_of(module, session.sources[module])
            swap.warm_up(session.sources[module], str(session.files[module]))
            began = saved = time.monotonic()
            for mutant in mutants:
                if time.monotonic() > self._until:
                    print("out of time; run again to go on")
                    _save(self.results)
                    return
                self._one(session, mutant)
                if time.monotonic() > saved + 20:
                    saved = time.monotonic()
                    _save(self.results)
            _save(self.results)
            seen = Counter(str(self.results[m.key]["status"]) for m in mutants if m.key in self.results)
            print(f"{module}: {dict(seen)} in {time.monotonic() - began:.0f} s", flush=True)

    def _one(self, session: Session, mutant: Mutant) -> None:
        tests = session.covering(mutant)
        known = self.results.get(mutant.key)
        place = (mutant.module, mutant.function.partition(".<locals>")[0])
        killers = self._killers.setdefault(place, [])
        first: list[str] = []
        if known is not None:
            killer = str(known["test"])
            if known["status"] in KILLED and known["digest"] == session.test_digests.get(
                killer.partition("::")[0]
            ):
                _note(killers, killer)
                return
            same = known["asked_of"] == _names(session, tests) and float(known["limit"]) >= self._limit_s
            if known["status"] not in KILLED and same and not self._again:
                return
            first = [killer] if killer in session.seconds else []
        order = self._order(session, first, killers, tests)
        if not order:
            status, test, asked, seconds = "uncovered", "", 0, 0.0
        else:
            verdict = session.try_out(mutant, order)
            if verdict.status == "broken":
                print(
                    f"not tried: {mutant.module} {mutant.function}, the fork broke at {verdict.test}",
                    flush=True,
                )
                self.results.pop(mutant.key, None)
                return
            status, test, asked, seconds = verdict.status, verdict.test, verdict.asked, verdict.seconds
        if status in KILLED:
            _note(killers, test)
        self.results[mutant.key] = {
            "status": status,
            "test": test,
            "digest": session.test_digests.get(test.partition("::")[0], ""),
            "asked": asked,
            "seconds": round(seconds, 2),
            "asked_of": _names(session, tests),
            "limit": self._limit_s,
        }

    def _order(self, session: Session, first: list[str], killers: list[str], tests: list[str]) -> list[str]:
        """What killed others in the same function; then the most pointed, while time allows."""
        reached = set(tests)
        quick = [nodeid for nodeid in killers if session.seconds.get(nodeid, 9e9) < self._limit_s / 20]
        front = [nodeid for nodeid in (*first, *quick) if nodeid in reached]
        order = list(dict.fromkeys([*front, *tests]))
        kept: list[str] = []
        sum_s = 0.0
        for nodeid in order:
            # One slow test must not take the time of many quick ones that come after it.
            if sum_s + session.seconds[nodeid] <= self._limit_s or not kept:
                sum_s += session.seconds[nodeid]
                kept.append(nodeid)
        return kept


def _names(session: Session, tests: list[str]) -> str:
    files = sorted({nodeid.partition("::")[0] for nodeid in tests})
    return ",".join(session.test_digests[file] for file in files)


def _note(killers: list[str], test: str) -> None:
    if test in killers:
        killers.remove(test)
    killers.insert(0, test)
    del killers[12:]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verification.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", help="paths under src/stormproof; all of them without")
    parser.add_argument(
        "--limit", type=float, default=5.0, metavar="S", help="seconds of tests asked of a mutant"
    )
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after so many, to be continued")
    parser.add_argument("--again", action="store_true", help="ask survivors again though no test changed")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs found")
    parser.add_argument("--hurry", action="store_true", help="measure only tests never measured before")
    parser.add_argument("--report", action="store_true", help="run nothing: only say how things stand")
    options = parser.parse_args()
    os.chdir(ROOT)
    if options.report:
        return report(options.modules or list(MODULES), whole=not options.modules)
    BUILD.mkdir(parents=True, exist_ok=True)
    if options.fresh:
        RESULTS.unlink(missing_ok=True)
    modules = options.modules or list(MODULES)
    random.seed(0)
    run = Run(modules, options.limit, options.minutes, options.again)
    files = {module: SRC / module for module in MODULES}
    session = Session(ROOT, files, BUILD / "reach.json", options.fresh, options.hurry, run)
    arguments = [
        *TESTS,
        *(f"--ignore-glob={path}" for path in LEFT_OUT),
        "-q",
        "-s",
        "--tb=native",
        "--no-header",
        "-otimeout=0",
        "-pno:cacheprovider",
        "-mnot redis and not browser and not long",
    ]
    return int(pytest.main(arguments, plugins=[session])) or report(modules, whole=not options.modules)


def report(modules: list[str], whole: bool) -> int:
    """Say how things stand; write it down, if every mutant was tried. Return 1 if anything is wrong."""
    mutants = {module: mutants_of(module, (SRC / module).read_text(encoding="utf-8")) for module in modules}
    outcome = Outcome(mutants, _load(), reasons(ROOT / "verification" / "mutation" / "survivors.toml"))
    for module, tally in outcome.tallies.items():
        counts = f"{tally.killed} of {tally.all} killed, {tally.equivalent} equivalent"
        print(f"{module}: {counts}, {tally.score:.1f} %")
    print(f"together: {outcome.total.score:.1f} %")
    faults = outcome.faults()
    for fault in faults:
        print(fault)
    if whole and not outcome.unsettled:
        write(outcome, ROOT)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
