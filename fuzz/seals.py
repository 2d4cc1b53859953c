"""Hashes and signatures made right again, so that what they guard is read.

Whoever sends a hostile file has a key of its own, and can compute any hash.
"""

from __future__ import annotations

from contextlib import suppress

from fedmerdel import Broadcast, Study
from fedmerdel.signatures import FILE as SIGNATURE
from fedmerdel.signatures import signature_of
from fuzz.workshop import KEYS

Tree = dict[str, bytes]


class _Any:
    """Equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class _Unsealed(Broadcast):
    hash = _Any()  # type: ignore[assignment]


def seal(tree: Tree, real: Tree, name: str) -> None:
    """Make what guards files right again, as far as they can be read at all.

    Parameters
    ----------
    tree : dict of str to bytes
        The files, by their paths; changed in place.
    real : dict of str to bytes
        The same before they were edited.
    name : str
        The name of all of them in a workshop.
    """
    for path in sorted(tree):
        folder, _, file = path.rpartition("/")
        folder = f"{folder}/" if folder else ""
        with suppress(Exception):  # it can't be read
            if file == "study.toml" and path in real and tree[path] != real[path]:
                _seal_study(tree, real, path)
            elif file == "broadcast.json":
                _seal_broadcast(tree, real, folder)
    for path in sorted(tree):
        if path.endswith(SIGNATURE):
            folder = path.removesuffix(SIGNATURE)
            places = [*folder.split("/"), name.partition("-")[0]]
            owner = next((place for place in places if place in KEYS), "centre")
            tree[path] = signature_of(_inside(tree, folder), KEYS[owner])


def _inside(tree: Tree, folder: str) -> Tree:
    inner = {path.removeprefix(folder): path for path in tree if path.startswith(folder)}
    return {name: tree[path] for name, path in inner.items() if "/" not in name}


def _seal_study(tree: Tree, real: Tree, path: str) -> None:
    old, new = (Study.from_bytes(files[path]).hash for files in (real, tree))
    for each, data in tree.items():
        tree[each] = data.replace(old.encode(), new.encode())


def _seal_broadcast(tree: Tree, real: Tree, folder: str) -> None:
    old = Broadcast.from_files(_inside(real, folder)).hash
    found = _Unsealed.from_files(_inside(tree, folder))
    new = Broadcast.hash.func(found)  # type: ignore[attr-defined]
    path = f"{folder}broadcast.json"
    tree[path] = tree[path].replace(old.encode(), new.encode())
