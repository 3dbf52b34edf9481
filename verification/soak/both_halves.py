"""`python -m verification.soak.both_halves`: every client against every server stack, as a Markdown table."""

from __future__ import annotations

import sys

from tests.support.http.both_halves import CHECKS, STACKS, has, holds
from tests.support.http.clients import CLIENTS


def _cell(client: str, stack: str) -> tuple[str, bool]:
    promised = [check for check in CHECKS if has(stack, check)]
    missed = [check for check in promised if not holds(client, stack, check)]
    kept = f"{len(promised) - len(missed)} of {len(promised)}"
    return (f"{kept}, not: {', '.join(missed)}" if missed else kept), not missed


def main() -> int:
    print(f"| client | {' | '.join(STACKS)} |")
    print("|---" * (len(STACKS) + 1) + "|")
    good = True
    for client in CLIENTS:
        cells = [_cell(client, stack) for stack in STACKS]
        good &= all(met for _, met in cells)
        print(f"| {client} | {' | '.join(text for text, _ in cells)} |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
