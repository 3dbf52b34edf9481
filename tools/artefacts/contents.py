"""Contents of a wheel and a source distribution: all that belongs in them, and nothing that does not."""

from __future__ import annotations

import base64
import csv
import email
import getpass
import hashlib
import io
import re
import socket
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from email.message import Message
from pathlib import Path
from urllib.parse import urlsplit

from .build import ROOT, UNWANTED

PAGE = "src/stormproof/lab/_page/index.html"

#: Of a checkout, but of no use to who has a source distribution.
LEFT_OUT = re.compile(r"^(\.ci/|\.pre-commit-config\.yaml$)")

#: What is private wherever it was built. The names are what a finding says.
SECRETS = {
    "a home folder": rb"(?<![\w.-])/(?:(?:home|Users)/[A-Za-z_][\w.-]*|root)(?=/)|[A-Z]:\\\\?Users\\",
    "a private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "an AWS key": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a GitHub token": rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50,})",
    "a GitLab token": rb"\bglpat-[\w-]{20}",
    "a package registry's token": rb"\b(?:pypi-AgE[\w-]{50,}|npm_[A-Za-z0-9]{36})",
    "a Slack token": rb"\bxox[abprs]-[0-9]{8,}-[\w-]+",
    "an API key": rb"\b(?:sk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}|AIza[\w-]{35})",
    "a JSON web token": rb"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
}
#: A user's name that says nothing about anybody.
COMMON_USERS = {"root", "user", "admin", "runner", "ubuntu", "debian", "build", "builder", "nobody", "test"}


def members(artefact: Path) -> dict[str, bytes]:
    """Every file of a wheel, or of a source distribution without its top folder, by its path."""
    if artefact.suffix == ".whl":
        with zipfile.ZipFile(artefact) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    top = artefact.name.removesuffix(".tar.gz") + "/"
    found = {}
    with tarfile.open(artefact) as sdist:
        for entry in sdist:
            stream = sdist.extractfile(entry)
            if stream is not None:
                found[entry.name.removeprefix(top)] = stream.read()
    return found


def differences(one: Path, other: Path) -> list[str]:
    """Differences between two builds of the same; empty if they are the same, byte for byte."""
    if one.name == other.name and one.read_bytes() == other.read_bytes():
        return []
    left, right = members(one), members(other)
    differing = sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))
    what = ", ".join(differing[:10]) or "not in what they hold, but in order, dates, modes or owners"
    return [f"{one.name} and {other.name} are not the same: {what}"]


def unwanted(names: Iterable[str]) -> list[str]:
    """Caches, build output, environments, keys, and paths that lead out of the folder."""
    return [
        f"{name} must not be there"
        for name in names
        if UNWANTED.search(name) or name.startswith("/") or ".." in name.split("/") or "\\" in name
    ]


def incomplete(wheel: Iterable[str], sdist: Iterable[str], tree: Iterable[str]) -> Iterator[str]:
    """Differences between the artefacts and the files of ``tree``: too little or too much."""
    source = {name for name in tree if not LEFT_OUT.search(name)}
    yield from _both_ways("the sdist", set(sdist), source | {"PKG-INFO", PAGE})
    package = {name.removeprefix("src/") for name in source | {PAGE} if name.startswith("src/")}
    inside = {name for name in wheel if ".dist-info/" not in name}
    yield from _both_ways("the wheel", inside, package)


def _both_ways(where: str, has: set[str], should: set[str]) -> Iterator[str]:
    for name in sorted(should - has):
        yield f"{where} lacks {name}"
    for name in sorted(has - should):
        yield f"{where} has {name}, which is not in the tree"


def private(*folders: Path) -> dict[str, str]:
    """Names of this machine that no artefact may contain: text -> what it is."""
    found = {str(folder): "the path of a build" for folder in (ROOT, *folders)}
    found[socket.gethostname()] = "this machine's name"
    if (user := getpass.getuser()) not in COMMON_USERS:
        found[user] = "this user's name"
    found.update(dict.fromkeys(_registries(), "a registry's host"))
    return {text: what for text, what in found.items() if len(text) > 3}


def _registries() -> set[str]:
    """Hosts of the package registries set up here, the public ones aside."""
    said = ""
    for command in ([sys.executable, "-m", "pip", "config", "list"], ["npm", "config", "get", "registry"]):
        try:
            said += subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
        except OSError:
            continue
    hosts = {urlsplit(address).hostname for address in re.findall(r"https?://[^\s'\"]+", said)}
    return {host for host in hosts if host} - {"pypi.org", "registry.npmjs.org", "localhost", "127.0.0.1"}


def leaks(held: Mapping[str, bytes], names: Mapping[str, str]) -> Iterator[str]:
    """Every place where a file contains a secret, or one of the private ``names``."""
    patterns = {what: re.compile(pattern) for what, pattern in SECRETS.items()}
    for text, what in names.items():
        patterns[f"{what}, {text!r}"] = re.compile(rb"(?<!\w)" + re.escape(text.encode()) + rb"(?!\w)")
    for file, data in held.items():
        for what, pattern in patterns.items():
            if match := pattern.search(data):
                line = data.count(b"\n", 0, match.start()) + 1
                yield f"{file}:{line} contains {what}"


def bad_metadata(held: Mapping[str, bytes]) -> Iterator[str]:
    """Differences between a wheel's metadata and pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = metadata(held)
    expected = {
        "Name": project["name"],
        "Requires-Python": project["requires-python"],
        "License-Expression": project["license"],
        "License-File": "LICENSE",
        "Description-Content-Type": "text/markdown",
        "Summary": project["description"],
    }
    for field, value in expected.items():
        if said[field] != value:
            yield f"METADATA: {field} is {said[field]!r}, not {value!r}"
    if set(said.get_all("Provides-Extra", [])) != set(project["optional-dependencies"]):
        yield "METADATA: the extras are not those of pyproject.toml"
    for needed in said.get_all("Requires-Dist", []):
        if "extra ==" not in needed:
            yield f"METADATA: the core needs {needed}"
    tags = email.message_from_bytes(held[_info(held) + "WHEEL"])
    if (tags["Tag"], tags["Root-Is-Purelib"]) != ("py3-none-any", "true"):
        yield f"WHEEL: {tags['Tag']}, purelib {tags['Root-Is-Purelib']}"


def metadata(held: Mapping[str, bytes]) -> Message:
    """A wheel's METADATA."""
    return email.message_from_bytes(held[_info(held) + "METADATA"])


def bad_record(held: Mapping[str, bytes]) -> Iterator[str]:
    """Files whose size or digest is not what the wheel's RECORD says, or that it does not name."""
    record = _info(held) + "RECORD"
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(held[record].decode()))}
    for name in sorted(held.keys() ^ rows.keys()):
        yield f"RECORD: {name} is in one of wheel and RECORD only"
    for name in sorted(held.keys() & rows.keys() - {record}):
        digest = base64.urlsafe_b64encode(hashlib.sha256(held[name]).digest()).rstrip(b"=").decode()
        if rows[name] != [f"sha256={digest}", str(len(held[name]))]:
            yield f"RECORD: {name} is not as recorded"


def _info(held: Mapping[str, bytes]) -> str:
    (folder,) = {name.split("/")[0] for name in held if ".dist-info/" in name}
    return folder + "/"
