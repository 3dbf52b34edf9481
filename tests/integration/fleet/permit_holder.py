"""A process that takes hold of something in the fleet, says so, and keeps it until it is killed."""

from __future__ import annotations

import sys
import time

import stormproof as sp


def main(what: str, url: str) -> None:
    store = sp.redis.RedisStore(url, timeout=10)
    if what == "permits":
        bulkhead = sp.Bulkhead(4, name="places", store=store)
        held = sp.Policy(bulkhead)

        def hold(left: int) -> None:
            if left:
                _patiently(lambda: held.call(hold, left - 1))
            else:
                _report()
                time.sleep(600)

        hold(3)
    else:
        breaker = sp.Breaker(name="gate", store=store, min_calls=2, open_for=0.3, probe_timeout=1.0)
        _patiently(lambda: [breaker.admit().failure() for _ in range(2)])
        while breaker.state == "closed":
            time.sleep(0.01)
        _patiently(breaker.admit)
        _report()
        time.sleep(600)


def _report() -> None:
    sys.stdout.write("held\n")
    sys.stdout.flush()


def _patiently(enter: object) -> None:
    """Until there is a place."""
    while True:
        try:
            enter()  # type: ignore[operator]
            return
        except (sp.BulkheadFull, sp.CircuitOpen):
            time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
