"""Random draws: each process has its own, a seed repeats them, the global generator is left alone."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from stormproof._runtime import randomness
from stormproof._runtime.randomness import draw, source


def draws(rng: object, count: int = 8) -> list[float]:
    take = source(rng)
    return [take() for _ in range(count)]


def in_fork(count: int) -> list[float]:
    """Return the result of ``draw`` in a real child process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            os.write(write, json.dumps([draw() for _ in range(count)]).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    values: list[float] = json.loads(text)
    return values


@pytest.mark.skipif(not hasattr(os, "fork"), reason="other platform: fork")
@pytest.mark.proves("invariant 4")
def test_forked_children_share_no_draw_with_their_parent_or_each_other():
    first, second = in_fork(50), in_fork(50)
    parent = [draw() for _ in range(50)]
    assert len(set(first) | set(second) | set(parent)) == 150


@pytest.mark.skipif(not hasattr(os, "fork"), reason="other platform: fork")
def test_fork_leaves_the_parent_with_the_generator_it_had():
    before = randomness._own.getstate()
    in_fork(1)
    assert randomness._own.getstate() == before


@pytest.mark.proves("invariant 4")
def test_two_processes_started_alike_draw_differently():
    program = "from stormproof._runtime.randomness import draw; print([draw() for _ in range(20)])"
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert not set(json.loads(runs[0])) & set(json.loads(runs[1]))


def test_global_seed_has_no_influence_and_is_not_disturbed():
    state = random.getstate()
    try:
        random.seed(42)
        first = [draw() for _ in range(20)]
        after = random.random()
        random.seed(42)
        second = [draw() for _ in range(20)]
        assert not set(first) & set(second)
        random.seed(42)
        assert random.random() == after
    finally:
        random.setstate(state)


def test_draws_are_in_the_unit_interval_and_all_different():
    values = [draw() for _ in range(10_000)]
    assert min(values) >= 0.0
    assert max(values) < 1.0
    assert len(set(values)) == 10_000


def test_importing_randomness_does_not_import_random():
    program = "import sys, stormproof._runtime.randomness as c; print('random' in sys.modules); c.draw()"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_rng_of_none_is_the_generator_of_the_process():
    assert source(None) is draw


@pytest.mark.parametrize("seed", [0, 1, 42, 10**30])
def test_whole_number_seeds_a_new_generator(seed: int):
    expected = random.Random(seed)
    assert draws(seed) == [expected.random() for _ in range(8)]
    assert draws(seed) == draws(seed)
    assert draws(seed) != draws(seed + 1)
    first, second = source(seed), source(seed)
    assert [first(), first()] == [second(), second()]


def test_numpy_integer_is_a_seed():
    assert draws(np.int64(7)) == draws(7)


def test_random_method_of_an_object_is_used():
    assert draws(random.Random(3)) == draws(3)
    expected = np.random.default_rng(5)
    assert draws(np.random.default_rng(5)) == [expected.random() for _ in range(8)]
    state = random.getstate()
    try:
        random.seed(1)
        assert draws(random) == draws(1)  # the global generator, but only when it is asked for
    finally:
        random.setstate(state)


def test_callable_is_used_unchanged():
    def half() -> float:
        return 0.5

    assert source(half) is half


@pytest.mark.parametrize(
    "rng",
    [True, False, 1.5, "42", b"42", [1], (), {}, np.array([1, 2]), random.Random, object()],
    ids=lambda rng: repr(rng).partition(" at 0x")[0],
)
def test_anything_else_is_refused_by_name(rng: object):
    with pytest.raises(TypeError) as caught:
        source(rng)
    assert str(caught.value) == (
        "delays: rng must be None, a whole number, an object with a random() method or a callable, "
        f"got {rng!r}"
    )
