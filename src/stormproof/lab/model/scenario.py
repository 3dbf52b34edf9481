"""Scenario of a simulation: the clients, the load, the backend, and its faults. Frozen data."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from ..._primitives.options import Options, choice, count, flag, number, plain, seconds
from .clients_and_layers import Clients, Layer, described, name_of
from .faults import Burst, Fault, Outage, Spike, several
from .spread import Spread
from .trace import Trace

if TYPE_CHECKING:
    from ..._primitives.options import Seconds

#: Widths that a time axis reads well in.
_NICE = (0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0)
_POINTS = 600


class Scenario(Options):
    """A load, a backend and what happens to it.

    Clients: ``clients`` processes, each with its own budget and breaker (``fleet=True``, or a policy with a
    store: one for all). Open loop by default: ``arrival_rps`` calls per second in all, ``arrivals`` "poisson"
    or "even", or a `Trace` of recorded times, which sets ``arrival_rps``. ``closed_loop=True``: each client
    has one call at a time and thinks between them for ``think`` seconds (mean; None: clients / arrival_rps).
    ``keys`` is how many different keys the calls have: each call is made with one argument, its key, drawn
    evenly from 0 to keys - 1.

    Backend: serves ``capacity_rps`` with ``workers`` servers (service time: workers / capacity_rps, spread by
    ``service``: "fixed", "exponential", "lognormal", a `Spread`, or a function of a `random.Random`). A
    service that has a mean must have that one: what contradicts ``capacity_rps`` is an error. A function of
    two arguments also gets how many requests are at the backend, waiting or at work; so may ``latency``.
    ``order`` of service is "fifo", "lifo" or "shared" (processor sharing: all at once, at equal speed).
    ``queue`` is how many may wait: None for no bound, 0 for none; beyond it the answer is 503. ``shed``: work
    whose caller has gone by the time it would be begun is dropped. ``limit_rps``: more than that is answered
    429 (None: no limit). ``error_rate``: share of the attempts answered 503 for no reason. Refusals carry
    ``retry_after`` as the server's hint (None: no hint). ``cost`` is the share of the service time that a
    failed request still takes (0: it is answered at once), unless the fault that fails it has its own; a full
    queue and ``limit_rps`` refuse without work.

    ``latency`` is the network's round trip, half of it each way: seconds, a `Spread`, or a function.
    ``connections`` bounds the attempts that a client process has in flight: more wait for a free one (None:
    no bound). ``timeout`` bounds an attempt when the policy has no `Timeout`; None bounds none. ``outage``
    and ``faults`` say what happens; ``others`` are further classes of clients; ``layers`` are services in
    front of the backend, outermost first. ``duration`` is the length of the run; ``resolution`` the width of
    the time series' steps (None: about 600 of them, 50 ms or longer).
    """

    def __init__(
        self,
        clients: int = 100,
        arrival_rps: float = 100.0,
        capacity_rps: float = 120.0,
        outage: Outage | tuple[Outage, ...] | list[Outage] | None = None,
        latency: Seconds | Spread | Callable[[Any], float] = 0.0,
        timeout: Seconds | None = None,
        duration: Seconds = 30.0,
        closed_loop: bool = False,
        *,
        arrivals: str | Trace = "poisson",
        think: Seconds | None = None,
        connections: int | None = None,
        keys: int = 1,
        service: str | Spread | Callable[[Any], float] = "fixed",
        workers: int = 1,
        order: str = "fifo",
        queue: int | None = None,
        shed: bool = False,
        limit_rps: float | None = None,
        error_rate: float = 0.0,
        retry_after: Seconds | None = None,
        cost: float = 0.0,
        faults: Fault | tuple[Fault, ...] | list[Fault] = (),
        others: tuple[Clients, ...] | list[Clients] = (),
        layers: tuple[Layer, ...] | list[Layer] = (),
        fleet: bool = False,
        resolution: Seconds | None = None,
        name: str | None = None,
    ) -> None:
        def optional(field: str, value: Seconds | None, above: float | None = None) -> float | None:
            return None if value is None else seconds("Scenario", field, value, above=above)

        outages = several("outage", outage, Outage, " (others go in faults=)")
        self.clients = count("Scenario", "clients", clients)
        self.arrival_rps = number("Scenario", "arrival_rps", arrival_rps, least=0)
        self.capacity_rps = number("Scenario", "capacity_rps", capacity_rps, above=0)
        self.outage: object = None if not outages else outages[0] if len(outages) == 1 else outages
        self.latency: Any = _latency(latency)
        self.timeout: float | None = optional("timeout", timeout, above=0)
        self.duration = seconds("Scenario", "duration", duration, above=0)
        self.closed_loop = flag("Scenario", "closed_loop", closed_loop)
        self.arrivals = (
            arrivals
            if isinstance(arrivals, Trace)
            else choice("Scenario", "arrivals", arrivals, ("poisson", "even"))
        )
        self.think: float | None = optional("think", think)
        self.connections = None if connections is None else count("Scenario", "connections", connections)
        self.keys = count("Scenario", "keys", keys)
        self.service: Any = _service(service)
        self.workers = count("Scenario", "workers", workers, most=100_000)
        self.order = choice("Scenario", "order", order, ("fifo", "lifo", "shared"))
        self.queue = None if queue is None else count("Scenario", "queue", queue, least=0)
        self.shed = flag("Scenario", "shed", shed)
        self.limit_rps = None if limit_rps is None else number("Scenario", "limit_rps", limit_rps, above=0)
        self.error_rate = number("Scenario", "error_rate", error_rate, least=0, most=1)
        self.retry_after: float | None = optional("retry_after", retry_after)
        self.cost = number("Scenario", "cost", cost, least=0)
        self.faults: tuple[Fault, ...] = several("faults", faults, Fault, " such as Errors(2, 0.2)")
        self.others: tuple[Clients, ...] = several("others", others, Clients)
        self.layers: tuple[Layer, ...] = several("layers", layers, Layer)
        self.fleet = flag("Scenario", "fleet", fleet)
        self.resolution: float | None = optional("resolution", resolution, above=0)
        self.name = None if name is None else name_of("Scenario", name)
        if isinstance(arrivals, Trace):
            inside = sum(time < self.duration for time in arrivals.times)
            self.arrival_rps = inside / self.duration
        self._check()

    @classmethod
    def load(cls, path: str | os.PathLike[str], name: str | None = None) -> Scenario:
        """Return the scenario ``[scenarios.NAME]`` of a policy file; None is the only one in it."""
        from .scenario_file import load

        scenario: Scenario = load(cls, path, name)
        return scenario

    def _check(self) -> None:
        _check_service(self.service, self.workers, self.capacity_rps)
        if isinstance(self.arrivals, Trace) and (
            self.closed_loop or any(isinstance(fault, Spike) for fault in self.faults)
        ):
            raise ValueError(
                "Scenario: arrivals must be 'poisson' or 'even' in a closed loop and with a Spike, "
                f"got {self.arrivals!r}"
            )
        if self.closed_loop and self.think is None and self.arrival_rps <= 0:
            raise ValueError(
                f"Scenario: arrival_rps must be > 0 in a closed loop without think, got {self.arrival_rps!r}"
            )
        if self.closed_loop and any(isinstance(fault, (Burst, Spike)) for fault in self.faults):
            raise ValueError(
                "Scenario: faults must hold no Spike or Burst in a closed loop, "
                f"where the clients make the load, got {self.faults!r}"
            )
        for fault in self.every_fault:
            if fault.at >= self.duration:
                raise ValueError(
                    f"Scenario: duration must reach past the beginning of {fault!r}, got {self.duration!r}"
                )
        if self.step < self.duration / 100_000:
            raise ValueError(
                f"Scenario: resolution must give at most 100,000 steps, got {self.resolution!r} "
                f"for {self.duration:g} s"
            )

    @property
    def outages(self) -> tuple[Outage, ...]:
        """The outages, as a tuple."""
        return several("outage", self.outage, Outage)

    @property
    def every_fault(self) -> tuple[Fault, ...]:
        """Outages and other faults."""
        return (*self.outages, *self.faults)

    @property
    def step(self) -> float:
        """The width of a step of the time series."""
        if self.resolution is not None:
            return self.resolution
        least = self.duration / _POINTS
        return next((width for width in _NICE if width >= least), least)

    @property
    def peak_window(self) -> float:
        """Over how many seconds the peak load is taken: ``resolution`` if given, else as long as about a
        hundred calls take to arrive (a step at least, a second at most), since few calls come unevenly.
        """
        if self.resolution is not None:
            return self.resolution
        rate = self.arrival_rps + sum(group.arrival_rps for group in self.others)
        wanted = 100.0 / rate if rate > 0 else 1.0
        return max(1, round(min(1.0, wanted) / self.step)) * self.step

    @property
    def broken(self) -> bool:
        """True if there is a fault that recovery is counted from."""
        return any(fault.breaks for fault in self.every_fault)

    @property
    def broken_from(self) -> float:
        """Start of the first fault that recovery is counted from; ``duration`` without one."""
        return min((fault.at for fault in self.every_fault if fault.breaks), default=self.duration)

    @property
    def broken_until(self) -> float:
        """End of the last fault that recovery is counted from; 0 without one."""
        return max((fault.end for fault in self.every_fault if fault.breaks), default=0.0)

    @property
    def think_s(self) -> float:
        """The mean time between two calls of a client in a closed loop."""
        return self.clients / self.arrival_rps if self.think is None else self.think

    @property
    def expected_calls(self) -> float:
        """Approximate number of calls that will begin."""
        rate = self.arrival_rps if not self.closed_loop else self.clients / max(self.think_s, 1e-9)
        rate += sum(group.arrival_rps for group in self.others)
        total = rate * self.duration
        for fault in self.faults:
            if isinstance(fault, Burst):
                total += fault.calls
            elif isinstance(fault, Spike):
                total += rate * (min(fault.end, self.duration) - fault.at) * (fault.factor - 1.0)
        return total

    def to_data(self) -> dict[str, Any]:
        """The scenario as plain data, ready for JSON."""
        data = {name: plain(value) for name, value in self.fields().items() if name != "outage"}
        data["outages"] = [{key: plain(value) for key, value in o.fields().items()} for o in self.outages]
        for name in ("others", "layers"):
            data[name] = [described(item) for item in getattr(self, name)]
        data["step"] = self.step
        return data


def _latency(value: Any) -> Any:
    if isinstance(value, Spread):
        if value.scale is None:
            raise ValueError(f"Scenario: latency must have a mean, got {value!r}")
        return value
    if callable(value) and not isinstance(value, type):
        return value
    return seconds("Scenario", "latency", value)  # pyright: ignore[reportArgumentType]


def _service(value: object) -> Any:
    if isinstance(value, str):
        return Spread(choice("Scenario", "service", value, ("fixed", "exponential", "lognormal")))
    if isinstance(value, Spread):
        return value
    if not callable(value) or isinstance(value, type):
        raise TypeError(
            "Scenario: service must be 'fixed', 'exponential', 'lognormal', a Spread or a function of a "
            f"random.Random, got {value!r}"
        )
    return value


#: Draws by which a service of the user's own is held against the capacity, and how far off it may be.
_DRAWS, _TOLERANCE = 2_000, 0.05


def depends_on_load(draw: object) -> bool:
    """Return True if ``draw``, a function of the user's own, wants the number of requests in flight too."""
    if not callable(draw):
        return False
    try:
        inspect.signature(draw).bind(None, 1)
    except (TypeError, ValueError):
        return False
    return True


