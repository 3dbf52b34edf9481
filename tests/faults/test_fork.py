"""Processes that fork while other threads are inside Stormproof, and processes that spawn.

In the child every lock is free, every process draws its own randomness, and policies, budgets, limiters
and loops work.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import stormproof

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="other platform: no fork here"),
    pytest.mark.proves("fault fork"),
]

# Each scenario is a process of its own: forking pytest with all its threads and files would test pytest.
PRELUDE = """
import os, signal, sys, threading, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of fork in a process with threads
import stormproof as sp

def in_child(run):
    "Fork; what ``run()`` gives in the child, as text. A child that hangs is shot after 5 s."
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            os.write(write, repr(run()).encode())
        except BaseException as error:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        reports = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"child ended with {os.waitstatus_to_exitcode(status)}"
    return reports

def held(*locks):
    "A thread that holds all of ``locks`` until the process ends."
    inside, forever = threading.Event(), threading.Event()
    def hold():
        for lock in locks:
            lock.acquire()
        inside.set()
        forever.wait()
    threading.Thread(target=hold, daemon=True).start()
    assert inside.wait(10)

def fails():
    raise ConnectionError

def give_up(policy):
    try:
        policy.call(fails)
    except ConnectionError as error:
        return error.__notes__[0].split(" attempt")[0]
"""


def run(code):
    source = str(Path(stormproof.__file__).parents[1])
    script = PRELUDE + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", script, source], capture_output=True, text=True, timeout=40, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "make",
    [
        "sp.Budget()",
        "sp.WindowBudget()",
        "sp.QuotaBudget()",
        "sp.ThrottleBudget()",
        "sp.RateBudget()",
    ],
)
def test_budget_whose_lock_another_thread_held_works_in_the_child(make):
    run(f"""
        budget = {make}
        policy = sp.retry(on=ConnectionError, attempts=3, backoff=sp.Constant(0), budget=budget)
        held(budget._lock)
        assert in_child(lambda: give_up(policy)) == "'stormproof: 3'"
        assert in_child(lambda: budget.balance > 0 and budget.withdraw() > 0) == "True"
    """)


def test_shared_objects_whose_locks_another_thread_held_work_in_the_child():
    run("""
        import gc
        limiter = sp.Limiter(10, 5)
        keyed = sp.keyed(sp.Budget())
        keyed["before"]
        # Every other public object that is guarded by a lock.
        others = [make() for make in (
            lambda: sp.Bulkhead(5), lambda: sp.Breaker(), lambda: sp.Hedge(0.1, idempotent=True),
        ) if make.__code__.co_names[1] in sp.__all__]
        locked = [obj for obj in (limiter, keyed, keyed["before"], *others) if hasattr(obj, "_lock")]
        assert len(locked) >= 3
        held(*(obj._lock for obj in locked))
        assert in_child(lambda: [limiter.allow(), limiter.tokens() > 3]) == "[True, True]"
        assert in_child(lambda: keyed["before"].balance + keyed["new"].balance + len(keyed)) == "8.0"
        def use(obj):
            return sp.Policy(obj).call(int) == 0
        assert in_child(lambda: all(map(use, others))) == "True"
    """)


def test_budget_forked_inside_its_own_code_works_in_the_child():
    """The lock is taken by Stormproof itself, in another thread, through a clock that never returns."""
    run("""
        class Clock(sp.testing.FakeClock):
            stuck = False
            def now(self):
                if self.stuck and threading.current_thread() is not threading.main_thread():
                    inside.set()
                    threading.Event().wait()
                return super().now()
        inside = threading.Event()
        clock = Clock()
        budget = sp.Budget(clock=clock)
        clock.stuck = True
        threading.Thread(target=lambda: budget.balance, daemon=True).start()
        assert inside.wait(10)
        assert in_child(lambda: budget.withdraw()) == "1.0"
    """)


def test_scope_forked_while_threads_sleep_wakes_the_childs_threads():
    run("""
        policy = sp.retry(on=ConnectionError, backoff=sp.Constant(20), budget=None)
        sleeping = threading.Event()
        class Backoff(sp.Constant):
            def delay(self, n, prev, u):
                sleeping.set()
                return super().delay(n, prev, u)
        def sleeper():
            with sp.deadline(3600):
                sp.retry(on=ConnectionError, backoff=Backoff(30), budget=None).call(fails)
        threading.Thread(target=sleeper, daemon=True).start()
        assert sleeping.wait(10)

        def cancel_in_child():
            with sp.deadline(3600) as scope:
                threading.Timer(0.05, scope.cancel).start()
                try:
                    policy.call(fails)
                except sp.Cancelled:
                    return "woken"
        assert in_child(cancel_in_child) == "'woken'"
    """)


def test_deadline_and_attempt_are_inherited_by_a_fork():
    run("""
        clock = sp.testing.FakeClock()
        policy = sp.retry(on=ConnectionError, attempts=2, backoff=sp.Constant(1), clock=clock)
        reports = []
        def call():
            if sp.attempt().number == 1:
                raise ConnectionError
            clock.advance(5)
            seen = lambda: (sp.remaining(), sp.attempt().number, type(sp.attempt().last_error).__name__)
            reports.append(in_child(seen))
        with sp.deadline(60, clock=clock):
            policy.call(call)
        assert reports == ["(54.0, 2, 'ConnectionError')"], reports
    """)


def test_each_process_draws_its_own_randomness():
    run("""
        import itertools
        def waits():
            clock = sp.testing.FakeClock()
            try:
                sp.retry(on=ConnectionError, attempts=6, within=None, clock=clock, budget=None).call(fails)
            except ConnectionError:
                return clock.sleeps + [*itertools.islice(sp.Exponential().delays(), 5)]
        waits()  # the generator of the parent exists before the fork
        rows = [in_child(waits) for _ in range(3)] + [repr(waits())]
        numbers = [number for row in rows for number in eval(row)]
        assert len(numbers) == 40 and len(set(numbers)) == 40, "two processes share a draw"
    """)


def test_seeded_generator_repeats_its_sequence_in_the_child():
    run("""
        import itertools
        def first():
            return [*itertools.islice(sp.Exponential().delays(seed=7), 5)]
        assert in_child(first) == repr(first())
    """)


def test_names_and_tokens_in_the_child_are_a_copy():
    run("""
        policy = sp.retry(on=ConnectionError, attempts=2, backoff=sp.Constant(0), name="named")
        budget = policy.strategies[0].budget
        give_up(policy)
        assert budget.balance == 2
        def child():
            same = sp.retry(on=ConnectionError, name="named").strategies[0].budget is budget
            give_up(policy)
            return same, budget.balance
        assert in_child(child) == "(True, 1.0)"
        assert budget.balance == 2
    """)


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_policy_forked_while_a_loop_runs_works_in_the_child(library):
    run(f"""
        import {library}
        policy = sp.retry(on=ConnectionError, attempts=3, backoff=sp.Constant(0), budget=sp.Budget())
        waiting = threading.Event()
        async def waits():
            async with sp.deadline(3600):
                waiting.set()
                await {library}.sleep(3600)
        async def body():
            fails()
        async def fresh():
            try:
                await policy.acall(body)
            except ConnectionError as error:
                return len(error.__notes__)
        def start(main):
            return {library}.run(main() if {library!r} == "asyncio" else main)
        threading.Thread(target=start, args=(waits,), daemon=True).start()
        assert waiting.wait(10)
        assert in_child(lambda: start(fresh)) == "1"
    """)


def test_counter_without_a_gil_works_in_the_child():
    """On a free-threaded build the counter of successes has a count per thread; those of the parent stay."""
    run("""
        from stormproof._runtime import counters
        counters.has_gil = lambda: False
        budget = sp.Budget()
        counters.has_gil = lambda: True
        counting = threading.Thread(target=budget.success)
        counting.start()
        counting.join()
        assert in_child(lambda: budget.success() or budget.balance) == "3.2"
    """)


# Spawning, and pools of both kinds

POOLS = """
import sys
sys.path.insert(0, {source!r})
import stormproof as sp

