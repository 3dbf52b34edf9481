"""Values of the words of a command line. Every refusal names the option, the value and the rule."""

from __future__ import annotations

from .._primitives import durations
from ._outcome import CommandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def duration(option: str, text: str | None, *, zero: bool = True) -> float | None:
    """``text`` in seconds: a number with a unit, or of seconds. ``None`` stays ``None``."""
    if text is None:
        return None
    try:
        seconds = durations.parse(text, bare=True)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from None
    if seconds == float("inf") or (seconds == 0 and not zero):
        raise CommandError(f"{option}: must be finite{'' if zero else ' and above 0'}, got {text!r}")
    return seconds


def whole(option: str, text: str, *, least: int, most: int | None = None) -> int:
    """``text`` as a whole number of at least ``least``, and at most ``most`` (None: any)."""
    plain = text.removeprefix("-")
    number = int(text) if plain.isascii() and plain.isdigit() and len(plain) < 19 else least - 1
    if number < least or (most is not None and number > most):
        rule = f">= {least}" if most is None else f"from {least} to {most}"
        raise CommandError(f"{option}: must be a whole number {rule}, got {text[:64]!r}")
    return number


def fraction(option: str, text: str) -> float:
    """``text`` as a number above 0 and up to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise CommandError(f"{option}: must be a number above 0 and up to 1, got {text[:64]!r}")
    return value


def choice(option: str, text: str, among: Sequence[str]) -> str:
    """``text``, which must be one of ``among``."""
    if text not in among:
        from .._config.errors import unknown

        raise CommandError(f"{option}: {unknown('value', text[:64], among)}")
    return text
