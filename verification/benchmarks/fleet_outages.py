"""`python -m verification.benchmarks.fleet_outages`: eight processes on one limit while their Redis is hurt,
as a Markdown table.

Each run lasts ``--seconds``; the fault begins after a third of it and lasts for another third. Callers wait
for tokens all the time, so there is always demand.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.support.limiter_processes import ROOT, read_reports
from tests.support.redis_servers import Server

from stormproof._strategies.limiter.rules.leases import overshoot

RATE, BURST, MEMBERS = 1000.0, 100, 8

Hurt = Callable[[Server, Server], object]


def _nothing(server: Server, master: Server) -> None:
    pass


def _pause(server: Server) -> None:
    server.pause()
    time.sleep(2)
    server.resume()


ORDEALS: dict[str, tuple[list[int], Hurt, Hurt]] = {
    "none, all eight busy": ([10] * 8, _nothing, _nothing),
    "none, one busy and seven idle": ([60] + [0] * 7, _nothing, _nothing),
    "killed, back empty": ([10] * 8, lambda s, _: s.kill(), lambda s, _: s.start()),
    "paused (SIGSTOP)": ([10] * 8, lambda s, _: s.pause(), lambda s, _: s.resume()),
    "paused twice": ([10] * 8, lambda s, _: _pause(s), lambda s, _: _pause(s)),
    "restarted empty": ([10] * 8, lambda s, _: s.restart_empty(), _nothing),
    "SCRIPT FLUSH": ([10] * 8, lambda s, _: s.ask("SCRIPT", "FLUSH"), _nothing),
    "read-only replica": ([10] * 8, lambda s, m: s.make_read_only(m), lambda s, _: s.make_writable()),
}


def endure(callers: list[int], hurt: Hurt, heal: Hurt, seconds: float) -> dict[str, Any]:
    """One run: what was used before, during and after the fault, and how soon everybody was back."""
    with Server() as server, Server() as master:
        command = [
            sys.executable,
            "-m",
            "tests.support.limiter_processes",
            server.url,
            str(seconds),
            str(RATE),
            str(BURST),
        ]
        crew = subprocess.Popen([*command, *map(str, callers)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert crew.stdout is not None
        first = crew.stdout.readline()
        third = seconds / 3
        _sleep_until(float(first) + third)
        hurt(server, master)
        _sleep_until(float(first) + 2 * third)
        heal(server, master)
        healed = time.monotonic()
        rest, _ = crew.communicate(timeout=seconds + 60)
        start, found = read_reports(first + rest, len(callers))
        left = server.keys_without_ttl()
    tenths = [sum(each["tenths"][place] for each in found) for place in range(int(seconds * 10))]
    back = [each["changes"][-1] for each in found if len(each["changes"]) > 1]
    return {
        "admitted": sum(each["admitted"] for each in found),
        "worst": _worst_window(tenths),
        "used": [_share(tenths, part, 3) for part in range(3)],
        "down": sum(1 for each in found if each["changes"]),
        "back": max((start + moment - healed for moment in back), default=0.0),
        "left": len(left),
    }


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _worst_window(tenths: list[int]) -> float:
    """The most that was let through beyond burst + rate * w in any window of w tenths of a second."""
    worst = best = -float(BURST)
    for used in tenths:
        best = max(best, -float(BURST)) + used - RATE / 10
        worst = max(worst, best)
    return worst


def _share(tenths: list[int], part: int, parts: int) -> float:
    """What was used of the limit in one part of the run."""
    size = len(tenths) // parts
    return sum(tenths[part * size : (part + 1) * size]) / (RATE * size / 10)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m verification.benchmarks.fleet_outages", description=__doc__
    )
    parser.add_argument("--seconds", type=float, default=9.0)
    seconds = parser.parse_args().seconds
    bound = overshoot(RATE, BURST, MEMBERS)
    print(f"{MEMBERS} processes, {RATE:g}/s, burst {BURST}, {seconds:g} s; stated overshoot: {bound:g}\n")
    heads = "fault", "admitted", "worst window beyond burst + rate * time", "used before, during, after"
    _line(*heads, "on their own", "back after", "keys without TTL")
    _line(*["---"] * 7)
    for name, (callers, hurt, heal) in ORDEALS.items():
        run = endure(callers, hurt, heal, seconds)
        used = ", ".join(f"{share:.0%}" for share in run["used"])
        back = f"{max(0.0, run['back']):.2f} s" if run["down"] else "-"
        _line(
            name,
            f"{run['admitted']:,}",
            f"{run['worst']:+,.0f}",
            used,
            f"{run['down']} of {MEMBERS}",
            back,
            run["left"],
        )


def _line(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
