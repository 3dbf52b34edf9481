"""Every target by name."""

from __future__ import annotations

from .model import Target
from .targets import command_line, hints, linting, number_formats, page, policies, serving, store

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (hints, number_formats, policies, serving, store, command_line, page, linting)
    for target in module.TARGETS
}
