"""Processes that fork or spawn with a store: their own thread and sockets, nothing of the parent's leases."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.support.redis_servers import Server

pytestmark = [
    pytest.mark.proves("fault fork"),
    pytest.mark.redis,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="other platform: no fork here"),
]

ROOT = Path(__file__).parents[2]

PRELUDE = """
import os, signal, sys, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of fork in a process with threads
signal.alarm(90)
import stormproof as sp
from tests.support.polling import eventually

store = sp.redis.RedisStore(sys.argv[1], timeout=10)

def in_child(run):
    "Fork; what ``run()`` gives in the child, as text."
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            os.write(write, repr(run()).encode())
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        report = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return eval(report)
"""


def run(server: Server, body: str) -> str:
    """Return the output of the program."""
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(body), server.url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_child_has_nothing_of_its_parents_lease(server: Server) -> None:
    run(
        server,
        """
        limiter = sp.Limiter(0, 1000, store=store, name="x")
        eventually(lambda: limiter._fleet.answered_at is not None)
        eventually(lambda: limiter.allow() and limiter._fleet.bucket.held(limiter.clock_time()) >= 5)
        name, thread = store.instance, store._exchange._thread

        def child():
            held = limiter._fleet.bucket.held(limiter.clock_time())
            eventually(lambda: limiter._fleet.answered_at is not None)
            return held, store.instance, store._exchange._thread is thread, limiter.allow(), store.state

        held, instance, same_thread, allowed, state = in_child(child)
        assert held == 0, held
        assert instance != name and not same_thread and allowed and state == "up"
        assert limiter.allow()
        """,
    )


def test_child_deposits_its_own_earnings_and_parent_those_before_the_fork(server: Server) -> None:
    run(
        server,
        """
        budget = sp.Budget(1.0, burst=0, window=60, store=store, name="x")
        eventually(lambda: budget._fleet.answered_at is not None)
        for _ in range(10):
            budget.success()

        def child():
            for _ in range(5):
                budget.success()
            # No failure here: the exchange of the child runs by itself.
            eventually(lambda: budget.balance >= 5)
            store.close()

        in_child(child)
        eventually(lambda: budget.balance == 15)
        time.sleep(0.6)
        assert budget.balance == 15
        """,
    )


def test_children_of_a_parent_that_only_made_the_store_connect_themselves(server: Server) -> None:
    run(
        server,
        """
        def child():
            limiter = sp.Limiter(0, 20, store=store, name="x")
            eventually(lambda: limiter._fleet.answered_at is not None)
            for _ in range(5):
                eventually(limiter.allow)
            store.close()

        for _ in range(3):
            in_child(child)
        eventually(lambda: store.inspect()[0]["state"]["level"] == 5)
        """,
    )


def test_policy_with_a_store_works_in_spawned_processes(server: Server) -> None:
    run(
        server,
        """
        import pickle, subprocess
        policy = sp.Policy(sp.Retry(on=ConnectionError, budget=sp.Budget(store=store, name="x")))
        code = "import sys, pickle; p = pickle.loads(sys.stdin.buffer.read()); assert p.call(int) == 0"
        done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(policy), timeout=30)
        assert done.returncode == 0
        """,
    )


def test_end_of_the_program_gives_leases_back(server: Server) -> None:
    admitted = run(
        server,
        """
        limiter = sp.Limiter(0, 1000, store=store, name="x")
        eventually(lambda: limiter._fleet.answered_at is not None)
        admitted = 0
        while limiter._fleet.bucket.held(limiter.clock_time()) < 5:
            admitted += limiter.allow()
            time.sleep(0.001)
        print(admitted)
        """,
    )
    level = int(server.ask("HGET", "sp:{x}:limiter", "level"))
    assert level == (1000 - int(admitted)) * 1_000_000


def test_child_begins_with_its_part_of_the_places(server: Server) -> None:
    run(
        server,
        """
        stores = [store, *(sp.redis.RedisStore(sys.argv[1], timeout=10) for _ in range(3))]
        bulkheads = [sp.Bulkhead(8, store=each, name="x") for each in stores]
        eventually(lambda: all(each._fleet.instances == 4 for each in bulkheads))
        held = sp.Policy(bulkheads[0])

        def fork():
            for _ in range(5):
                # Whichever hears of it first, store or bulkhead; the first answer may have come already.
                found = in_child(lambda: [(each._places, each.in_use, each.queued) for each in bulkheads])
                assert all(places <= 2 and not used and not queued for places, used, queued in found), found

        held.call(fork)
        """,
    )


def test_child_is_not_kept_by_a_lock_of_its_parents(server: Server) -> None:
    run(
        server,
        """
        import contextlib, threading
        parts = [sp.Limiter(0, 100, store=store, name=f"{each}") for each in range(20)]
        parts += [sp.Budget(store=store, name=f"{each}") for each in range(20)]
        assert store.settle(10)
        held, done = threading.Event(), threading.Event()

        def hold():
            with contextlib.ExitStack() as locks:
                for part in parts:
                    locks.enter_context(part._lock)
                held.set()
                done.wait(20)

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait(20)
        # What that thread holds stays locked for ever in the child, unless it is renewed before it is needed.
        assert in_child(lambda: len([part.describe() for part in parts])) == 40
        done.set()
        holder.join()
        """,
    )
