"""How much memory there is, so that a table is refused that needs more."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from fedmerdel.errors import FileError


def free_memory() -> int | None:
    """Return the bytes that this process may still take; None where the system does not tell."""
    found = []
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        told = next((line for line in lines if line.startswith("MemAvailable:")), "")
        found.append(int(told.split()[1]) * 1024)
    with suppress(OSError, ValueError, AttributeError):
        if not found:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    if sys.platform == "linux":
        with suppress(OSError, ValueError, ImportError):
            found.append(_left_of_limit())
    return max(min(found), 0) if found else None


def _left_of_limit() -> int:
    """Return what is left of the address space that a process was given."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        raise ValueError("no limit")
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return limit - pages * os.sysconf("SC_PAGE_SIZE")


def check_memory(needed: float, where: str, what: str = "it") -> None:
    """Refuse what needs more memory than there is.

    Parameters
    ----------
    needed : float
        Bytes that are needed.
    where : str
        How the message names the file.
    what : str
        What needs them.
    """
    free = free_memory()
    if free is not None and needed > free:
        raise FileError(
            f"{where}: {what} needs about {_gigabytes(needed)} of memory, and there are "
            f"{_gigabytes(free)}: leave out rows or columns, or use a larger machine"
        )


def too_little(where: str) -> FileError:
    """Word the error for a file that was read until memory was used up."""
    return FileError(
        f"{where} needs more memory than there is: leave out rows or columns, or use a larger "
        "machine"
    )


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:,.1f} GB"
