"""Runs of the page: processes are kept from one run to the next, and ended when they do not listen."""

from __future__ import annotations

import asyncio
import json
import math
from collections import OrderedDict
from typing import Any

import pytest
from tests.support.lab_server import SHORT

from stormproof.lab.page import runs as page_runs
from stormproof.lab.page import scenario as page_scenario
from stormproof.lab.page import worker as page_worker
from stormproof.lab.simulate import MANY_CALLS

TEXT = "[policies.p]\nretry = {}\n"
#: Takes seconds, but has too few calls for the fast engine, which might have to be compiled first.
LONG = {"duration": 600, "arrival_rps": 450, "capacity_rps": 1500}


def job(**values: Any) -> dict[str, Any]:
    sliders = {**SHORT, **values}
    return {"toml": TEXT, "name": "p", "scenario": "metastable", "values": sliders, "seed": 1}


def request(**values: Any) -> dict[str, Any]:
    return {**job(**values), "policies": [{"toml": TEXT}]}


async def messages(worker: page_runs.RunProcess, **values: Any) -> list[dict[str, Any]]:
    return [message async for message in worker.play(job(**values))]


def test_process_serves_one_run_after_the_other() -> None:
    async def body() -> None:
        worker = page_runs.RunProcess()
        try:
            first = await messages(worker)
            process = worker._process
            second = await messages(worker)
            assert worker._process is process
            assert process is not None and process.returncode is None
            assert first[-1] == second[-1]
            assert first[-1]["type"] == "done"
        finally:
            await worker.close()
        assert process.returncode is not None

    asyncio.run(body())


def test_long_test_run_has_fewer_calls_than_the_fast_engine_takes_over() -> None:
    scenario = page_scenario.make("metastable", {**SHORT, **LONG})
    assert MANY_CALLS / 2 < scenario.expected_calls < MANY_CALLS


def test_run_closed_early_ends_its_process_and_the_next_run_has_another() -> None:
    async def body() -> None:
        worker = page_runs.RunProcess()
        try:
            playing = worker.play(job(**LONG))
            assert (await anext(playing))["type"] == "progress"
            process = worker._process
            assert process is not None
            await playing.aclose()
            assert await asyncio.wait_for(process.wait(), 10) != 0
            assert (await messages(worker))[-1]["type"] == "done"
        finally:
            await worker.close()

    asyncio.run(body())


def test_run_beyond_its_time_limit_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        runs = page_runs.Runs()
        try:
            run = runs.begin(request(duration=2))
            assert [line async for line in runs.messages(run)], "the process is ready now"
            monkeypatch.setattr(page_runs, "LONGEST_RUN_S", 0.3)
            run = runs.begin(request(**LONG))
            last = [json.loads(line) async for line in runs.messages(run)][-1]
            assert (last["type"], last["field"]) == ("error", "duration")
            monkeypatch.setattr(page_runs, "LONGEST_RUN_S", 60.0)
            run = runs.begin(request(duration=2))
            assert json.loads([line async for line in runs.messages(run)][-1])["type"] == "done"
        finally:
            await runs.close()

    asyncio.run(body())


def test_cancelled_run_stops_and_its_process_stays() -> None:
    async def body() -> None:
        runs = page_runs.Runs()
        try:
            run = runs.begin(request(**LONG))
            seen = []
            async for line in runs.messages(run):
                seen.append(json.loads(line))
                if seen[-1]["type"] == "progress":
                    process = runs._workers[0]._process
                    assert runs.cancel(run.id)
            assert seen[-1] == {"type": "cancelled"}
            assert runs._workers[0]._process is process
            assert process is not None and process.returncode is None
            assert not runs.cancel(run.id)
        finally:
            await runs.close()

    asyncio.run(body())


