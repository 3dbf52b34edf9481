"""What is measured. Each module here has a ``GROUPS`` list; the order below is the order of the tables."""

from __future__ import annotations

from importlib import import_module

from ..model import Group

SUITES = (
    "success",
    "retried",
    "drop_in",
    "outage",
    "startup",
    "retention",
    "strategies",
    "telemetry",
    "wire",
    "fleet",
    "lab",
    "lab_fast",
)


def load(name: str) -> list[Group]:
    """The groups of one suite."""
    groups: list[Group] = import_module(f"{__name__}.{name}").GROUPS
    return groups
