"""Many cases: ``python -m fuzz [--cases N] [--seed S] [--workers W]``, or one: ``--only N``.

Each worker is a process of its own with a limit on its address space. It says when a case begins
and ends. A case that takes over ten seconds of the processor is a hang; so is one that says nothing
for a minute, whatever the processor does meanwhile, and its process is killed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fuzz.page import LIMIT_MEGABYTES, Tally, write_page

SILENCE = 60.0
"""Seconds after which a worker that says nothing of its case is killed."""

CASES_EACH = 2_000
"""Cases after which a worker ends and another takes over: memory is to be that of a case, not what
thousands have left behind."""

ROOM = 2**30
"""Bytes of address space that a worker may have beyond those that it began with."""

GIVES_BACK = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
"""So that memory that was used is given back, and a peak is that of one case."""


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="run one case alone, and tell of it")
    parser.add_argument("--page", type=Path, help="results page to write")
    parser.add_argument("--work", nargs=3, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only is not None:
        run_one(given.seed, given.only)
    elif given.work:
        work(given.seed, range(*given.work))
    else:
        tally = run_all(given.seed, range(given.first, given.first + given.cases), given.workers)
        print(tally.text())
        if given.page is not None:
            write_page(given.page, tally, given.seed)
        sys.exit(0 if tally.clean else 1)


def work(seed: int, numbers: range) -> None:
    """Be a worker: run cases, and say so line by line."""
    from fuzz.cases import forget_peak, megabytes, outcome, prepare
    from fuzz.workshop import workplace

    def say(**told: Any) -> None:
        os.write(1, (json.dumps(told) + "\n").encode())

    with workplace() as shop:
        gc.freeze()  # what is loaded stays: looking through it takes longer than most cases
        for number in numbers:
            case = prepare(shop, seed, number)
            forget_peak()
            say(begins=number, kind=case.kind)
            _limit_memory(ROOM)
            found = outcome(case)
            peak = megabytes("VmHWM")
            _limit_memory(None)
            say(
                ends=number,
                kind=case.kind,
                status=found.status,
                detail=found.detail if found.status == "internal" else "",
                seconds=round(found.seconds, 3),
                peak=0 if case.rows else peak,
            )


def _limit_memory(room: int | None) -> None:
    """Allow no more than so many bytes of address space beyond those there are, or any number."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = hard if room is None else pages * os.sysconf("SC_PAGE_SIZE") + room
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def run_one(seed: int, number: int) -> None:
    """Run one case, and tell what it is and what became of it."""
    from fuzz.cases import forget_peak, megabytes, outcome, prepare
    from fuzz.workshop import workplace

    with workplace() as shop:
        case = prepare(shop, seed, number)
        use = case.use if isinstance(case.use, str) else case.use.__name__
        print(f"{case.kind}: {use}")
        print("\n".join(f"  {edit[:300]}" for edit in case.edits))
        forget_peak()
        before = megabytes("VmHWM")
        _limit_memory(ROOM)
        found = outcome(case)
        print(f"{found.status} after {found.seconds:.2f} s: {found.detail[:2000]}")
        print(f"peak memory {megabytes('VmHWM')} MB, {before} MB before")


def run_all(seed: int, numbers: range, n_workers: int) -> Tally:
    """Run cases in worker processes, and count what became of them."""
    tally = Tally()
    parts = [numbers[at::n_workers] for at in range(n_workers)]
    watched = selectors.DefaultSelector()
    for part in parts:
        Worker(seed, part, watched)
    last_told = time.monotonic()
    try:
        while watched.get_map():
            for key, _ in watched.select(timeout=1.0):
                key.data.hear(tally)
            for key in list(watched.get_map().values()):
                key.data.look()
            if time.monotonic() - last_told > 60:
                last_told = time.monotonic()
                wrong = [f"case {number}: {why}" for number, why in tally.wrong.items()][-3:]
                told = f"{tally.n_cases} cases, {len(tally.wrong)} wrong"
                print(told, *wrong, sep="; ", file=sys.stderr, flush=True)
    except KeyboardInterrupt:  # what it has found until now is told too
        for key in list(watched.get_map().values()):
            key.data.process.kill()
    return tally


def command(seed: int, numbers: range) -> list[str]:
    """Return how a worker is started."""
    bounds = map(str, (numbers.start, numbers.stop, numbers.step))
    return [sys.executable, "-m", "fuzz", "--seed", str(seed), "--work", *bounds]


class Worker:
    """A process that runs cases, one after the other; another takes over where it dies."""

    def __init__(self, seed: int, numbers: range, watched: selectors.BaseSelector) -> None:
        self.seed, self.numbers, self.watched = seed, numbers, watched
        self.at: int | None = None
        self.kind, self.began, self.rest = "", 0.0, b""
        self.start()

    def start(self) -> None:
        """Begin with the first of the cases that are left."""
        self.process = subprocess.Popen(
            command(self.seed, self.numbers[:CASES_EACH]),
            stdout=subprocess.PIPE,
            env={**os.environ, **GIVES_BACK},
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.watched.register(self.process.stdout, selectors.EVENT_READ, self)

    def hear(self, tally: Tally) -> None:
        """Take in what the process says; where it has ended, begin again after its case."""
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 2**16)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            if "begins" in told:
                self.at, self.kind, self.began = told["begins"], told["kind"], time.monotonic()
            else:
                number, self.at = told.pop("ends"), None
                if told["peak"] > LIMIT_MEGABYTES and len(self.numbers) > 1:
                    # Again, alone: a process holds what earlier cases have left in pieces.
                    Worker(self.seed, range(number, number + 1), self.watched)
                else:
                    tally.add(self.seed, number, **told)
        if not data:
            self.watched.unregister(self.process.stdout)
            self.process.stdout.close()
            code = self.process.wait()
            if code == 0 and self.at is None:
                self.numbers = self.numbers[CASES_EACH:]
            elif self.at is not None:
                took = time.monotonic() - self.began
                status = "hang" if took > SILENCE else "internal"
                tally.add(
                    self.seed, self.at, kind=self.kind, status=status, seconds=round(took, 3),
                    detail=f"the process died with code {code}", peak=0,
                )  # fmt: skip
                self.numbers = range(self.at + self.numbers.step, *_end(self.numbers))
                self.at = None
            else:
                raise RuntimeError(f"a worker ended with code {code} between cases")
            if self.numbers:
                self.start()

    def look(self) -> None:
        """Kill the process if its case takes too long."""
        if self.at is not None and time.monotonic() - self.began > SILENCE:
            self.process.kill()


def _end(numbers: range) -> tuple[int, int]:
    return numbers.stop, numbers.step


if __name__ == "__main__":
    main()
