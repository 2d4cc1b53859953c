"""Folders, edited: what is missing, more, linked, a pipe, a folder, or huge."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

EDITS = (
    *("missing", "missing", "more", "link", "loop", "pipe", "folder", "huge", "empty", "rename"),
    *("hidden", "deep", "many", "outside"),
)

ODD_NAMES = (
    *(
        "x",
        ".x",
        ".DS_Store",
        "Thumbs.db",
        "é",
        "e\u0301",
        "😀",
        "a\nb",
        "-rf",
        "*",
        " ",
        "x" * 250,
    ),
    *("COUNTS.CSV", "summary.json", "reply.json", "model.json", "federation.json", "names.csv"),
)


def write_tree(path: Path, tree: dict[str, bytes]) -> None:
    """Write files by their paths under a folder, or one file where the path is empty."""
    for name, content in tree.items():
        target = path / name if name else path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        if target.suffix == ".key":
            target.chmod(0o600)


def edit_folder(path: Path, rng: Random) -> str:
    """Change what is in a folder, and say what was done."""
    what = rng.choice(EDITS)
    inside = sorted(each for each in path.rglob("*") if not each.is_symlink())
    if not inside:
        return "nothing"
    one = rng.choice(inside)
    home = rng.choice([path, *(each for each in inside if each.is_dir())])
    new = home / rng.choice(ODD_NAMES)
    if what in ("more", "hidden", "empty") and not new.exists():
        new.write_bytes(b"" if what == "empty" else b"{}")
    elif what == "missing":
        _remove(one)
    elif what == "rename" and not new.exists() and home in (path, one.parent):
        one.rename(new)
    elif what == "deep":
        (home / "/".join("d" * 60)).mkdir(parents=True)
    elif what == "many":
        for n in range(rng.choice((20, 1001))):
            (home / f"{n}").touch()
    elif what in ("link", "loop", "outside"):
        keep = path.parent / "kept"
        _remove(keep)
        one.rename(keep)
        leads = {"link": keep, "loop": one, "outside": Path("/dev/zero")}
        one.symlink_to(leads[what])
    elif what == "pipe":
        _remove(one)
        os.mkfifo(one)
    elif what == "folder":
        _remove(one)
        one.mkdir()
    elif what == "huge" and one.is_file():
        os.truncate(one, rng.choice((2**26, 2**26 + 1, 3 * 2**30)))
    return f"folder: {what} {one.relative_to(path)}"


def edit_file(path: Path, rng: Random) -> str:
    """Put something else in the place of a file, and say what."""
    what = rng.choice(("missing", "link", "loop", "pipe", "folder", "huge", "device"))
    keep = path.parent / "kept"
    _remove(keep)
    if what == "link":
        path.rename(keep)
        path.symlink_to(keep)
        return "file: link"
    if what == "huge":
        os.truncate(path, rng.choice((2**26 + 1, 3 * 2**30)))
        return "file: huge"
    _remove(path)
    if what == "loop":
        path.symlink_to(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    return f"file: {what}"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
