"""Lint: what is wrong with the retries of a program, found in its source and its policy files.

The way of a file: `source` (Python) or `policyfile` reads it into `loops`, one for each retry however it
is written; every rule of `rules` looks at every loop with its check from `checks`; what `comments` ignore
is dropped; `reports` writes the rest down. Nothing here opens a file, and nothing that is looked at is
imported or run.
"""

from __future__ import annotations

import re
import sys

from .comments import Ignored
from .findings import Finding, Place, lines_of
from .loops import Loop
from .policyfile import SUFFIXES, BrokenFile
from .policyfile import read as read_policies
from .rule import Rule
from .rules import BY_CODE, RULES
from .settings import Settings, SettingsError
from .source import Module, worth_reading

__all__ = ["RULES", "Finding", "Place", "Rule", "Settings", "SettingsError", "check"]


#: Syntax of Python 2, and of releases after 3.11, which an older interpreter cannot parse.
_OTHER_PYTHON = re.compile(
    r"^\s*print [\"'\w]|^\s*exec \"|\bexcept [\w.]+, \w+:|^\s*raise [\w.]+(\(.*\))?, |, None, sys\.exc_info|"
    r"\.async\b|^\s*(async )?(def|class) \w+\[|^\s*type \w+(\[.*\])? =|^\s*except [\w.]+, [\w., ]+:",
    re.MULTILINE,
)


_TEST_FOLDERS = {"test", "tests", "testing"}
_TEST_FILE = re.compile(r"conftest\.py|test_.*|.*_tests?\.py")


def check(text: str, path: str, settings: Settings | None = None) -> list[Finding]:
    """Return the findings in ``text``, in the order of the file; the suffix of ``path`` says what it is.

    Anything but TOML, JSON and YAML is read as Python.
    """
    settings = Settings() if settings is None else settings
    findings: set[tuple[Place, str, str]] = set()
    try:
        loops, module = _read(text, path, settings.strict)
    except BrokenFile as error:
        loops, module = [], None
        findings.add((Place(error.line, 1, error.line, 2), "SP000", str(error)))
    for rule in RULES:
        if rule.check is not None and rule.code in settings.select:
            for loop in loops:
                for at, message in rule.check(loop, module):
                    findings.add((loop.at(at) if isinstance(at, str) else at, rule.code, message))
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
        for place, code, message in sorted(findings)
        if code in settings.select and not ignored.covers(code, place.line, place.end_line)
    ]


def _is_newer_f_string(error: Exception) -> bool:
    """Return True for an f-string that Python 3.12 reads and the interpreter that runs lint does not."""
    line = getattr(error, "text", None) or ""
    return sys.version_info < (3, 12) and re.search(r"\bf[\"']", line) is not None


def _waits_in_a_test(loop: Loop, path: str) -> bool:
    """Return True if ``loop`` retries, within bounds, what a test has started."""
    *folders, name = re.split(r"[\\/]", path)
    owner = "" if loop.function is None else loop.function.owner or ""
    in_tests = not _TEST_FOLDERS.isdisjoint(folders) or _TEST_FILE.fullmatch(name) is not None
    is_test = in_tests or "Test" in owner
    return is_test and loop.bounded is True and (loop.by_hand or loop.waits == "fixed")


def _read(text: str, path: str, strict: bool) -> tuple[list[Loop], Module | None]:
    """The retries in ``text``, and the module they are in unless it is a policy file. Raises `BrokenFile`."""
    is_python = not path.lower().endswith(SUFFIXES)
    if is_python and not worth_reading(text):
        return [], None
    try:
        if not is_python:
            return read_policies(text, path), None
        module = Module(text, strict=strict)
        return [loop for loop in module.loops if not _waits_in_a_test(loop, path)], module
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if is_python and (_OTHER_PYTHON.search(text) or _is_newer_f_string(error)):
            return [], None
        message = getattr(error, "msg", None) or str(error) or type(error).__name__
        what = "Python" if is_python else "a policy file"
        raise BrokenFile(f"is not {what}: {message}", getattr(error, "lineno", None)) from None
