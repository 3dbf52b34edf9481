"""An answer of ours: a status, the headers that steer the caller's retries, a problem+json body. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

#: A hint is stretched by up to this share, so that those who got it do not come back together.
SPREAD = 0.1
#: A longer hint than a day says nothing that a day does not.
MAX_HINT_S = 86_400.0


class Problem(NamedTuple):
    """``code`` names the problem for programs, ``title`` for people; neither holds user data.

    ``should_retry`` is the word to the caller: True, False, or ``None`` for none. ``after`` is how many
    seconds from now trying again may help, at the earliest; ``None`` when unknown.
    """

    status: int
    code: str
    title: str
    should_retry: bool | None = None
    after: float | None = None

    def headers(self, draw: Callable[[], float], spread: float = SPREAD) -> list[tuple[str, str]]:
        """Return header fields in order; every hint is drawn from [after, after * (1 + spread))."""
        fields = [("content-type", "application/problem+json"), ("content-length", str(len(self.body())))]
        # An answer about this moment: a cache that kept it would go on refusing.
        fields.append(("cache-control", "no-store"))
        if self.should_retry is not None:
            fields.append(("x-should-retry", "true" if self.should_retry else "false"))
        if self.after is not None:
            wait_s = min(self.after, MAX_HINT_S) * (1.0 + spread * draw())
            fields.append(("retry-after", str(max(1, math.ceil(wait_s)))))
            fields.append(("retry-after-ms", str(max(1, math.ceil(wait_s * 1000.0)))))
        return fields

    def body(self) -> bytes:
        """The body, by RFC 9457; ``code`` is an extension member."""
        import json

        return json.dumps({"title": self.title, "status": self.status, "code": self.code}).encode()

    def __repr__(self) -> str:
        return f"<problem {self.status}: {self.code}>"
