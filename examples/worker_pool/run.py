"""Jobs from a queue: retried, dead-lettered, and none lost when the process is asked to stop.

    python examples/worker_pool/run.py

Half-way through it sends itself SIGTERM: what runs gets its time to end, the rest stays in the queue.
"""

from __future__ import annotations

import os
import queue
import random
import signal
import time

from stormproof import Budget, Exponential, Worker, retry

JOBS = 60
chance = random.Random(3)
done: list[int] = []
dead: list[int] = []


def handle(job: int) -> None:
    """Fails now and then; some jobs fail for good."""
    time.sleep(0.01)
    if job % 20 == 7:
        raise ValueError("not a job I know")
    if chance.random() < 0.3:
        raise ConnectionError("the mail server hiccuped")
    done.append(job)
    if len(done) == JOBS // 2:
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    jobs: queue.Queue[int] = queue.Queue()
    for job in range(JOBS):
        jobs.put(job)
    worker = Worker(
        handle,
        policy=retry(
            on=ConnectionError, attempts=6, backoff=Exponential(0.01, cap=0.1), budget=Budget(burst=60)
        ),
        concurrency=4,
        deadline=5,
        dead_letter=lambda job, error: dead.append(job),
        requeue=jobs.put,
        drain=2,
    )
    worker.run(jobs)
    left = jobs.qsize()
    print(f"stopped by SIGTERM: {len(done)} done, {len(dead)} dead letters, {left} left in the queue")
    assert len(done) + len(dead) + left == JOBS, "a job was lost"
    worker.run([jobs.get() for _ in range(left)])
    print(f"   the rest of them: {len(done)} done, {len(dead)} dead letters; of {JOBS} jobs none was lost")
    assert sorted([*done, *dead]) == list(range(JOBS))


if __name__ == "__main__":
    main()
