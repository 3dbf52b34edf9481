"""`python -m verification.comparison.single_cell PROBE LIBRARY`: run one cell in this process and print it
as one line of JSON.

What a library or a probe prints goes to standard error, so that the line stays readable.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from contextlib import redirect_stdout
from dataclasses import asdict

from .model import BROKEN, Cell


def main(probe: str, library: str) -> None:
    warnings.simplefilter("ignore")
    # Libraries that log to a logger nobody configured would fall back to printing.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        with redirect_stdout(sys.stderr):
            from .catalog import PROBES

            cell = PROBES[probe].cell(library)
    except Exception as error:
        cell = Cell(f"{type(error).__name__}: {error}"[:200], BROKEN)
    print(json.dumps(asdict(cell)), flush=True)
    # Some ways leave a thread hanging on purpose: do not wait for it.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
