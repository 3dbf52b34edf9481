"""Fetches releases from PyPI and unpacks their Python sources. Nothing of them is built, imported or run."""

from __future__ import annotations

import io
import json
import re
import tarfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pip._internal.models.index import PyPI

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_TIMEOUT_S = 180
#: Where the index describes packages. pip itself would run code of a source distribution to download it.
INDEX = f"{PyPI.pypi_url}/"
PAGE = Path(__file__).parents[2] / "docs" / "lint-precision.md"


class NoSource(Exception):
    """The release cannot be had, or holds no sources."""


def fetch(requirement: str, into: Path) -> Path:
    """Unpack the ``.py`` files of ``name`` or ``name==release`` and return their folder, named after both."""
    name, _, release = requirement.partition("==")
    if release and (into / requirement).is_dir():
        return into / requirement
    described: dict[str, Any] = json.loads(_get(f"{INDEX}{name}/json"))
    release = release or described["info"]["version"]
    folder = into / f"{name}=={release}"
    if folder.is_dir():
        return folder
    files = sorted(described["releases"].get(release, ()), key=_preference)
    if not files or _preference(files[0])[0] == _UNUSABLE:
        raise NoSource(f"{requirement} has neither a wheel nor a source distribution")
    # A mirror may write addresses relative to its host.
    raw = _get(urllib.parse.urljoin(f"{INDEX}name/", files[0]["url"]))
    unfinished = into / f".{folder.name}"
    for path, text in _members(files[0]["filename"], raw):
        target = unfinished.joinpath(*path.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
    unfinished.mkdir(exist_ok=True)
    unfinished.rename(folder)
    return folder


def listed_in_page(name: str) -> list[str]:
    """Return the releases of set ``name`` as the page lists them: ``package==release``."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## The sets\n")[2]
    found = re.search(rf"^- {name}: (.*?)\.\n(?=- |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise NoSource(f"docs/lint-precision.md lists no set {name}")
    items = " ".join(found[1].split()).split(", ")
    return ["==".join(item.split(" ")) for item in items]


_UNUSABLE = 3


def _preference(file: dict[str, Any]) -> tuple[int, str]:
    """Order the files of a release: wheels for any machine, other wheels, sources, the rest."""
    name: str = file["filename"]
    if name.endswith(".whl"):
        return (0 if name.endswith("-none-any.whl") else 1), name
    return (2 if name.endswith((".tar.gz", ".zip", ".tar.bz2")) else _UNUSABLE), name


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
            body: bytes = response.read()
            return body
    except (urllib.error.URLError, TimeoutError) as error:
        raise NoSource(f"{url}: {error}") from None


def _members(filename: str, raw: bytes) -> Iterator[tuple[PurePosixPath, bytes]]:
    if filename.endswith((".whl", ".zip")):
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            named = [(name, archive.read(name)) for name in archive.namelist() if name.endswith(".py")]
    else:
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            files = [m for m in archive.getmembers() if m.isfile() and m.name.endswith(".py")]
            opened = [(m.name.partition("/")[2] or m.name, archive.extractfile(m)) for m in files]
            named = [(name, stream.read()) for name, stream in opened if stream is not None]
    for name, text in named:
        path = PurePosixPath(name)
        if not path.is_absolute() and ".." not in path.parts:
            yield path, text
