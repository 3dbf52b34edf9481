"""Further classes of clients, and services between clients and backend. Frozen data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._primitives.options import Options, count, flag, number, plain, seconds
from ..fingerprint import unaddressed

if TYPE_CHECKING:
    from ..._primitives.options import Seconds


class Clients(Options):
    """Another class of clients beside the scenario's own: its number of processes and their load.

    ``policy=None`` is the policy under test; ``timeout=None`` the scenario's.
    """

    def __init__(
        self,
        name: str,
        clients: int,
        arrival_rps: float,
        policy: object = None,
        timeout: Seconds | None = None,
    ) -> None:
        self.name: str = name_of("Clients", name)
        self.clients = count("Clients", "clients", clients)
        self.arrival_rps = number("Clients", "arrival_rps", arrival_rps, least=0)
        self.policy: Any = _policy("Clients", policy)
        self.timeout = None if timeout is None else seconds("Clients", "timeout", timeout, above=0)


class Layer(Options):
    """A service between the clients and the backend. It does its own work (``capacity_rps``, None: in no
    time), then calls the next service under ``policy`` (None: one plain call, without a timeout; "same": the
    policy under test).

    ``instances`` processes share its load, each with its own budget and breaker. What its policy gives up
    on goes back to the caller as a 503; with ``marks`` it carries the mark "already retried to
    exhaustion", by which an outer layer knows not to retry it again. With ``deadlines`` its work ends when
    its caller gives up, and knows how much time there is; without, it goes on, as most servers do. With
    ``passes`` the backend's own answer goes back as it is, without a mark: so does a proxy that retries.
    """

    def __init__(
        self,
        name: str,
        policy: object = None,
        capacity_rps: float | None = None,
        instances: int = 1,
        marks: bool = True,
        deadlines: bool = False,
        passes: bool = False,
    ) -> None:
        self.name: str = name_of("Layer", name)
        self.policy: Any = (
            policy if isinstance(policy, str) and policy == "same" else _policy("Layer", policy)
        )
        self.capacity_rps = (
            None if capacity_rps is None else number("Layer", "capacity_rps", capacity_rps, above=0)
        )
        self.instances = count("Layer", "instances", instances)
        self.marks = flag("Layer", "marks", marks)
        self.deadlines = flag("Layer", "deadlines", deadlines)
        self.passes = flag("Layer", "passes", passes)


def described(item: Options) -> dict[str, Any]:
    """A class of clients or a layer as plain data, its policy as its repr."""
    fields = item.fields()
    policy = fields.pop("policy")
    return {
        **{key: plain(value) for key, value in fields.items()},
        "policy": policy if policy is None or isinstance(policy, str) else unaddressed(repr(policy)),
    }


def name_of(owner: str, value: object) -> str:
    """``value`` if ``owner`` may be called so."""
    if not isinstance(value, str) or not value or not value.isprintable() or len(value) > 200:
        raise ValueError(f"{owner}: name must be a printable text of 1 to 200 characters, got {value!r}")
    return value


def _policy(owner: str, value: object) -> Any:
    if value is not None and not hasattr(value, "strategies"):
        raise TypeError(f"{owner}: policy must be a Policy or None, got {value!r}")
    return value
