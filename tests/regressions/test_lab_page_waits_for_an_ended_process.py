"""A process of the lab's page that was ended in the middle of a run was forgotten: closing the page did not
wait for it, and its transport was left to the garbage collector.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.support.lab_server import SHORT

from stormproof.lab.page.runs import RunProcess

JOB = {"toml": "[policies.p]\nretry = {}\n", "name": "p", "scenario": "metastable", "seed": 1}
#: Goes on for seconds, unless it is ended.
VALUES = {**SHORT, "duration": 600, "arrival_rps": 450, "capacity_rps": 1500}


@pytest.mark.parametrize("restarted", [False, True])
def test_close_waits_for_a_process_ended_in_a_run(restarted: bool) -> None:
    async def body() -> None:
        worker = RunProcess()
        playing = worker.play({**JOB, "values": VALUES})
        assert (await anext(playing))["type"] == "progress"
        process = worker._process
        assert process is not None
        await playing.aclose()
        if restarted:
            worker.warm()
        await worker.close()
        assert process.returncode is not None
        assert process.stdout is not None and process.stdout.at_eof()

    asyncio.run(body())
