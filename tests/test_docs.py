"""Every python block in the README and the docs runs, in the order of its page."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

OPENING = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<language>[\w+-]*)[^`]*$")
NOT_RUN = re.compile(r"^<!-- *not run\b:? *(?P<reason>.*?) *-->$")


class Block(NamedTuple):
    """A python block: where its code starts (from 1), the code, and why it is not run if so."""

    line: int
    code: str
    not_run: str | None


def python_blocks(text: str) -> list[Block]:
    """Return the python blocks of a page. Fences inside other fences are text."""
    lines = text.splitlines()
    blocks = []
    comment = ""
    at = 0
    while at < len(lines):
        opening = OPENING.match(lines[at])
        if opening is None:
            comment = lines[at].strip() or comment
            at += 1
            continue
        closing = re.compile(rf"^ *{opening['fence'][0]}{{{len(opening['fence'])},}} *$")
        end = next((i for i in range(at + 1, len(lines)) if closing.match(lines[i])), None)
        if end is None:
            raise ValueError(f"line {at + 1}: this fence is never closed")
        if opening["language"] == "python":
            not_run = NOT_RUN.match(comment)
            if not_run and not not_run["reason"]:
                raise ValueError(f"line {at + 1}: not run, but the comment gives no reason")
            code = textwrap.dedent("\n".join(lines[at + 1 : end])) + "\n"
            blocks.append(Block(at + 2, code, not_run["reason"] if not_run else None))
        comment = ""
        at = end + 1
    return blocks


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in python_blocks(page.read_text(encoding="utf-8")):
        if block.not_run is None:
            # Blank lines before the code give a traceback the page's line numbers.
            code = "\n" * (block.line - 1) + block.code
            exec(compile(code, str(page), "exec"), namespace)


def test_blocks_are_found_in_order_with_their_lines() -> None:
    page = "# T\n\n```python\na = 1\n```\n\n- item\n\n    ```python title='x'\n    b = a\n    ```\n"
    assert python_blocks(page) == [Block(4, "a = 1\n", None), Block(10, "b = a\n", None)]


def test_other_languages_and_fences_in_fences_are_text() -> None:
    page = "```bash\nls\n```\n````text\n```python\nno\n```\n````\n```\nx\n```\n"
    assert python_blocks(page) == []


def test_a_block_is_left_out_only_for_a_reason_right_above_it() -> None:
    block = "```python\nx\n```\n"
    (left_out,) = python_blocks(f"<!-- not run: needs a database -->\n\n{block}")
    assert left_out.not_run == "needs a database"
    (run,) = python_blocks(f"<!-- not run: needs a database -->\n\nText.\n\n{block}")
    assert run.not_run is None
    with pytest.raises(ValueError, match="gives no reason"):
        python_blocks(f"<!-- not run: -->\n{block}")


def test_each_proposition_has_its_own_number() -> None:
    """Over all pages, so that "proposition 5" is one, wherever it is cited."""
    pages = {page: page.read_text(encoding="utf-8") for page in PAGES}
    stated = [
        int(n) for text in pages.values() for n in re.findall(r"\*\*Proposition (\d+)\.\*\*", text)
    ]
    assert sorted(stated) == list(range(1, len(stated) + 1))
    assert len(stated) >= 10
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    cited = {
        int(n)
        for text in (*pages.values(), *sources)
        for n in re.findall(r"[Pp]roposition\s+(\d+)", text)
    }
    assert cited == set(stated)


def test_an_open_fence_is_an_error() -> None:
    with pytest.raises(ValueError, match="line 1: this fence is never closed"):
        python_blocks("```python\nx = 1\n")
