"""Where a federation is written: what may be there, and what would be lost with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fedmerdel.bundles import DESKTOP, holds_only
from fedmerdel.errors import FileError
from fedmerdel.files import MOST_BYTES, check_place, is_empty_folder, read_json, read_plain
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.model_files import CLUSTERS, DOCUMENT, STUDY, SUMS
from fedmerdel.model.names_file import FILE as NAMES
from fedmerdel.parcels import would_lose
from fedmerdel.release.reply import Reply
from fedmerdel.release.summary import SiteSummary
from fedmerdel.signatures import FILE as SIGNATURE
from fedmerdel.texts import TextError, json_content

KIND = "fedmerdel federation"
VERSION = 2
FILE = "federation.json"
PARTS = {FILE, STUDY, "lineage.csv", NAMES}
FOLDERS = {
    "sites": SiteSummary.file_names() | Reply.file_names(),
    "asked": Broadcast.file_names(),
    "broadcast": Broadcast.file_names(),
    "model": frozenset({DOCUMENT, STUDY, SUMS, CLUSTERS, NAMES, SIGNATURE}),
}
"""What each part that is a folder may hold; sites have a folder each."""


def check_centre_place(path: str | Path) -> None:
    """Refuse to write over anything but an empty folder or an earlier federation, alone there.

    Raises
    ------
    FileError
        If something else is there, or nothing can be written there.
    """
    target = Path(path)
    check_place(target, "folder", make_parents=True)
    if not target.exists() or is_empty_folder(target):
        return
    try:
        content = json_content(read_plain(target / FILE, FILE), MOST_BYTES)
        if content["kind"] == KIND and _is_ours(target):
            return
    except (OSError, TextError, KeyError, TypeError):
        pass
    raise FileError(
        f"{str(target)!r} is there and is no centre's folder, or holds more: name another"
    )


def _is_ours(folder: Path) -> bool:
    """Whether a folder holds what `save_federation` writes and nothing else, hidden or linked."""
    with os.scandir(folder) as entries:
        return all(map(_belongs, entries))


def _belongs(entry: os.DirEntry[str]) -> bool:
    inside = FOLDERS.get(entry.name)
    if inside is None:
        return entry.is_file(follow_symlinks=False) and entry.name in {*PARTS, *DESKTOP}
    if not entry.is_dir(follow_symlinks=False):
        return False
    parts = [Path(entry)]
    if entry.name == "sites":
        parts = [Path(entry) / name for name in os.listdir(entry)]
    return all(
        part.is_dir() and not part.is_symlink() and holds_only(part, inside) for part in parts
    )


def check_kept(sites: Sequence[str], names: Sequence[str], n_rounds: int, path: str | Path) -> None:
    """Refuse to lose sites, rounds or names of clusters of an earlier federation in one place.

    Raises
    ------
    FileError
        If it has sites that are not among these, more rounds, or names where there are none.
    """
    target = Path(path)
    try:
        earlier = read_json(target / FILE, KIND, VERSION)
        lost = sorted({str(site) for site in earlier["sites"]} - set(sites))
        rounds = len(earlier["record"])
    except (FileError, KeyError, TypeError):  # there is none, or nobody can read it
        return
    if lost:
        raise would_lose(target, f"has what {', '.join(lost)} sent")
    if rounds > n_rounds:
        what = "round" if rounds == 1 else "rounds"
        raise would_lose(target, f"has replies and record of {rounds} {what}")
    if (target / NAMES).exists() and not any(names):
        raise would_lose(target, "has names for its clusters")
