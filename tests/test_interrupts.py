"""Ctrl-C is one line at any moment, and nothing is left half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of another kind")

STOPPED = (130, "error: stopped before the end\n")

# A process that sends itself the signal of Ctrl-C when Python first does something: no clock.
CHILD = """
import os, signal, sys
event, word = sys.argv[1:3]
del sys.argv[1:3]
def hook(happened, details):
    global event
    if happened == event and any(word in str(each) for each in details[:2]):
        event = None
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
from fedmerdel.__main__ import main
if event == "exit":
    import atexit
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
main()
"""

MOMENTS = [
    ("import", "numpy"),
    ("import", "fedmerdel.commands.site"),
    ("open", "leeds.csv"),
    ("os.rename", ".new."),
]


def interrupted(event: str, word: str, story: Path, output: Path) -> tuple[int, str]:
    command = ["fit", "study.toml", "leeds.csv", "--site", "leeds", "-o", str(output)]
    run = [sys.executable, "-c", CHILD, event, word, *command]
    said = subprocess.run(run, cwd=story, capture_output=True, text=True, check=False)
    return said.returncode, said.stderr


@pytest.mark.parametrize(("event", "word"), MOMENTS, ids=[" ".join(each) for each in MOMENTS])
def test_a_key_at_any_moment_is_one_line(
    event: str, word: str, story: Path, tmp_path: Path
) -> None:
    assert interrupted(event, word, story, tmp_path / "new") == STOPPED
    assert not os.listdir(tmp_path)


def test_a_key_at_the_very_end_comes_too_late(story: Path, tmp_path: Path) -> None:
    assert interrupted("exit", "", story, tmp_path / "new") == (0, "")
    assert (tmp_path / "new" / "summary.json").exists()


def test_as_a_module(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "fedmerdel", "describe", str(tmp_path / "nowhere")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 2
    assert told.stderr.startswith("error: ")
    assert told.stderr.count("\n") == 1


def test_the_package_is_there_at_once() -> None:
    """Else the first second would be a traceback."""
    code = "import sys, fedmerdel.__main__; print(*{'numpy', 'numba', 'typing'} & set(sys.modules))"
    told = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
    )
    assert (told.stdout.strip(), told.stderr) == ("", "")