def _check_service(service: Any, workers: int, capacity: float) -> None:
    """Refuse service times that make ``capacity`` another one."""
    wanted = workers / capacity
    error = 0.0
    if isinstance(service, Spread):
        if service.mean is None:
            return
        mean = service.mean
    else:
        rng = Random("service")
        # One alone: what load makes of it is for the simulation to show.
        given = (rng, 1) if depends_on_load(service) else (rng,)
        times = [seconds("Scenario", "service", service(*given)) for _ in range(_DRAWS)]
        mean = math.fsum(times) / _DRAWS
        error = 5 * math.sqrt(math.fsum((value - mean) ** 2 for value in times)) / _DRAWS
    if abs(mean - wanted) > _TOLERANCE * wanted + error:
        what = "never ends" if not math.isfinite(mean) else f"takes {mean:.4g} s on average"
        serve = f"{workers / mean:.4g}/s" if mean > 0 else "any load"
        who = "1 worker serves" if workers == 1 else f"{workers} workers serve"
        keep = "; .replace(mean=None) keeps only its shape" if isinstance(service, Spread) else ""
        raise ValueError(
            f"Scenario: service must agree with capacity_rps: it {what}, so that {who} {serve}, "
            f"got capacity_rps={capacity:g} and {service!r}{keep}"
        )
