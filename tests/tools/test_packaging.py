"""pyproject.toml keeps its promises: the extras, no dependencies, the version's one place."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import stormproof
from stormproof._version import __version__

ROOT = Path(__file__).parents[2]
EXTRAS = {
    *(
        "httpx",
        "httpx2",
        "requests",
        "urllib3",
        "aiohttp",
        "grpc",
        "asgi",
        "redis",
        "prometheus",
        "otel",
        "yaml",
        "lint",
        "tenacity",
        "cli",
        "lab",
    ),
    *("celery", "dramatiq"),
}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def test_core_has_no_dependencies(project: dict[str, Any]) -> None:
    assert project["dependencies"] == []


def test_extras_are_complete(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]
    assert set(extras) == EXTRAS | {"all", "bench", "dev", "test", "test-core"}
    (everything,) = extras["all"]
    inside = re.fullmatch(r"stormproof\[(.*)\]", everything)
    assert inside is not None
    assert set(inside[1].split(",")) == EXTRAS
    assert "stormproof[all,test-core]" in extras["test"]
    assert "stormproof[test]" in extras["dev"]


def test_version_is_the_packages_own() -> None:
    assert stormproof.__version__ == __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", __version__)


def test_package_says_it_is_typed() -> None:
    assert (Path(stormproof.__file__).parent / "py.typed").is_file()


def test_entry_points_are_declared(project: dict[str, Any]) -> None:
    assert project["scripts"] == {"stormproof": "stormproof.cli:main"}
    assert project["entry-points"]["pytest11"] == {"stormproof": "stormproof.pytest_plugin"}


def test_changelog_has_an_unreleased_section() -> None:
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
