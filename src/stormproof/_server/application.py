"""The application that a middleware wraps."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The two kinds of application, as an error names them.
ASGI = "an ASGI"
WSGI = "a WSGI"


def application(owner: str, kind: str, app: object) -> Any:
    """``app`` if it can be called, else an error that names the middleware ``owner``."""
    if not callable(app):
        raise TypeError(f"{owner}: app must be {kind} application, got {app!r}")
    return app
