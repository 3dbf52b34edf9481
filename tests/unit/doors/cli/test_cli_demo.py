"""The command line's frame, and ``stormproof demo``: its numbers, its server, real runs, its end by
signal."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from stormproof import cli
from stormproof.cli import _demo_callers, _demo_metrics, _demo_run, _demo_view, demo
from stormproof.cli._demo_metrics import Buckets, Series, recovery_time
from stormproof.cli._demo_scenario import DemoScenario
from stormproof.cli._demo_server import DemoBackend, DemoConnection, FinishTimes

SOURCE = str(Path(cli.__file__).parents[2])
SMALL = DemoScenario(
    capacity_rps=100, seconds=1.5, outage_at_s=0.25, outage_s=0.75, timeout_s=0.5, attempts=3, base_s=0.05
)


def buckets(*counts: int, width_s: float = 0.25) -> Buckets:
    made = Buckets(width_s)
    made.counts = list(counts)
    return made


def series(**rows: Buckets) -> Series:
    made = Series(0.25)
    for name, row in rows.items():
        setattr(made, name, row)
    return made


# --- the frame ---------------------------------------------------------------------------------------------


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    from stormproof._version import __version__

    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"stormproof {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["nothing"], "nothing"),
        (["demo", "--secnds=3"], "--secnds"),
        (["demo", "--seconds=3"], "--seconds"),
        (["demo", "--seconds=many"], "--seconds"),
        (["demo", "--seed=1.5"], "--seed"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(
    argv: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("stormproof: ") and err.count("\n") == 1 and word in err


def test_missing_command_prints_help_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    out, _ = capsys.readouterr()
    assert "demo" in out and "Exit codes" in out


@pytest.mark.parametrize(("missing", "option"), [("typer", "--help"), ("rich", "--plain")])
def test_missing_dependency_is_one_line(
    missing: str, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    for name in ("_app", "demo", "_demo_view"):
        monkeypatch.delitem(sys.modules, f"stormproof.cli.{name}", raising=False)
        monkeypatch.delattr(cli, name, raising=False)
    assert cli.main(["demo", option]) == 2
    _, err = capsys.readouterr()
    assert err == f"stormproof: {missing} is missing: install stormproof[cli]\n"


def test_command_is_imported_only_when_used() -> None:
    script = (
        "import sys; from stormproof.cli import main; code = main(['--version']);"
        "print(code, sorted(m for m in sys.modules if m.startswith('stormproof.cli.') and '._' not in m))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.splitlines()[1] == "0 []"


def test_command_that_cannot_run_prints_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stormproof.cli._demo_server.allow_open_files", lambda wanted: 256)
    assert cli.main(["demo", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and "256" in err and "ulimit -n" in err


# --- the numbers -------------------------------------------------------------------------------------------


def test_event_counts_in_the_bucket_it_falls_into() -> None:
    made = Buckets(0.25)
    for at_s in (0.0, 0.2499, 0.25, 1.0, -0.01):
        made.add(at_s)
    assert made.counts == [3, 1, 0, 0, 1]
    assert made.total == 5
    assert made.upto(2) == [3, 1]
    assert made.upto(7) == [3, 1, 0, 0, 1, 0, 0]


def test_rate_is_per_second_of_the_given_span() -> None:
    made = buckets(10, 20, 30, 40)
    assert made.rate(0, 4) == 100.0
    assert made.rate(2, 4) == 140.0
    assert made.rate(2, 2) == 0.0
    assert made.rate(3, 7) == 40.0, "buckets not reached count as empty, not as absent"


def test_peak_is_the_highest_whole_second_not_the_highest_bucket() -> None:
    assert _demo_metrics.peak_rate(buckets(0, 0, 0, 90, 10, 10, 10, 10)) == 120.0
    assert _demo_metrics.peak_rate(buckets(5, 5)) == 10.0


def recovered(good: list[int], offered: int = 20) -> float | None:
    """The recovery time of 12 buckets (3 s) of traffic whose outage ended at 0.5 s."""
    return recovery_time(buckets(*[offered] * 12), buckets(*good), outage_end_s=0.5, end_s=3.0)


def test_recovery_counts_from_the_end_of_the_outage() -> None:
    assert recovered([20] * 12) == 0.0
    assert recovered([0, 0, 0, 0, 0, 20, 20, 20, 20, 20, 20, 20]) == 0.75


def test_recovery_needs_95_percent() -> None:
    assert recovered([0, 0] + [19] * 10) == 0.0
    assert recovered([0, 0] + [18] * 10) is None


def test_short_reprieve_does_not_count_as_recovery() -> None:
    assert recovered([0, 0, 20, 20, 20, 20, 0, 0, 0, 0, 0, 0]) is None
    assert recovered([0, 0, 20, 20, 0, 0, 0, 0, 20, 20, 20, 20]) == 1.5


def test_late_bucket_does_not_undo_a_recovery() -> None:
    assert recovered([0, 0, 20, 20, 20, 20, 20, 12, 28, 20, 20, 20]) == 0.0


def test_answers_after_the_traffic_do_not_count_as_recovery() -> None:
    assert recovered([0, 0, 20, 20, 20, 20, 0, 0, 0, 0, 0, 0, 120]) is None


def test_backlog_served_later_does_not_make_up_for_now() -> None:
    assert recovered([0, 0, 0, 0, 0, 0, 40, 40, 40, 40, 40, 40]) == 0.5


def test_recovery_must_be_seen_for_a_whole_second() -> None:
    assert recovered([0] * 9 + [20] * 3) is None
    assert recovered([0] * 8 + [20] * 4) == 1.5


def test_state_follows_the_run() -> None:
    scenario = DemoScenario(capacity_rps=80, seconds=4.0, outage_at_s=1.0, outage_s=1.0)
    calm = series(offered=buckets(*[16] * 16), good=buckets(*[16] * 16), received=buckets(*[16] * 16))
    storm = series(offered=buckets(*[16] * 16), good=buckets(*[0] * 16), received=buckets(*[26] * 16))
    slow = series(offered=buckets(*[16] * 16), good=buckets(*[8] * 16), received=buckets(*[20] * 16))
    states = {
        at_s: [_demo_metrics.state(lane, scenario, at_s) for lane in (calm, storm, slow)]
        for at_s in (0.1, 1.0, 1.99, 2.0, 3.0, 4.5)
    }
    assert states == {
        0.1: ["healthy", "healthy", "healthy"],
        1.0: ["broken", "broken", "broken"],
        1.99: ["broken", "broken", "broken"],
        2.0: ["healthy", "overloaded", "recovering"],
        3.0: ["healthy", "overloaded", "recovering"],
        4.5: ["over", "over", "over"],
    }


def test_floor_is_the_time_to_work_off_the_queue_without_retries() -> None:
    # 160/s for 2 s leaves 320 queued; one behind 200 or fewer is served within 1 s; 40/s of slack: 3 s + 1 s.
    assert _demo_metrics.drain_floor(DemoScenario(capacity_rps=200, outage_s=2.0)) == pytest.approx(4.0)
    assert _demo_metrics.drain_floor(DemoScenario(capacity_rps=200, outage_s=1.25)) == 0.0


def test_verdict_sums_up_a_lane() -> None:
    scenario = DemoScenario(capacity_rps=80, seconds=3.0, outage_at_s=0.5, outage_s=0.5)
    lane = series(
        offered=buckets(*[16] * 12),
        good=buckets(16, 16, 0, 0, 0, 0, 8, 16, 16, 16, 16, 16),
        failed=buckets(*[0] * 6, 72),
        received=buckets(16, 16, 32, 32, 32, 32, *[16] * 6),
        abandoned=buckets(0, 0, 0, 0, 50),
    )
    lane.reasons["BudgetExhausted"] = 72
    verdict = _demo_metrics.lane_verdict(lane, scenario)
    assert (verdict.calls, verdict.succeeded, verdict.failed, verdict.requests) == (192, 120, 72, 256)
    assert (verdict.peak_rps, verdict.peak_over_offered, verdict.wasted) == (128.0, 2.0, 50)
    assert verdict.served_after == pytest.approx(88 / 128)
    assert verdict.recovery_s == pytest.approx(0.75)
    assert verdict.reasons == {"BudgetExhausted": 72}

    words = _demo_metrics.sentence(verdict, verdict, scenario)
    assert words.count("2.0x the offered load") == 2 and words.count("after 0.75 s") == 2


def test_sentence_says_when_a_lane_did_not_recover() -> None:
    scenario = DemoScenario(capacity_rps=80, seconds=3.0, outage_at_s=0.5, outage_s=0.5)
    dead = _demo_metrics.lane_verdict(series(offered=buckets(*[16] * 12)), scenario)
    assert dead.recovery_s is None
    assert "had not recovered 2.0 s later" in _demo_metrics.sentence(dead, dead, scenario)


# --- the traffic -------------------------------------------------------------------------------------------


def test_arrivals_are_repeatable_and_as_many_as_offered() -> None:
    first, again, other = (
        DemoScenario(capacity_rps=200, seconds=12.5, seed=seed).arrivals() for seed in (7, 7, 8)
    )
    assert first == again != other
    assert len(first) == 2000
    assert all(n / 160 <= at_s < (n + 1) / 160 for n, at_s in enumerate(first))


def test_naive_callers_double_without_jitter_and_raise_the_last_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    errors = [TimeoutError(str(n)) for n in range(4)]

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async def attempt() -> None:
        raise errors[len(waits)]

    monkeypatch.setattr(_demo_callers.asyncio, "sleep", wait)
    with pytest.raises(TimeoutError) as caught:
        asyncio.run(_as_coroutine(_demo_callers.naive(DemoScenario())(attempt)))
    assert caught.value is errors[3]
    assert waits == [0.1, 0.2, 0.4]


async def _as_coroutine(awaitable: Any) -> Any:
    return await awaitable


def test_stormproof_callers_differ_by_jitter_and_budget_alone() -> None:
    import stormproof as sp

    (retry,) = _demo_callers.stormproof_policy(DemoScenario()).strategies
    assert isinstance(retry, sp.Retry)
    assert retry.attempts == DemoScenario().attempts
    assert [retry.backoff.ceiling(n) for n in range(3)] == pytest.approx([0.1, 0.2, 0.4])
    assert isinstance(retry.budget, sp.Budget)


def test_stormproof_callers_retry_until_the_budget_is_spent() -> None:
    import stormproof as sp

    made = 0

    async def attempt() -> None:
        nonlocal made
        made += 1
        raise TimeoutError

    async def scene() -> list[type[Exception]]:
        retried = _demo_callers.with_stormproof(DemoScenario(base_s=0.001))
        ends: list[type[Exception]] = []
        for _ in range(5):
            try:
                await retried(attempt)
            except (TimeoutError, sp.StormproofError) as error:
                ends.append(type(error))
        return ends

    # The default budget starts with 3: the first call retries 3 times, the others never.
    assert asyncio.run(scene()) == [TimeoutError] * 5
    assert made == 4 + 1 + 1 + 1 + 1


# --- the server --------------------------------------------------------------------------------------------


def test_worker_takes_one_over_capacity_and_stops_during_the_hang() -> None:
    schedule = FinishTimes(capacity_rps=10.0, hang_at_s=1.0, hang_s=2.0)
    assert schedule.finish(0.0) == pytest.approx(0.1)
    assert schedule.finish(0.95) == pytest.approx(3.05), "half done when it hangs: the other half follows"
    assert schedule.finish(1.0) == pytest.approx(3.1)
    assert schedule.finish(2.5) == pytest.approx(3.1)
    assert schedule.finish(3.0) == pytest.approx(3.1)
    assert FinishTimes(10.0, 1.0, 0.0).finish(0.95) == pytest.approx(1.05)


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False
        self.done = asyncio.Event()

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True
        self.done.set()

    def is_closing(self) -> bool:
        return self.closed


def connect(backend: DemoBackend, *pieces: bytes) -> tuple[DemoConnection, FakeTransport]:
    request, transport = DemoConnection(backend), FakeTransport()
    request.connection_made(transport)
    for piece in pieces:
        request.data_received(piece)
    return request, transport


GET = _demo_callers.REQUEST


def test_server_queues_in_order_and_works_for_callers_that_have_gone() -> None:
    async def scene() -> tuple[list[bytes], tuple[int, int, int]]:
        backend = DemoBackend(FinishTimes(capacity_rps=1000.0, hang_at_s=9.0, hang_s=0.0))
        first, gone, third = (connect(backend, GET) for _ in range(3))
        gone[0].connection_lost(None)
        assert not first[1].sent, "nothing is answered before its work is done"
        await third[1].done.wait()
        sent = [transport.sent[:15] for _, transport in (first, gone, third)]
        return sent, (backend.received, backend.served, backend.abandoned)

    sent, counts = asyncio.run(asyncio.wait_for(scene(), 5))
    assert sent == [b"HTTP/1.1 200 OK", b"", b"HTTP/1.1 200 OK"]
    assert counts == (3, 3, 1)


def test_server_takes_a_head_in_pieces_and_refuses_unknown_requests() -> None:
    async def scene() -> tuple[int, list[bytes]]:
        backend = DemoBackend(FinishTimes(capacity_rps=1.0, hang_at_s=9.0, hang_s=0.0))
        connect(backend, GET[:10], GET[10:-2], GET[-2:])
        connect(backend, GET[:-2])
        refused = [connect(backend, b"POST / HTTP/1.1\r\n\r\n")[1], connect(backend, b"x" * 9000)[1]]
        return backend.received, [transport.sent[:12] for transport in refused]

    received, refused = asyncio.run(scene())
    assert received == 1
    assert refused == [b"HTTP/1.1 400"] * 2


# --- the view ----------------------------------------------------------------------------------------------


def test_columns_widen_merge_and_leave_the_future_empty() -> None:
    assert _demo_view.columns([1, 2], width=9, length=4) == [1, 1, 2, 2, None, None, None, None]
    assert _demo_view.columns([1, 3, 5], width=2, length=4) == [2, None]


def test_bars_fill_rows_in_eighths() -> None:
    assert [_demo_view.block(150, row, 100) for row in range(3)] == ["█", "▄", " "]


def test_chart_marks_the_capacity_between_two_rows() -> None:
    rows = _demo_view.chart([100, 250, None], top=300, limit=100, per_limit=1)
    assert [row.plain for row in rows] == [" 300  ▄ ", " 200 _█_", " 100 ██ "]


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 50)])
def test_picture_fits_the_terminal(size: tuple[int, int]) -> None:
    from rich.console import Console

    run = _demo_run.DemoRun(DemoScenario())
    for bucket in range(30):
        for lane in run.lanes:
            lane.series.offered.put(bucket, 40)
            lane.series.add_report([bucket, 160, 50, 50, 1000])
    console = Console(width=size[0], height=size[1], file=io.StringIO())
    with console.capture() as shown:
        console.print(_demo_view.picture(run, *size))
    lines = shown.get().splitlines()
    assert max(map(len, lines)) <= size[0]
    assert len(lines) <= max(22, size[1])
    assert sum("server hangs" in text for text in lines) == 2


# --- for real ----------------------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": SOURCE}


def open_files() -> int:
    directory = Path("/proc/self/fd")
    return len(list(directory.iterdir())) if directory.exists() else 0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.subprocess.Process]:
    """Every process the run starts."""
    processes: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def spy(*args: Any, **kwargs: Any) -> asyncio.subprocess.Process:
        processes.append(await start(*args, **kwargs))
        return processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", spy)
    return processes


def test_real_run_ends_every_call_and_leaves_nothing_behind(
    started: list[asyncio.subprocess.Process], capsys: pytest.CaptureFixture[str]
) -> None:
    threads, files = set(threading.enumerate()), open_files()
    run = _demo_run.DemoRun(SMALL)
    naive, held = demo.play(run, as_json=True, plain=False)
    report = json.loads(capsys.readouterr().out)

    calls = len(SMALL.arrivals())
    for lane, verdict in zip(run.lanes, (naive, held), strict=True):
        assert verdict.calls == calls == verdict.succeeded + verdict.failed
        assert sum(verdict.reasons.values()) == verdict.failed
        # Not every attempt is a request: on a stalled machine one may end before it is sent.
        assert verdict.succeeded <= verdict.requests <= lane.series.attempts
        assert calls <= lane.series.attempts <= SMALL.attempts * calls
        assert verdict.wasted <= verdict.requests
        assert lane.series.served.total <= verdict.requests
        assert report["lanes"][lane.name]["requests"] == verdict.requests
        assert sum(report["series"][lane.name]["received"]) == verdict.requests
    assert naive.requests > held.requests
    assert report["scenario"]["seed"] == SMALL.seed
    assert report["verdict"].startswith("After an outage of 0.75 s")

    assert len(started) == 2 and all(process.returncode == 0 for process in started)
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)  # asyncio's own, which waited for a process and has seen its end, may be about to end
    assert set(threading.enumerate()) <= threads
    assert open_files() <= files


def test_without_an_outage_every_call_is_one_request() -> None:
    # A timeout that no stall of the machine uses up.
    run = _demo_run.DemoRun(
        DemoScenario(capacity_rps=20, seconds=1.0, outage_at_s=0.25, outage_s=0.0, timeout_s=5.0)
    )
    asyncio.run(run.play(lambda _: None, 1.0))
    for lane in run.lanes:
        verdict = _demo_metrics.lane_verdict(lane.series, run.scenario)
        assert verdict.calls == verdict.succeeded == verdict.requests == lane.series.served.total == 16


def test_server_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_demo_run, "STOP_S", 0.05)

    async def scene() -> int | None:
        deaf = "import signal; signal.pause()"
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", deaf, stdin=pipe, stdout=pipe)
        await _demo_run._end(process)
        return process.returncode

    assert asyncio.run(scene()) == -signal.SIGKILL


def test_server_that_does_not_start_in_time_is_reported(
    monkeypatch: pytest.MonkeyPatch, started: list[asyncio.subprocess.Process]
) -> None:
    monkeypatch.setattr(_demo_run, "START_S", 0.0)
    with pytest.raises(_demo_run.CannotRun, match="did not start within 0 s"):
        asyncio.run(_demo_run.DemoRun(SMALL).play(lambda _: None, 0.1))
    assert started and all(process.returncode is not None for process in started)


def test_server_that_dies_is_reported_not_waited_for(
    started: list[asyncio.subprocess.Process],
) -> None:
    def kill_one(_: _demo_run.DemoRun) -> None:
        if started[0].returncode is None:
            started[0].kill()

    with pytest.raises(_demo_run.CannotRun, match="server ended before"):
        asyncio.run(_demo_run.DemoRun(SMALL).play(kill_one, 0.1))
    assert all(process.returncode is not None for process in started)


def alive(pid: str) -> bool:
    """Return True if the process runs; one that has ended and waits to be reaped by init does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see child processes")
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_signal_ends_the_demo_and_its_servers(signum: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "stormproof.cli", "demo", "--plain"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment(), start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            while not process.stdout.readline().startswith("   1 s"):
                assert process.poll() is None
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.killpg(process.pid, signum)  # a terminal's Ctrl-C reaches the whole group
            _, err = process.communicate(timeout=10)
        finally:
            process.kill()
    assert process.returncode == code
    assert err == ("stormproof: stopped\n" if signum is signal.SIGINT else "")
    assert len(children) == 2
    give_up = time.monotonic() + 10
    while any(map(alive, children)):
        assert time.monotonic() < give_up, "a server outlived the demo"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("tty", "dumb", "width", "encoding", "wanted"),
    [
        (True, False, 80, "utf-8", True),
        (False, False, 80, "utf-8", False),
        (True, True, 80, "utf-8", False),
        (True, False, 59, "utf-8", False),
        (True, False, 80, "ascii", False),
    ],
)
def test_live_view_needs_a_capable_terminal(
    tty: bool, dumb: bool, width: int, encoding: str, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    console: Any = SimpleNamespace(is_dumb_terminal=dumb, width=width, encoding=encoding)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: tty))
    assert demo.can_draw(console) is wanted
