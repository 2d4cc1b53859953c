"""Run a command many times, each time killed at another moment, and look at what is there.

``python tests/kill_commands.py FOLDER COMMAND KILLS SEED``. One process loads the software and
forks: what is killed is a child in the middle of the command. Half of the children are killed at
a call that changes files (open, rename, and so on), the last such call first, since writing comes
last; half after a random time. Prints how many were killed, and for how many of these the target
was the new one.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from fedmerdel.cli import app

WATCHED = {
    *("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.scandir", "shutil.rmtree"),
    *("fcntl.flock", "ctypes.dlsym", "os.link", "os.truncate"),
}


def arguments(folder: Path, command: str) -> tuple[list[str], Path]:
    """Return what to run for each command, and its target."""
    study, table, here = folder / "study.toml", folder / "leeds.csv", folder / f"out-{command}"
    here.mkdir(exist_ok=True)
    inputs: dict[str, list[Any]] = {
        "fit": [study, table, "--site", "leeds"],
        "reply": [study, folder / "centre" / "broadcast", table, "--site", "leeds"],
        "merge": [study, folder / "leeds", folder / "york"],
        "step": [folder / "centre", folder / "leeds-1", folder / "york-1"],
        "assign": [folder / "centre" / "model", table],
        "report": [folder / "centre"],
        "validate": [folder / "centre" / "model", table, "--site", "leeds"],
    }
    ends = {"assign": ".csv", "report": ".html"}
    target = here / f"target{ends.get(command, '')}"
    return [command, *map(str, inputs[command]), "-o", str(target)], target


def content(target: Path) -> dict[str, bytes]:
    """Return all files of a target; none if it is not there."""
    if target.is_file():
        return {"": target.read_bytes()}
    files = (path for path in sorted(target.rglob("*")) if path.is_file())
    return {str(path.relative_to(target)): path.read_bytes() for path in files}


def run_killed(call: list[str], at: int | None, after: float) -> bool:
    """Run a command in a child that is killed; say whether it was, and not done before."""
    pid = os.fork()
    if pid == 0:
        _run(call, at)
    if at is None:
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def count_calls(call: list[str]) -> int:
    """Run a command to its end in a child, and return how many watched calls it makes."""
    told, tell = os.pipe()
    if os.fork() == 0:
        _run(call, None, tell)
    os.wait()
    return int(os.read(told, 100))


def _run(call: list[str], at: int | None, tell: int | None = None) -> NoReturn:
    """Be the child: run the command, and be killed at one of the watched calls."""
    seen = [0]

    def hook(event: str, details: Any) -> None:
        if event in WATCHED:
            if seen[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
            seen[0] += 1

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    sys.addaudithook(hook)
    app(args=call, standalone_mode=False)
    if tell is not None:
        os.write(tell, str(seen[0]).encode())
    os._exit(0)


def main() -> None:
    """Kill, look, and begin again from the old target."""
    folder, command = Path(sys.argv[1]), sys.argv[2]
    n_kills, rng = int(sys.argv[3]), random.Random(int(sys.argv[4]))
    call, target = arguments(folder, command)
    began = time.perf_counter()
    run_killed(call, 10**9, 0)
    took = time.perf_counter() - began
    new = content(target)
    # An old one that is told from the new by one more line where its reader does not mind.
    old = dict(new)
    mark = next((name for name in old if name.endswith(("README.txt", "lineage.csv", ""))), "")
    old[mark] += b"\n"
    restore(target, old)
    n_calls = count_calls(call)
    killed, tried, after_it = 0, 0, 0
    while killed < n_kills:
        restore(target, old)
        at = n_calls - 1 - (tried // 2) % n_calls if tried % 2 == 0 else None
        killed += run_killed(call, at, rng.random() * took)
        tried += 1
        found = content(target)
        assert found in (old, new), (command, at, sorted(found), sorted(new))
        after_it += found == new
    run_killed(call, 10**9, 0)
    assert os.listdir(target.parent) == [target.name], os.listdir(target.parent)
    assert content(target) == new
    print(killed, after_it)


def restore(target: Path, files: dict[str, bytes]) -> None:
    """Put the old one in its place; what killed runs left beside it stays for the next."""
    for name, data in files.items():
        path = target / name if name else target
        path.write_bytes(data)


if __name__ == "__main__":
    main()
