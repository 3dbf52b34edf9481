"""A pytest that has collected everything, and is forked for each mutant."""

from __future__ import annotations

import difflib
import gc
import hashlib
import importlib
import json
import mmap
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import coverage
import pytest

from . import swap
from .generate import Mutant
from .targets import EXAMPLES, FIRST, SLOWEST_S

if TYPE_CHECKING:
    from hypothesis import settings

#: A test that takes more processor time than this, beyond what it took unchanged, goes round in circles.
_CPU_S = 3.0
_WALL_S = 15.0
_MEMORY = 2 << 30
_LONGEST_S = 300
_TICKS = os.sysconf("SC_CLK_TCK")
#: How a fork ends that has not come to the end of its tests.
_FAILED, _BROKEN, _UNFIT = 1, 2, 3


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def is_current(seen: list[Any], test_digest: str, versions: dict[str, str]) -> bool:
    """Return True if a test was measured as it is now, with the code that it reaches as it is now."""
    _, _, lines, old_digest, old_versions = seen
    return old_digest == test_digest and all(old_versions[name] == versions.get(name) for name in lines)


def moved(was: str, now: str) -> dict[int, list[int]]:
    """Line of the old text: the lines of the new one that it stands for."""
    old, new = was.splitlines(), now.splitlines()
    match = difflib.SequenceMatcher(None, old, new, autojunk=False)
    places: dict[int, list[int]] = {}
    for _, a, a_end, b, b_end in match.get_opcodes():
        if a_end - a == b_end - b:
            for n in range(a_end - a):
                places.setdefault(a + n + 1, []).append(b + n + 1)
        elif b_end > b:
            for n in range(a + 1, a_end + 1) if a_end > a else [max(a, 1)]:
                places.setdefault(n, []).extend(range(b + 1, b_end + 1))
    return places


class Verdict:
    """What became of a mutant: ``killed`` by ``test``, ``timeout`` in it, ``survived``.

    ``unfit``: it cannot be put in place. ``broken``: not the test failed, but what runs it.
    """

    def __init__(self, status: str, test: str, asked: int, seconds: float) -> None:
        self.status = status
        self.test = test
        self.asked = asked
        self.seconds = seconds


