"""Each library, set up as its own documentation says. A library is imported only when it is probed."""

from __future__ import annotations

from .breakers import BREAKERS
from .clients import CLIENTS
from .limiters import LIMITERS
from .retriers import RETRIERS

__all__ = ["BREAKERS", "CLIENTS", "LIMITERS", "RETRIERS"]
