"""Output of a command, passed on as it comes, with the end of it kept for a look."""

from __future__ import annotations

import os
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

#: As much of the output as is searched: the last of it, both streams together.
KEPT = 64 * 1024
#: A process left behind may hold the pipe open; the wait for it ends after this.
_JOIN_LIMIT_S = 0.5


class Tee:
    """Copies two pipes to this process's standard output and error; `matches` searches the text."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern
        self._kept = bytearray()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def follow(self, out: int, err: int) -> None:
        """Copy from now on, in threads of their own."""
        for source, target in ((os.dup(out), 1), (os.dup(err), 2)):
            thread = threading.Thread(target=self._copy, args=(source, target), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _copy(self, source: int, target: int) -> None:
        try:
            while chunk := os.read(source, 65536):
                with self._lock:
                    self._kept += chunk
                    del self._kept[:-KEPT]
                _write(target, chunk)
        finally:
            os.close(source)

    def matches(self) -> bool:
        """Return True if the last 64 KiB match the pattern; waits for output still on its way."""
        for thread in self._threads:
            thread.join(_JOIN_LIMIT_S)
        with self._lock:
            return self._pattern.search(self._kept) is not None


def _write(target: int, chunk: bytes) -> None:
    try:
        while chunk:
            chunk = chunk[os.write(target, chunk) :]
    except OSError:
        # The reader of the output has closed it. The command goes on: its output still decides about a retry.
        pass
