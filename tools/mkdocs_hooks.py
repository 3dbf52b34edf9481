"""The pages of the repository's root belong to the site, too: README, CHANGELOG, STABILITY and others."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
#: The pages and what they are called on the site, where a README would take the place of docs/index.md.
PAGES = {
    "README": "overview",
    "CHANGELOG": "CHANGELOG",
    "CONTRIBUTING": "CONTRIBUTING",
    "SECURITY": "SECURITY",
    "STABILITY": "STABILITY",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put the root's pages beside those of docs/, with their links turned to where they are now."""
    for name, page in PAGES.items():
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        text = re.sub(r"""(\]\(|src="|srcset=")docs/""", r"\1", text)
        files.append(File.generated(config, f"{page}.md", content=text))
    return files


def on_page_markdown(markdown: str, **given: object) -> str:
    """Links out of docs/ lead to the pages that `on_files` added."""
    names = "|".join(PAGES)
    markdown = re.sub(rf"\]\((?:\.\./)*({names})\.md", lambda found: f"]({PAGES[found[1]]}.md", markdown)
    # The tests' own mark on a block is nothing for readers.
    return re.sub(r"^(```python) no-run.*$", r"\1", markdown, flags=re.MULTILINE)
