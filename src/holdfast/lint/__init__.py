"""Lint: what is wrong with the retries of a program, found in its source and its policy files.

The way of a file: `source` (Python) or `policyfile` reads it into `loops`, one for each retry however it
is written; every rule of `rules` looks at every loop with its check from `checks`; what `comments` ignore
is dropped; `reports` writes the rest down. Nothing here opens a file, and nothing that is looked at is
imported or run.
"""

from __future__ import annotations

from .comments import Ignored
from .findings import Finding, Place, lines_of
from .policyfile import SUFFIXES, Broken
from .policyfile import read as read_policies
from .rules import BY_CODE, RULES, Rule
from .settings import Settings, SettingsError
from .source import Module, worth_reading

__all__ = ["RULES", "Finding", "Place", "Rule", "Settings", "SettingsError", "check"]


def check(text: str, path: str, settings: Settings | None = None) -> list[Finding]:
    """The findings in ``text``, in the order of the file; the suffix of ``path`` tells what it is.

    Anything but TOML, JSON and YAML is read as Python.
    """
    settings = Settings() if settings is None else settings
    module: Module | None = None
    found: set[tuple[Place, str, str]] = set()
    try:
        if path.lower().endswith(SUFFIXES):
            loops = read_policies(text, path)
        elif worth_reading(text):
            module = Module(text)
            loops = module.loops
        else:
            return []
    except Broken as error:
        loops = []
        found.add((Place(error.line, 1, error.line, 2), "HF000", str(error)))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        loops = []
        line = getattr(error, "lineno", None) or 1
        message = getattr(error, "msg", None) or str(error) or type(error).__name__
        found.add((Place(line, 1, line, 2), "HF000", f"is not Python: {message}"))
    for rule in RULES:
        if rule.check is not None and rule.code in settings.select:
            found |= {(place, rule.code, text) for loop in loops for place, text in rule.check(loop, module)}
    ignored = Ignored(text)
    lines = None if text.isascii() else lines_of(text)
    return [
        Finding(
            path,
            place.in_characters(lines),
            code,
            BY_CODE[code].severity,
            message,
            BY_CODE[code].why,
            BY_CODE[code].fix,
        )
        for place, code, message in sorted(found)
        if code in settings.select and not ignored.covers(code, place.line, place.end_line)
    ]
