"""``python -m holdfast.cli``: the same as the installed ``holdfast`` command."""

from __future__ import annotations

import sys

from holdfast.cli import main

if __name__ == "__main__":
    sys.exit(main())
