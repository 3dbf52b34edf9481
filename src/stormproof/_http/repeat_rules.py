"""Decide if one request may be sent again: by its method, its idempotency key, its body, and the failure."""

from __future__ import annotations

from .._classify.fault_readers import fault_of
from .._classify.on_clause import unwrap_marker
from .._runtime.randomness import token
from .options import ABSENT, key_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .body import Replay
    from .classification import Rules
    from .options import RequestOverrides
    from .port import Port


class RepeatRules:
    """The rules for one request; ``overrides`` is what the request itself says."""

    __slots__ = ("_overrides", "_port", "_request", "_rules", "is_repeatable", "replay")

    def __init__(
        self, port: Port[Any, Any], rules: Rules, request: object, overrides: RequestOverrides | None
    ) -> None:
        self._port = port
        self._rules = rules
        self._request = request
        self._overrides = overrides
        #: The rule for sending the body again, which notes where the body begins.
        self.replay: Replay = port.replay(request, rules.options.replay)
        #: True if doing it twice does no harm: by its method, or by its idempotency key, given here.
        self.is_repeatable = self._may_repeat()

    @property
    def allows_hedging(self) -> bool:
        """True if two attempts may be in flight at once."""
        allowed = self._overrides is None or self._overrides.retry
        return allowed and self.is_repeatable and self.replay.shared

    def veto(self, error: BaseException | None, is_sent: bool) -> str | None:
        """Why it must not be sent again after ``error``; ``is_sent``: the last attempt sent something."""
        if self._overrides is not None and not self._overrides.retry:
            return "the request says retry=False"
        if not self.is_repeatable and is_sent and not self._is_unprocessed(error):
            method = self._port.method(self._request)
            return f"{method[:20]} without an idempotency key may have been processed"
        return self.replay.refusal()

    def _may_repeat(self) -> bool:
        is_safe = self._port.method(self._request) in self._rules.methods
        if is_safe and (self._overrides is None or self._overrides.key is ABSENT):
            return True
        # A key that the request itself names goes with it, whatever its method.
        return self._ensure_key() or is_safe

    def _ensure_key(self) -> bool:
        """Return True if the request has an idempotency key; add one first if the options say so."""
        options, overrides = self._rules.options, self._overrides
        if self._port.has_field(self._request, self._rules.key_names):
            return True
        wanted = options.idempotency_key if overrides is None or overrides.key is ABSENT else overrides.key
        if callable(wanted):
            key = wanted(self._port.native(self._request))
        else:
            key = token() if wanted == "auto" else wanted
        if key is None:
            return False
        self._port.keep_header(self._request, options.key_header, key_value("idempotency_key", key))
        return True

    def _is_unprocessed(self, error: BaseException | None) -> bool:
        """Return True if ``error`` proves that the server did nothing."""
        original = None if error is None else unwrap_marker(error)[0]
        fault = None if original is None else fault_of(original, self._rules.settings)
        return fault is not None and fault.safe
