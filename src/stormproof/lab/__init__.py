"""The lab: what your policy does to a backend that breaks and recovers, before you ship it.

`simulate` runs the real policy object for a fleet of simulated clients in virtual time. `compare`, `sweep`
and `tune` run it many times. Needs NumPy (the extra ``lab``).
"""

from __future__ import annotations

from .._primitives.extras import extra

with extra("lab"):
    from .engines.contention import Contention, occ
from .experiments import assert_survives, compare, sweep
from .model.backend import BackendError
from .model.clients_and_layers import Clients, Layer
from .model.faults import (
    Brownout,
    Burst,
    ColdCache,
    Deploy,
    Errors,
    Fault,
    Latency,
    Outage,
    Partition,
    Ramp,
    Spike,
    StoreLoss,
)
from .model.scenario import Scenario
from .model.spread import Spread
from .model.trace import Trace
from .results.comparison import Comparison, Share
from .results.result import Result
from .results.sweep_table import Sweep
from .simulate import Progress, simulate
from .tuning import Objective, Trial, Tuning, tune

__all__ = [
    "BackendError",
    "Brownout",
    "Burst",
    "Clients",
    "ColdCache",
    "Comparison",
    "Contention",
    "Deploy",
    "Errors",
    "Fault",
    "Latency",
    "Layer",
    "Objective",
    "Outage",
    "Partition",
    "Progress",
    "Ramp",
    "Result",
    "Scenario",
    "Share",
    "Spike",
    "Spread",
    "StoreLoss",
    "Sweep",
    "Trace",
    "Trial",
    "Tuning",
    "assert_survives",
    "compare",
    "occ",
    "simulate",
    "sweep",
    "tune",
]