policy = sp.retry(on=ConnectionError, attempts=3, backoff=sp.Constant(0), budget=sp.Budget(burst=7))

@policy
def decorated(value):
    if sp.attempt().number < 3:
        raise ConnectionError(value)
    return value, policy.strategies[0].budget.balance

def given(policy, value):
    def call():
        raise ConnectionError(value)
    policy.call(call)

def draws(_):
    import itertools, os, time
    time.sleep(0.05)  # so that one worker does not do the work of both
    return os.getpid(), [*itertools.islice(sp.Exponential().delays(), 3)]

if __name__ == "__main__":
    from concurrent.futures import ProcessPoolExecutor
    import multiprocessing, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    policy.call(int)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context({method!r})) as pool:
        value, left = pool.submit(decorated, 5).result(30)
        assert value == 5 and left < 7
        try:
            pool.submit(given, policy, "from afar").result(30)
        except ConnectionError as error:
            assert error.args == ("from afar",)
            assert error.__notes__[0].startswith("stormproof: 3 attempts in "), error.__notes__
            # It was retried to exhaustion over there: not again here.
            calls = []
            def again():
                calls.append(1)
                raise error
            try:
                sp.retry(on=ConnectionError, backoff=sp.Constant(0)).call(again)
            except ConnectionError:
                assert len(calls) == 1, calls
        else:
            raise AssertionError("no error came back")
        assert policy.strategies[0].budget.balance >= 7, "the parent paid for its children"
        seen = dict(pool.map(draws, range(4)))
        numbers = [number for row in seen.values() for number in row]
        assert len(set(numbers)) == len(numbers)
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_process_pools_run_policies(method, tmp_path):
    script = tmp_path / "pools.py"
    script.write_text(POOLS.format(source=str(Path(stormproof.__file__).parents[1]), method=method))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
