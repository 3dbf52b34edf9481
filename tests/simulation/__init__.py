"""Whole pipelines under one seed: every thread, task, timer, draw, fault and clock of a run is the seed's.

`world` is the machine that the threads run on, one at a time, and `sync_objects` what they wait on;
`event_loop` is the asyncio loop in it; `random_policies` makes policies over shared objects;
`probe_strategies` are strategies without effect that look on; `callers` plays the callers and what befalls
them; `callbacks` are the users'; `fake_store` is a Redis that fails; `oracles` judge.
`run.play(seed)` is one run.

    python -m tests.simulation --seed 7 --log        one run, every step of it printed
    python -m tests.simulation --seeds 10000         many, in two processes
"""
