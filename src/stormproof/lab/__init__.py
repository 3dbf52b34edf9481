"""The lab: what your policy does to a backend that breaks and recovers, before you ship it.

`simulate` runs the real policy object for a fleet of simulated clients in virtual time. `compare`, `sweep`
and `tune` run it many times. Needs NumPy (the extra ``lab``).
"""

from __future__ import annotations

from .backend import BackendError
from .comparison import Comparison, Share
from .contention import Contention, occ
from .experiments import compare, sweep
from .faults import (
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
from .parties import Clients, Layer
from .result import Result
from .scenario import Scenario
from .simulate import Progress, simulate
from .spread import Spread
from .sweeping import Sweep
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
    "Trial",
    "Tuning",
    "compare",
    "occ",
    "simulate",
    "sweep",
    "tune",
]
