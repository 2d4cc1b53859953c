"""Take a site's turns many times, each time killed at another moment, and look at what has left.

``python -m tests.kill_masking FOLDER``. The site is york, all others and the centre are in
this process. Each of york's turns is killed at each call that changes files, one after another,
until it ends by itself; whatever lies in its outbox has left. Prints the number of kills and
the number of messages; raises if two different messages of one name, two vectors for one ctx or
seeds for two have ever been there.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NoReturn

from fedmerdel.masking.folders import take_centre_turn, take_site_turn
from fedmerdel.masking.messages import Answer, Seed
from fedmerdel.masking.spelling import read
from tests.masked import AGREED, MOST, NAMES, Toy, member, vectors

SITE = "york"
CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree", "os.truncate"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def turn(folder: Path, site: str) -> str:
    return take_site_turn(
        folder / site,
        folder / "to-sites",
        folder / f"from-{site}",
        AGREED,
        member(site),
        Toy(vectors()[site], 2),
    )


def killed(folder: Path, at: int) -> bool:
    """Take york's turn in a child that is killed at one of these calls; say whether it was.

    A child that was not killed must have ended well.
    """
    pid = os.fork()
    if pid == 0:
        _run(folder, at)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit("the turn itself failed")
    return os.WIFSIGNALED(status)


def _run(folder: Path, at: int) -> NoReturn:
    seen = [0]

    def hook(event: str, details: Any) -> None:
        if event in CHANGES or (event == "open" and details[2] & WRITES):
            if seen[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
            seen[0] += 1

    sys.addaudithook(hook)
    try:
        turn(folder, SITE)
    except BaseException as why:
        os.write(2, repr(why).encode())
        os._exit(1)
    os._exit(0)


def look(folder: Path, left: dict[str, set[bytes]]) -> None:
    """Note all that has left, as a courier would at this moment."""
    for path in (folder / f"from-{SITE}").glob("*.json"):
        left[path.name].add(path.read_bytes())


def main() -> None:
    folder = Path(sys.argv[1])
    for name in ("to-sites", "to-centre", *(f"from-{site}" for site in NAMES)):
        (folder / name).mkdir()
    left: dict[str, set[bytes]] = defaultdict(set)
    kills, waits = 0, ""
    while "has ended" not in waits:
        at = 0
        while killed(folder, at):
            kills, at = kills + 1, at + 1
            look(folder, left)
        killed(folder, 10**9)
        look(folder, left)
        for site in NAMES[:-1]:
            turn(folder, site)
        for path in folder.glob("from-*/*.json"):
            (folder / "to-centre" / path.name).write_bytes(path.read_bytes())
        work = Toy(vectors()[SITE], 2)
        places = folder / "centre", folder / "to-centre", folder / "to-sites"
        waits = take_centre_turn(*places, AGREED, work).waiting
    twice = [name for name, contents in left.items() if len(contents) > 1]
    assert not twice, twice
    contents = {name: next(iter(each)) for name, each in left.items()}
    answers = [read(Answer, each, MOST) for n, each in contents.items() if n.startswith("answer")]
    seeds = [read(Seed, each, MOST) for name, each in contents.items() if name.startswith("seed")]
    assert len({answer.head.ctx for answer in answers}) == len(answers) == 2
    assert {seed.ctx for seed in seeds} == {answer.head.ctx for answer in answers}
    assert len({answer.head.number for answer in answers}) == 2
    print(kills, len(contents))


if __name__ == "__main__":
    main()
