"""Meaning of the options of ``stormproof run``: its policy, and which ends of an attempt are failures."""

from __future__ import annotations

from ._outcome import CommandError
from ._values import choice, duration, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any

    from .._policy.policy import Policy

JITTERS = ("full", "equal", "none", "decorrelated")


class Failed(Exception):
    """An attempt that ended: its exit code (128 + n for a signal), and whether it is retryable."""

    def __init__(self, code: int, retry: bool) -> None:
        super().__init__(f"exit code {code}")
        self.code = code
        self.retry = retry


def make_policy(
    attempts: str,
    base: str,
    cap: str,
    jitter: str,
    deadline: str | None,
    timeout: str | None,
    seed: str | None,
) -> Policy:
    """The policy of these options. No budget: there is one call, and the attempts bound it."""
    import stormproof as sp

    choice("--jitter", jitter, JITTERS)
    base_s, cap_s = duration("--base", base, zero=False), duration("--cap", cap, zero=False)
    deadline_s, timeout_s = duration("--deadline", deadline), duration("--timeout", timeout, zero=False)
    times = None if attempts == "none" else whole("--attempts", attempts, least=1)
    if times is None and deadline_s is None:
        raise CommandError("--attempts: none needs a --deadline to end the loop")
    if base_s is None or cap_s is None or base_s > cap_s:
        raise CommandError(f"--base: must not be longer than --cap, got {base!r} and {cap!r}")
    backoff: object = sp.Decorrelated(base_s, cap=cap_s) if jitter == "decorrelated" else None
    retry = sp.Retry(
        on=_is_retryable,
        attempts=times,
        backoff=backoff or sp.Exponential(base_s, cap=cap_s, jitter=jitter),  # type: ignore[arg-type]
        within=None,
        budget=None,  # stormproof: ignore[SP008] - one call, bounded by its attempts
    )
    rows: list[Any] = [] if deadline_s is None else [sp.Deadline(deadline_s)]
    rows.append(retry)
    rows += [] if timeout_s is None else [sp.Timeout(timeout_s)]
    return sp.Policy(*rows, name="run", rng=None if seed is None else whole("--seed", seed, least=0))


def _is_retryable(error: BaseException) -> bool:
    from .._primitives.errors import AttemptTimeout

    return error.retry if isinstance(error, Failed) else isinstance(error, AttemptTimeout)


def exit_codes(texts: list[str]) -> frozenset[int] | None:
    """The codes of ``1,75,100-110``; ``None`` when none were given, which is every code but 0."""
    if not texts:
        return None
    codes: set[int] = set()
    for part in (part.strip() for text in texts for part in text.split(",")):
        first, dash, last = part.partition("-")
        low, high = whole("--on-exit", first, least=0), whole("--on-exit", last if dash else first, least=0)
        if not 1 <= low <= high <= 255:
            raise CommandError(f"--on-exit: codes must be from 1 to 255, the lower first, got {part!r}")
        codes.update(range(low, high + 1))
    return frozenset(codes)


def pattern(text: str | None) -> re.Pattern[bytes] | None:
    """The regular expression of ``--on-output``; ``None`` stays ``None``."""
    if text is None:
        return None
    import re

    try:
        return re.compile(text.encode(), re.MULTILINE)
    except re.error as error:
        raise CommandError(f"--on-output: {error}, got {text[:64]!r}") from None
