"""The words of a command line."""

from __future__ import annotations

import math
from importlib import import_module

from stormproof.cli._options import COMMANDS, parse
from stormproof.cli._outcome import CommandError
from stormproof.cli._values import choice, duration, fraction, whole

from ..model import Target, must, text


def check_values(data: bytes) -> None:
    """A value in its range, or CommandError that names the option and is short."""
    written = text(data)
    for read, right in (
        (lambda: duration("--for", written), lambda value: math.isfinite(value) and value >= 0),
        (lambda: duration("--for", written, zero=False), lambda value: math.isfinite(value) and value > 0),
        (lambda: whole("--for", written, least=-3), lambda value: type(value) is int and value >= -3),
        (lambda: fraction("--for", written), lambda value: 0 < value <= 1),
        (lambda: choice("--for", written, ("text", "json")), lambda value: value in ("text", "json")),
    ):
        try:
            value = read()
        except CommandError as error:
            must(str(error).startswith("--for: ") and len(str(error)) < 900, f"no good error: {error}")
        else:
            must(right(value), f"{written!r} must not be read as {value!r}")


def _tables() -> list[object]:
    return [import_module(f"stormproof.cli.{name}").OPTIONS for name in COMMANDS]


def check_line(data: bytes) -> None:
    """Every command's options: None (typer judges), or a value for each option, of its kind."""
    argv = text(data).split("\n")
    for options in _tables():
        given = parse(options, argv)  # type: ignore[arg-type]
        if given is None:
            continue
        must(given.keys() == {option.name for option in options}, "every option must have a value")  # type: ignore[attr-defined]
        for option in options:  # type: ignore[attr-defined]
            value = given[option.name]
            kinds = {"flag": bool, "many": list, "rest": list}.get(option.kind, (str, type(None)))
            must(isinstance(value, kinds), f"{option.name} must not be {value!r}")


TARGETS = (
    Target(
        "command-values",
        "durations, numbers and choices of a command line",
        check_values,
        ("10ms", "2.5", "1m30s", "-3", "0.1", "1e-5", "json", "inf", "9" * 30),
        ("s", "ms", "m", "-", "+", ".", "e", "_", "0", "1", "nan", "inf", "text", "²", "٣", " "),
        longest=120,
    ),
    Target(
        "command-line",
        "the options of every command",
        check_line,
        ("--attempts\n3\n--\nls\n-l", "--json\nstormproof.toml", "--select=SP001\n--select\nSP002\nsrc", "-"),
        (
            "--",
            "-",
            "=",
            "\n",
            "--json",
            "--seed",
            "--attempts",
            "--timeout",
            "--help",
            "--select",
            "3",
            "policy",
        ),
        longest=120,
    ),
)
