"""What the server does to requests: drawn from one seed for all connections, HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import random
import time
from collections import Counter

#: How many of a hundred requests are treated how: of each two hundred, exactly. The rest is answered well.
MIX = {
    "slow": 18.0,
    "chunked": 4.0,
    "500": 2.0,
    "502": 2.0,
    "503": 2.0,
    "503 with Retry-After": 2.0,
    "503 with Retry-After 10^12": 1.0,
    "429": 1.0,
    "429 with Retry-After": 1.5,
    "half a body, then reset": 2.0,
    "half a chunked body, then reset": 0.5,
    "half a body, then silence": 0.5,
    "silence": 1.0,
    "reset": 2.0,
    "no HTTP": 1.5,
    "a byte at a time": 1.5,
    "redirect": 3.0,
}
#: Paths that are never answered while the storm lasts.
SILENT = "/silent/"
#: One in so many connections is reset as soon as it is accepted.
RESET_ON_ACCEPT = 40


def body_of(path: str) -> bytes:
    """The whole answer to a request for ``path``; anything else was cut or mixed up on the way."""
    return path.encode() * 20


class Mind:
    """What all connections share: the dice, the mood, the counts."""

    def __init__(self, seed: int, outage_every_s: float, outage_s: float) -> None:
        self._dice = random.Random(seed)
        self._every_s = outage_every_s
        self._well_s = outage_every_s - outage_s
        self._deck: list[str] = []
        self._began = time.monotonic()
        self.calm = False
        self.counts: Counter[str] = Counter()
        self.open = 0
        self._accepted = 0

    def resets(self) -> bool:
        self._accepted += 1
        return not self.calm and self._accepted % RESET_ON_ACCEPT == 0

    def treatment(self, path: str) -> str:
        """Draw what is done to a request for ``path``."""
        if self.calm:
            return "well"
        if path.startswith(SILENT):
            return "silence for all at once"
        if (time.monotonic() - self._began) % self._every_s > self._well_s:
            return "outage"
        if not self._deck:
            self._deck = self._shuffled()
        name = self._deck.pop()
        return f"slow {self._dice.uniform(0.1, 1.5):.3f}" if name == "slow" else name

    def _shuffled(self) -> list[str]:
        """Return two hundred treatments; the last fifty, drawn first, have one of each, for short runs."""
        begin = [*MIX, *["well"] * (50 - len(MIX))]
        rest = [name for name, share in MIX.items() for _ in range(int(2 * share) - 1)]
        rest += ["well"] * (150 - len(rest))
        self._dice.shuffle(begin)
        self._dice.shuffle(rest)
        return rest + begin
