"""A few hundred hostile files of all kinds; `make fuzz` tries hundreds of thousands."""

from __future__ import annotations

import re
import selectors
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fuzz.__main__ as runner
import numpy as np
import pytest
from fuzz.cases import Case, outcome, prepare
from fuzz.page import LIMIT_MEGABYTES, LIMIT_SECONDS, Tally, write_page
from fuzz.uses import KINDS
from fuzz.workshop import Workshop, workplace

from fedmerdel.errors import DataError
from fedmerdel.release import grid

SEED, EACH, PARTS = 20, 12, 3

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes, links and /proc")


@pytest.fixture(scope="module")
def shop() -> Iterator[Workshop]:
    with workplace() as shop:
        yield shop


@pytest.mark.parametrize("part", range(PARTS))
def test_hostile_files_are_refused_or_used(part: int, shop: Workshop) -> None:
    tally, numbers = Tally(), range(part, EACH * len(KINDS), PARTS)
    for number in numbers:
        case = prepare(shop, SEED, number)
        found = outcome(case)
        tally.add(SEED, number, kind=case.kind, status=found.status, detail=found.detail,
                  seconds=0.0, peak=0)  # fmt: skip
    assert tally.clean, tally.text()
    # Of every kind some, and neither all refused nor all taken.
    assert {kind for kind, _ in tally.counts} == {[*KINDS][n % len(KINDS)] for n in numbers}
    statuses = [status for _, status in tally.counts.elements()]
    assert min(statuses.count("refused"), statuses.count("accepted")) > len(statuses) / 10


def content(path: Path) -> dict[str, Any]:
    if path.is_symlink() or not path.is_dir():
        return {"": path.read_bytes() if path.is_file() and path.stat().st_size < 10**7 else None}
    return {each.name: content(each) for each in sorted(path.iterdir())}


def test_the_same_numbers_give_the_same_file(shop: Workshop) -> None:
    for number in range(100, 100 + len(KINDS)):
        made = [prepare(shop, 1, number) for _ in range(2)]
        before = content(made[0].it)
        assert made[0] == made[1]
        assert content(prepare(shop, 1, number).it) == before
    assert len({prepare(shop, seed, 1).edits for seed in range(9)}) > 1


def fails_with(error: BaseException) -> Any:
    def use(*_: Any) -> None:
        raise error

    return use


def wrong_use(*_: Any) -> None:
    np.log(np.zeros(1))


def lost_error(*_: Any) -> None:
    class Lost:
        def __del__(self) -> None:
            raise ValueError("nobody hears this")

    Lost()


@pytest.mark.parametrize(
    ("use", "status", "words"),
    [
        (lambda *_: None, "accepted", ""),
        (fails_with(DataError("no")), "refused", "no"),
        (fails_with(DataError("two\nlines")), "internal", "a message"),
        (fails_with(KeyError("secret")), "internal", "KeyError"),
        (fails_with(MemoryError()), "internal", "MemoryError"),
        (fails_with(RecursionError()), "internal", "RecursionError"),
        (fails_with(OSError()), "internal", "OSError"),
        (wrong_use, "internal", "RuntimeWarning"),
        (lost_error, "internal", "nobody hears this"),
    ],
)
def test_what_goes_wrong_is_noticed(use: Any, status: str, words: str, tmp_path: Path) -> None:
    case = Case("study", tmp_path, use, (), tmp_path, tmp_path, False)
    found = outcome(case)
    assert found.status == status
    assert words in found.detail


def test_a_planted_error_is_found(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that takes every cell for a number."""
    monkeypatch.setattr(grid, "NUMBER", re.compile(r"[\s\S]*"))
    first = list(KINDS).index("summary")
    found = (
        outcome(prepare(shop, 5, number)) for number in range(first, 200 * len(KINDS), len(KINDS))
    )
    assert any(each.status == "internal" and "ValueError" in each.detail for each in found)


def test_all_that_is_wrong_is_told(tmp_path: Path) -> None:
    tally = Tally()
    told = {"kind": "study", "detail": "", "seconds": 0.1, "peak": 300}
    tally.add(0, 1, **{**told, "status": "refused"})
    assert tally.clean
    write_page(tmp_path / "page.md", tally, 0)
    assert "Wrong" not in (tmp_path / "page.md").read_text()
    tally.add(0, 2, **{**told, "status": "internal", "detail": "KeyError"})
    tally.add(0, 3, **{**told, "status": "accepted", "peak": LIMIT_MEGABYTES + 1})
    tally.add(0, 4, **{**told, "status": "accepted", "seconds": LIMIT_SECONDS + 1})
    assert sorted(tally.wrong) == [2, 3, 4]
    write_page(tmp_path / "page.md", tally, 0)
    page = (tmp_path / "page.md").read_text()
    for words in ("case 2: study: internal", "KeyError", "501 MB", "case 4: study: hang"):
        assert words in page
        assert words in tally.text()


WORKER = """
import os, signal
print('{"begins": 3, "kind": "study"}', flush=True)
%s
"""


@pytest.mark.parametrize(
    ("ends", "status"),
    [("os.kill(os.getpid(), signal.SIGSEGV)", "internal"), ("signal.pause()", "hang")],
)
def test_a_worker_that_dies_or_hangs_is_noticed(
    ends: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "command", lambda *_: [sys.executable, "-c", WORKER % ends])
    tally, watched = Tally(), selectors.DefaultSelector()
    worker = runner.Worker(0, range(3, 4), watched)
    while worker.at is None:
        watched.select()
        worker.hear(tally)
    if status == "hang":
        worker.look()  # it has not taken long
        worker.began -= runner.SILENCE + 1
        worker.look()
    while watched.get_map():
        watched.select()
        worker.hear(tally)
    assert tally.counts == {("study", status): 1}
    assert str(-(signal.SIGKILL if status == "hang" else signal.SIGSEGV)) in tally.wrong[3]
    assert not worker.numbers
