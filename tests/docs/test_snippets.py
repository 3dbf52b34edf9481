"""Every ```python block of the README and the docs runs.

The blocks of a page run in order and share one namespace, as a reader would type them. Waits are
free (``stormproof.testing.instant``). ``await`` at the top level is allowed, as in ``python -m asyncio``.

A block that cannot run here says why: ```python no-run reason="needs a live Redis". It is still
compiled.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(r"^(?P<indent>[ >]*)(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
INFO = re.compile(r'python(?P<norun> +no-run( +reason="(?P<reason>[^"]+)")?)? *')


@dataclass
class Block:
    page: str
    line: int
    text: str
    reason: str | None = None  # why it does not run; None: it runs

    @property
    def code(self) -> Any:
        # Blank lines in front make every traceback name the page's own line.
        source = "\n" * self.line + self.text
        return compile(source, self.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def fences(text: str) -> Iterator[tuple[int, str, str]]:
    """The line number of each fence, what follows its ticks, and the text inside."""
    lines = text.splitlines()
    index = 0
    while index < len(lines):
        opening = FENCE.match(lines[index])
        index += 1
        if opening is None:
            continue
        start, inside = index, []
        closing = re.compile(rf"^[ >]*{re.escape(opening['ticks'])}+ *$")
        while index < len(lines) and not closing.match(lines[index]):
            inside.append(lines[index].removeprefix(opening["indent"]))
            index += 1
        assert index < len(lines), f"line {start}: the fence is never closed"
        index += 1
        yield start, opening["info"].strip(), textwrap.dedent("\n".join(inside)) + "\n"


def blocks(page: str, text: str) -> list[Block]:
    found = []
    for line, info, inside in fences(text):
        if re.match(r"(python|py)\b(?!-|con)", info) is None:
            continue
        match = INFO.fullmatch(info)
        assert match is not None, (
            f'{page}:{line}: write ```python or ```python no-run reason="...", not {info!r}'
        )
        assert not match["norun"] or match["reason"], f'{page}:{line}: no-run needs a reason="..."'
        found.append(Block(page, line, inside, match["reason"]))
    return found


def instant() -> contextlib.AbstractContextManager[object]:
    try:
        from stormproof.testing import instant as free_waits
    except ImportError:
        return contextlib.nullcontext()
    return free_waits()


def run(found: list[Block]) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in found:
        code = block.code
        if block.reason is not None:
            continue
        with instant():
            if code.co_flags & inspect.CO_COROUTINE:
                asyncio.run(eval(code, namespace))
            else:
                exec(code, namespace)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_block_of_the_page_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(blocks(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")))


# The runner itself.

PAGE = """\
Text.

```python
x = 1
```

- in a list:

  ```python
  import asyncio
  if x == 1:
      x = await asyncio.sleep(0, 2)
  ```

```pycon
>>> this is not run
```

```python no-run reason="needs the moon"
x = land()
```

```python
assert x == 2, x
```
"""


def test_blocks_share_a_namespace_and_may_await() -> None:
    found = blocks("page.md", PAGE)
    assert [(block.line, block.reason) for block in found] == [
        (3, None),
        (9, None),
        (19, "needs the moon"),
        (23, None),
    ]
    run(found)


def test_failure_names_the_pages_line() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run(blocks("page.md", PAGE + "\n```python\n\n1 / 0\n```\n"))
    last = caught.traceback[-1]
    assert (Path(str(last.path)).name, last.lineno + 1) == ("page.md", 29)


def test_block_that_does_not_run_still_compiles() -> None:
    with pytest.raises(SyntaxError):
        run(blocks("page.md", '```python no-run reason="why"\nx = = 1\n```\n'))


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ("python no-run", "needs a reason"),
        ('python no-run reason=""', "not 'python no-run"),
        ("python norun", "not 'python norun'"),
        ("py", "not 'py'"),
    ],
)
def test_no_block_is_left_out_without_a_reason(info: str, says: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        blocks("page.md", f"```{info}\npass\n```\n")


def test_fence_left_open_is_an_error() -> None:
    with pytest.raises(AssertionError, match="never closed"):
        blocks("page.md", "```python\npass\n")
