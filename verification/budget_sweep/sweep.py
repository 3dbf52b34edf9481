"""The grid of the sweep, and the tables it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .runs import recovery_s, refused_share

#: Fleets, and how long each is simulated.
FLEETS = {1: 60, 40: 60, 1_000: 60, 10_000: 120, 100_000: 600}
BURSTS = (1, 2, 3, 4, 5, 7, 10)
#: Seconds between the calls of a quiet caller, and how many days of them are simulated.
GAPS = {60.0: 140.0, 10.0: 28.0, 1.0: 7.0}
FAILING = (0.01, 0.02, 0.05, 0.1)

#: Weeks that are looked at one by one, by the seconds between calls, and with which bursts.
WEEKS = {60.0: 200, 1.0: 10}
WEEKLY_BURSTS = (3, 4)
WEEKLY_FAILING = 0.05

#: The quiet caller of the picture: a call a minute, 5 % failures.
QUIET = (60.0, 0.05)


@dataclass
class Sweep:
    """Recovery by (processes, burst, double), refused retries by (gap, failing, burst, double)."""

    fleets: tuple[int, ...]
    bursts: tuple[float, ...]
    without: dict[int, float | None] = field(default_factory=dict)
    recovery: dict[tuple[int, float, bool], float | None] = field(default_factory=dict)
    refused: dict[tuple[float, float, float, bool], float] = field(default_factory=dict)

    #: Share of refused retries in each week, in order of size, by (gap, burst).
    weeks: dict[tuple[float, float], list[float]] = field(default_factory=dict)

    def weekly_table(self) -> str:
        """Return how single weeks differ as a table in Markdown."""
        lines = ["| calls | burst | weeks | mean | 95th percentile | worst |", "|---" * 6 + "|"]
        for (gap_s, burst), shares in self.weeks.items():
            cells = (sum(shares) / len(shares), shares[int(0.95 * len(shares))], shares[-1])
            shown = " | ".join(f"{cell:.2%}" for cell in cells)
            lines.append(f"| 1 every {gap_s:g} s | {burst:g} | {len(shares)} | {shown} |")
        return "\n".join(lines)

    def fleet_table(self, double: bool) -> str:
        """Return the fleets' recovery as a table in Markdown."""
        lines = ["| processes | no retries | " + " | ".join(f"burst {b:g}" for b in self.bursts) + " |"]
        lines.append("|---" * (len(self.bursts) + 2) + "|")
        for size in self.fleets:
            cells = [self.without[size], *(self.recovery[size, burst, double] for burst in self.bursts)]
            shown = [f"over {FLEETS[size] - 10}" if cell is None else f"{cell:g}" for cell in cells]
            lines.append(f"| {size:,} | " + " | ".join(shown) + " |")
        return "\n".join(lines)

    def quiet_table(self, double: bool) -> str:
        """Return the quiet callers' refused retries as a table in Markdown."""
        lines = ["| calls | failing | " + " | ".join(f"burst {b:g}" for b in self.bursts) + " |"]
        lines.append("|---" * (len(self.bursts) + 2) + "|")
        for gap_s in GAPS:
            for failing in FAILING:
                cells = [self.refused[gap_s, failing, burst, double] for burst in self.bursts]
                pace = f"1 every {gap_s:g} s"
                lines.append(f"| {pace} | {failing:.0%} | " + " | ".join(f"{c:.2%}" for c in cells) + " |")
        return "\n".join(lines)


def run_weeks(sweep: Sweep) -> None:
    """Look at single weeks of a quiet caller: those of the tables are longer."""
    for gap_s, weeks in WEEKS.items():
        for burst in WEEKLY_BURSTS:
            sweep.weeks[gap_s, burst] = sorted(
                refused_share(gap_s, WEEKLY_FAILING, burst, False, 7.0, seed) for seed in range(weeks)
            )


def run(report: Callable[[str], object]) -> Sweep:
    """Run the whole grid."""
    sweep = Sweep(tuple(FLEETS), BURSTS)
    run_weeks(sweep)
    report("single weeks")
    for double in (False, True):
        for gap_s, days in GAPS.items():
            for failing in FAILING:
                for burst in BURSTS:
                    share = refused_share(gap_s, failing, burst, double, days)
                    sweep.refused[gap_s, failing, burst, double] = share
                report(f"calls every {gap_s:g} s, {failing:.0%} failing, double={double}")
        for size, duration in FLEETS.items():
            sweep.without[size] = recovery_s(size, None, False, duration)
            for burst in BURSTS:
                sweep.recovery[size, burst, double] = recovery_s(size, burst, double, duration)
                report(f"{size} processes, burst {burst}, double={double}")
    return sweep
