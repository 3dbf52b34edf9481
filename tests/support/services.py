"""Programs beside Python that some tests need, and how to find them."""

from __future__ import annotations

import shutil

import pytest

#: Service (which is also a marker's name): the commands of which any one will do.
SERVICES = {
    "redis": ("redis-server", "valkey-server"),
    "browser": ("chromium", "chromium-browser", "google-chrome"),
}


def require(name: str) -> str:
    """Return the path of the service's command; skip the test when there is none."""
    for command in SERVICES[name]:
        path = shutil.which(command)
        if path is not None:
            return path
    commands = ", ".join(SERVICES[name])
    pytest.skip(f"{name}: none of {commands} on PATH (tools/setup-services installs one)")
