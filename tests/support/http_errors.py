"""An error of ``urllib`` as a server's answer raises it."""

from __future__ import annotations

import email.message
import io
import urllib.error


def http_error(status: int = 503, **headers: str) -> urllib.error.HTTPError:
    """Return an error with ``headers`` (``retry_after="7"``), closed, so that it leaves no file open."""
    sent = email.message.Message()
    for name, value in headers.items():
        sent[name.replace("_", "-")] = value
    error = urllib.error.HTTPError("http://localhost/", status, "no", sent, io.BytesIO())
    error.close()
    return error
