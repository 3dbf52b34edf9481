"""The pages of the repository's root belong to the site, too: README, CHANGELOG, STABILITY and others."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY", "STABILITY")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put the root's pages beside those of docs/, with their links turned to where they are now."""
    for name in PAGES:
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        text = re.sub(r"\]\(docs/", "](", text)
        files.append(File.generated(config, f"{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, **given: object) -> str:
    """Links out of docs/ lead to the pages that `on_files` added."""
    names = "|".join(PAGES)
    markdown = re.sub(rf"\]\((?:\.\./)+({names})\.md", r"](\1.md", markdown)
    # The tests' own mark on a block is nothing for readers.
    return re.sub(r"^(```python) no-run.*$", r"\1", markdown, flags=re.MULTILINE)