class Session:
    """The plugin: takes over from pytest's own loop when everything has been collected."""

    def __init__(
        self,
        root: Path,
        files: dict[str, Path],
        cache: Path,
        afresh: bool,
        hurry: bool,
        work: Callable[[Session], None],
    ) -> None:
        self._root = root
        self.files = files
        #: As they are now: whoever edits them meanwhile does not get into the way.
        self.sources = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
        self._versions = {
            name: hashlib.sha256(source.encode()).hexdigest()[:16] for name, source in self.sources.items()
        }
        self._cache = cache
        self._afresh = afresh
        self._hurry = hurry
        self._work = work
        self._failed = False
        self.items: dict[str, pytest.Item] = {}
        self.seconds: dict[str, float] = {}
        #: file: line: the tests that reach it.
        self.reach: dict[str, dict[int, list[str]]] = {}
        #: How many lines of each module a test reaches.
        self.width: dict[str, dict[str, int]] = {}
        self.red: list[str] = []
        self.test_digests: dict[str, str] = {}

    # What pytest calls.

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            _tame(item)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = True

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        self.items = {item.nodeid: item for item in session.items}
        for nodeid in self.items:
            file = nodeid.partition("::")[0]
            if file not in self.test_digests:
                self.test_digests[file] = digest(self._root / file)
        for path in self.files.values():
            module = path.relative_to(self._root / "src").with_suffix("")
            importlib.import_module(".".join(module.parts))
        self._measure()
        self._live = swap.index({str(file) for file in self.files.values()})
        gc.collect()
        gc.freeze()
        self._work(self)
        return True

    # Which tests reach what, and how long they take.

    def _measure(self) -> None:
        """Run the tests that have changed since they were last measured, or whose code has; all, ``afresh``.

        In a hurry, changed code is not measured again: a line has the tests of what it was, or of the line
        above it. A line that is new may then seem to be reached by fewer tests than it is.
        """
        known: dict[str, Any] = {}
        if self._cache.is_file() and not self._afresh:
            known = json.loads(self._cache.read_text(encoding="utf-8"))
        fresh = [item for nodeid, item in self.items.items() if not self._is_known(nodeid, known.get(nodeid))]
        if fresh:
            print(f"running {len(fresh)} tests to see what they reach", flush=True)
            out = self._cache.with_suffix(".fresh")
            pid = os.fork()
            if pid == 0:
                _exit_after(lambda: self._trace(fresh, out))
            _, status = os.waitpid(pid, 0)
            if status:
                raise SystemExit(f"the measuring run ended with {status}")
            known.update(json.loads(out.read_text(encoding="utf-8")))
            out.unlink()
            self._cache.write_text(json.dumps(known), encoding="utf-8")
        moves: dict[tuple[str, str], dict[int, list[int]]] = {}
        for nodeid in self.items:
            seconds, passed, lines, _, versions = known[nodeid]
            if not passed:
                self.red.append(nodeid)
            elif seconds <= SLOWEST_S:
                self.seconds[nodeid] = seconds
                self.width[nodeid] = {name: len(numbers) for name, numbers in lines.items()}
                for name, numbers in lines.items():
                    self._reached(nodeid, name, numbers, versions[name], moves)

    def _is_known(self, nodeid: str, seen: list[Any] | None) -> bool:
        if seen is None or self._hurry:
            return seen is not None
        return is_current(seen, self.test_digests[nodeid.partition("::")[0]], self._versions)

    def _reached(
        self,
        nodeid: str,
        name: str,
        numbers: list[int],
        version: str,
        moves: dict[tuple[str, str], dict[int, list[int]]],
    ) -> None:
        if name not in self.sources:
            return
        if (name, version) not in moves:
            old = self._cache.with_name(f"{version}.py")
            was = old.read_text(encoding="utf-8") if old.is_file() else self.sources[name]
            moves[name, version] = moved(was, self.sources[name])
        at, places = self.reach.setdefault(name, {}), moves[name, version]
        for number in numbers:
            for place in places.get(number, ()):
                at.setdefault(place, []).append(nodeid)

    def _trace(self, items: list[pytest.Item], out: Path) -> None:
        _mute()
        include = [str(file) for file in self.files.values()]
        cover = coverage.Coverage(data_file=None, include=include, config_file=False)
        took: dict[str, tuple[float, bool]] = {}
        cover.start()
        for item, following in zip(items, [*items[1:], None], strict=True):
            cover.switch_context(item.nodeid)
            self._failed = False
            began = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            took[item.nodeid] = (time.process_time() - began, not self._failed)
        cover.stop()
        lines: dict[str, dict[str, list[int]]] = {}
        data = cover.get_data()
        for name, file in self.files.items():
            for number, contexts in data.contexts_by_lineno(str(file)).items():
                for nodeid in contexts:
                    lines.setdefault(nodeid, {}).setdefault(name, []).append(number)
        versions = self._versions
        for name, source in self.sources.items():
            self._cache.with_name(f"{versions[name]}.py").write_text(source, encoding="utf-8")
        result = {}
        for nodeid, (seconds, passed) in took.items():
            test_digest = self.test_digests[nodeid.partition("::")[0]]
            result[nodeid] = (seconds, passed, lines.get(nodeid, {}), test_digest, versions)
        out.write_text(json.dumps(result), encoding="utf-8")

    # Mutants.

    def covering(self, mutant: Mutant) -> list[str]:
        """The tests that reach any of the mutant's lines; first those that are most about its module."""
        at, lines = self.reach.get(mutant.module, {}), mutant.lines
        found = {nodeid for number in range(lines[0], lines[1] + 1) for nodeid in at.get(number, ())}

        first = FIRST.get(mutant.module, ())

        def aim(nodeid: str) -> tuple[bool, float, float, str]:
            widths, file = self.width[nodeid], nodeid.partition("::")[0]
            share = widths[mutant.module] / sum(widths.values())
            return file not in first, -share, self.seconds[nodeid], nodeid

        return sorted(found, key=aim)

    def try_out(self, mutant: Mutant, tests: list[str]) -> Verdict:
        """Run ``tests`` with ``mutant`` in place, until one fails."""
        began = time.monotonic()
        with mmap.mmap(-1, 8) as shared:
            pid = os.fork()
            if pid == 0:
                _exit_after(lambda: self._child(mutant, tests, shared))
            status, at = self._watch(pid, tests, shared)
        return Verdict(status, tests[at] if status != "survived" else "", at + 1, time.monotonic() - began)

    def _child(self, mutant: Mutant, tests: list[str], shared: mmap.mmap) -> None:
        os.setpgid(0, 0)
        _mute()
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        # Should nobody be left to watch it, a mutant that goes round in circles still ends.
        resource.setrlimit(resource.RLIMIT_CPU, (_LONGEST_S, _LONGEST_S))
        try:
            swap.put(mutant, self.sources[mutant.module], str(self.files[mutant.module]), self._live)
        except swap.CannotSwap:
            os._exit(_UNFIT)
        items = [self.items[nodeid] for nodeid in tests]
        for place, (item, following) in enumerate(zip(items, [*items[1:], None], strict=True)):
            shared[:8] = place.to_bytes(8, "little")
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except (KeyboardInterrupt, SystemExit, pytest.exit.Exception):
                self._failed = True  # of the test's own making, and let through by the mutant
            if self._failed:
                os._exit(_FAILED)

    def _watch(self, pid: int, tests: list[str], shared: mmap.mmap) -> tuple[str, int]:
        place, since, used = -1, 0.0, 0.0
        pause = 0.002
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            at = int.from_bytes(shared[:8], "little")
            if done:
                _end_group(pid)
                ends = {0: "survived", _UNFIT: "unfit", _BROKEN: "broken"}
                return ends.get(os.waitstatus_to_exitcode(status), "killed"), at
            now, cpu = time.monotonic(), _cpu(pid)
            if at != place:
                place, since, used = at, now, cpu
            usual = self.seconds[tests[at]]
            if cpu - used > _CPU_S + 5 * usual or now - since > _WALL_S + 10 * usual:
                _end_group(pid)
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return "timeout", at
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)


