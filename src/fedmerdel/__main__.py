"""The command, from the first moment: whatever stops it, one line says so.

Until everything is imported there is nothing to tidy up, and the process ends at once. While a
command is at work the key is an exception, so that it leaves nothing half-written. Once all is
done, it is too late to stop.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it: `typing` would be imported for nothing else
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

STOPPED = 130
"""Exit code of what a key has stopped, as shells have it."""


def main() -> None:
    """Run a command."""
    signal.signal(signal.SIGINT, _end)
    command = import_module("fedmerdel.cli")  # takes a second, so not before
    sys.unraisablehook = _unraised
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        command.main()
    except KeyboardInterrupt:
        _end()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(number: int = 0, frame: FrameType | None = None) -> NoReturn:
    """Say that it was stopped, and be gone."""
    os.write(2, b"error: stopped before the end\n")
    os._exit(STOPPED)


def _unraised(found: Any) -> None:
    """End also where the exception came while Python could not pass it on."""
    if found.exc_type is KeyboardInterrupt:
        _end()
    sys.__unraisablehook__(found)


if __name__ == "__main__":
    main()
