"""Builds a wheel and a source distribution of a tree by asking the build backend, as `pip` and `build` do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BACKEND = "import sys, hatchling.build as backend; getattr(backend, 'build_' + sys.argv[1])(sys.argv[2])"

#: Never part of a release, whatever folder they are in: caches, build output, environments, keys.
UNWANTED = re.compile(
    r"(^|/)(__pycache__|node_modules|\.git|\.venv[^/]*|venv|build|dist|site|\.test-build|\.hypothesis|htmlcov"
    r"|\.(pytest|mypy|ruff)_cache|\.idea|\.vscode|\.DS_Store|\.env[^/]*|\.pypirc|\.netrc|id_[a-z0-9]+"
    r"|\.coverage[^/]*)(/|$)|\.(pyc|pyo|so|pyd|key|pem|p12|swp|orig|rej|log|sqlite3?|db)$|\.egg-info(/|$)"
)


@dataclass(frozen=True)
class Place:
    """Where and how a tree is built. Nothing of it may be seen in what is built."""

    folder: str
    umask: int = 0o022
    #: Seconds since 1970 that every file is said to be changed at; ``None``: when it was copied.
    changed: float | None = None
    environ: Mapping[str, str] | None = None


#: Two builders that have nothing in common but the tree and the release's date.
HERE = Place("here")
ELSEWHERE = Place(
    "some where/else entirely",
    umask=0o077,
    changed=1_000_000_000,
    environ={"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "12345"},
)


def last_commit(root: Path = ROOT) -> int:
    """When the last commit was made: the date of everything in the artefacts."""
    return int(_output(["git", "log", "-1", "--format=%ct"], root))


def tracked(root: Path = ROOT) -> list[str]:
    """Every file of the last commit."""
    listed = _output(["git", "ls-tree", "-r", "--name-only", "-z", "HEAD"], root)
    return [name for name in listed.split("\0") if name]


def unpack(archive: Path, target: Path) -> None:
    """Extract a tar archive that this script or git has written."""
    # Python 3.11.4 brought the filters; Debian 12 has 3.11.2, which takes no such argument.
    if hasattr(tarfile, "data_filter"):
        shutil.unpack_archive(archive, target, filter="data")
    else:
        shutil.unpack_archive(archive, target)


def committed(target: Path, root: Path = ROOT) -> Path:
    """The tree of the last commit, in ``target``."""
    target.mkdir(parents=True)
    archive = target.with_name(f"{target.name}.tar")
    subprocess.run(["git", "archive", "--output", archive, "HEAD"], cwd=root, check=True)
    unpack(archive, target)
    archive.unlink()
    return target


def working(root: Path = ROOT) -> list[str]:
    """Every file of the tree as it is now: what git knows or would add; without git, all but UNWANTED."""
    if (root / ".git").exists():
        listed = _output(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], root)
        return sorted(name for name in set(listed.split("\0")) if name and (root / name).is_file())
    names = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return sorted(name for name in names if not UNWANTED.search(name))


def gathered(names: Iterable[str], target: Path, root: Path = ROOT) -> Path:
    """These files of ``root``, in ``target``."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, target / name)
    return target


def copied(tree: Path, place: Place, work: Path) -> Path:
    """A copy of ``tree`` as it would be at ``place``."""
    target = work / place.folder / "tree"
    shutil.copytree(tree, target)
    for path in [target, *target.rglob("*")]:
        path.chmod(path.stat().st_mode & ~place.umask)
        if place.changed is not None:
            os.utime(path, (place.changed, place.changed))
    return target


def backend(folder: Path) -> Path:
    """A Python that has what pyproject.toml names as needed for building, and nothing else."""
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"][
        "requires"
    ]
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", *requires], check=True, stderr=subprocess.DEVNULL)
    return python


def build(kind: str, tree: Path, epoch: int, *, python: Path, place: Place = HERE, **variables: str) -> Path:
    """Build a ``"wheel"`` or an ``"sdist"`` of ``tree``; where it is."""
    out = tree.parent / f"{kind}-of-{tree.name}"
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), **(place.environ or {}), **variables}
    done = subprocess.run(
        [python, "-c", BACKEND, kind, out],
        cwd=tree,
        env=environ,
        umask=place.umask,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the {kind} of {tree} could not be built:\n{done.stdout}")
    (made,) = out.iterdir()
    return made


def unpacked(sdist: Path, target: Path) -> Path:
    """The one folder that a source distribution holds."""
    unpack(sdist, target)
    (tree,) = target.iterdir()
    return tree


def without_node(folder: Path) -> str:
    """A PATH on which there is no Node: a source distribution has the lab's page built."""
    folder.mkdir()
    return str(folder)


def _output(command: list[str], root: Path) -> str:
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