def _end_group(pid: int) -> None:
    """End what the tests of a mutant have left running."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _mute() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _exit_after(work: Callable[[], None]) -> None:
    """The end of a fork, whatever happens in it."""
    try:
        work()
    except BaseException as error:
        if isinstance(error, SystemExit) or os.environ.get("MUTANTS_DEBUG"):
            print(repr(error), file=sys.stderr)
        os._exit(_BROKEN)
    os._exit(0)


def _tame(item: pytest.Item) -> None:
    """Few examples, and the same ones each time."""
    from hypothesis import settings  # not before pytest has seen to its assertions

    test = getattr(item, "obj", None)
    function: Any = getattr(test, "__func__", test)
    if getattr(function, "is_hypothesis_test", False):
        given = getattr(function, "_hypothesis_internal_use_settings", None)
        function._hypothesis_internal_use_settings = _few(given or settings())
    owner = getattr(item, "cls", None)
    machine = getattr(owner, "settings", None)
    if owner is not None and isinstance(machine, settings) and machine.database is not None:
        owner.settings = _few(machine)


def _few(given: settings) -> settings:
    return type(given)(
        given,
        max_examples=min(given.max_examples, EXAMPLES),
        stateful_step_count=min(given.stateful_step_count, EXAMPLES),
        derandomize=True,
        database=None,
        deadline=None,
    )