def test_reader_that_leaves_cancels_the_run() -> None:
    async def body() -> None:
        runs = page_runs.Runs()
        try:
            run = runs.begin(request(**LONG))
            reader = runs.messages(run)
            async for line in reader:
                if json.loads(line)["type"] == "progress":
                    break
            await reader.aclose()
            assert runs._task is not None
            await runs._task
            left = [run.queue.get_nowait() for _ in range(run.queue.qsize())]
            assert left[-2:] == [{"type": "cancelled"}, None]
        finally:
            await runs.close()

    asyncio.run(body())


def test_process_that_dies_is_an_error_of_the_run() -> None:
    async def body() -> None:
        runs = page_runs.Runs()
        try:
            run = runs.begin(request(**LONG))
            reader = runs.messages(run)
            seen = []
            async for line in reader:
                seen.append(json.loads(line))
                if seen[-1]["type"] == "progress" and (process := runs._workers[0]._process) is not None:
                    if process.returncode is None:
                        process.kill()
            assert seen[-1]["type"] == "error"
            assert "has ended" in seen[-1]["message"]
        finally:
            await runs.close()

    asyncio.run(body())


def test_reader_that_falls_behind_misses_curves_but_not_the_outcome() -> None:
    async def body() -> None:
        run = page_runs.Run([])
        for number in range(1000):
            run.send({"type": "progress", "now": number})
        run.send({"type": "done"})
        held = [run.queue.get_nowait() for _ in range(run.queue.qsize())]
        assert len(held) == 17
        assert held[-1] == {"type": "done"}

    asyncio.run(body())


def test_cancelled_job_sends_only_its_cancellation() -> None:
    sent: list[tuple[str, dict[str, Any]]] = []

    class Out:
        def send(self, number: int, kind: str, **more: Any) -> None:
            sent.append((kind, more))

    out: Any = Out()
    page_worker.PageRun(3, out, {3}).play(job())
    assert sent == [("cancelled", {})]
    sent.clear()
    page_worker.PageRun(4, out, {3}).play(job())
    assert [kind for kind, _ in sent][-1] == "done"


def test_curves_are_sent_with_few_digits_and_gaps_as_null() -> None:
    columns = page_worker.columns(
        {"time": [0.123456789, 1], "p50": [math.nan, None], "queue": [math.inf, 123456.7]}
    )
    assert columns == {"time": [0.12346, 1.0], "p50": [None, None], "queue": [None, 123460.0]}


def test_two_runs_become_one_result() -> None:
    parts = [
        {"seed": 1, "engine": engine, "runs": [{"name": "x", "verdict": engine, "metrics": _ended(after)}]}
        for engine, after in (("exact", None), ("fast", 7.0))
    ]
    found = page_runs.merged(parts, ["a", "b"])
    assert (found["seed"], found["engine"]) == (1, "exact, fast")
    assert found["headline"] == "With “a” the service never comes back; with “b” it comes back after 7 s."
    assert [(run["name"], run["verdict"]) for run in found["runs"]] == [("a", "exact"), ("b", "fast")]


def _ended(after: float | None) -> dict[str, Any]:
    return {"calls": 1, "recovered": after is not None, "recovery_time": after}


def test_page_keeps_the_last_eight_results() -> None:
    async def body() -> None:
        runs = page_runs.Runs()
        for number in range(20):
            run = page_runs.Run([{"name": "p"}])
            run.id = str(number)
            runs._finish(run, [{"engine": "exact", "runs": [{"name": "p", "metrics": _ended(0.0)}]}])
        assert isinstance(runs._results, OrderedDict)
        assert list(runs._results) == [str(number) for number in range(12, 20)]

    asyncio.run(body())


def test_story_too_large_for_the_page_is_scaled_down() -> None:
    stories = {story["id"]: story for story in page_scenario.describe_all()}
    assert stories["video-players"]["title"].endswith("(1:1,000)")
    assert stories["video-players"]["values"]["clients"] == 25_000
    assert "(1:" not in stories["metastable"]["title"]
