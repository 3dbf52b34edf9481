"""Every target by name."""

from __future__ import annotations

from .model import Target
from .targets import command, hints, linting, page, policies, serving, spellings, store

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (hints, spellings, policies, serving, store, command, page, linting)
    for target in module.TARGETS
}
