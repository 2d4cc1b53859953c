"""JSON and TOML, edited where their structure is."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from random import Random
from typing import Any

from fuzz import nasty

MARK = "fragment-of-the-fuzzer"
"""What stands in a tree for a fragment until it is text."""

Path = tuple[Any, ...]


def edit_json(data: bytes, rng: Random) -> tuple[bytes, str]:
    """Return a document with one edit, and what it was."""
    tree = json.loads(data)
    paths = list(_paths(tree))
    path = rng.choice(paths)
    what = rng.choice(EDITS)
    fragment = nasty.json_fragment(rng)
    if what == "delete":
        parent = _at(tree, path[:-1])
        if path:
            del parent[path[-1]]
    elif what == "swap":
        other = rng.choice(paths)
        one, two = _at(tree, path), _at(tree, other)
        tree = _put(_put(tree, path, json.loads(json.dumps(two))), other, one)
    elif what == "repeat":
        found = _at(tree, path)
        times = rng.choice((2, 3, 100))
        tree = _put(tree, path, found * times if isinstance(found, list) else [found] * times)
    elif what == "cut":
        found = _at(tree, path)
        tree = _put(tree, path, found[:-1] if isinstance(found, list | str) else None)
    elif what == "perturb":
        tree = _put(tree, path, _perturbed(_at(tree, path), rng))
    elif what == "retype":
        tree = _put(tree, path, _retyped(_at(tree, path), rng))
    elif what == "rename" and path and isinstance(path[-1], str):
        parent = _at(tree, path[:-1])
        name = nasty.text(rng)
        entries = [(name if key == path[-1] else key, value) for key, value in parent.items()]
        parent.clear()
        parent.update(entries)
    elif what == "add":
        found = _at(tree, path)
        if isinstance(found, dict):
            found[nasty.text(rng)] = MARK
        elif isinstance(found, list):
            found.insert(rng.randint(0, len(found)), MARK)
        else:
            tree = _put(tree, path, [found, MARK])
    else:
        tree = _put(tree, path, MARK)
    text = json.dumps(tree, indent=rng.choice((None, 1))).replace(f'"{MARK}"', fragment)
    if what == "twice":
        text = text.replace(fragment, "1", 1).replace("{", f'{{"kind": {fragment}, ', 1)
    place = ".".join(map(str, path)) or "all"
    return text.encode(), f"{what} {place} ({fragment[:40]!r})"


EDITS = (
    *("replace", "replace", "replace", "replace", "delete", "swap", "repeat", "cut"),
    *("perturb", "perturb", "retype", "rename", "add", "twice"),
)


def _paths(tree: Any, path: Path = ()) -> Any:
    yield path
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _paths(value, (*path, key))
    elif isinstance(tree, list):
        for at, value in enumerate(tree[:50]):
            yield from _paths(value, (*path, at))


def _at(tree: Any, path: Path) -> Any:
    for part in path:
        tree = tree[part]
    return tree


def _put(tree: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    with suppress(KeyError, IndexError, TypeError):  # what was there has been moved
        _at(tree, path[:-1])[path[-1]] = value
    return tree


def _perturbed(value: Any, rng: Random) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return rng.choice((-value, value + 1, value - 1, value * 1000, value * 1.0001, 0, 1e300))
    if isinstance(value, str):
        return rng.choice((value + nasty.text(rng), value.upper(), value[::-1], value * 2))
    if isinstance(value, list):
        return value[::-1]
    return {**value, "": value}


def _retyped(value: Any, rng: Random) -> Any:
    return rng.choice((str(value), [value], {"a": value}, bool(value), [[value]], {"": [value]}))


def edit_toml(data: bytes, rng: Random) -> tuple[bytes, str]:
    """Return a study's text with one edit, and what it was."""
    lines = data.decode().split("\n")
    entries = [at for at, line in enumerate(lines) if re.match(r"\s*[\w.]+ *= ", line)]
    headers = [at for at, line in enumerate(lines) if line.startswith("[")]
    at = rng.choice(entries + headers)
    what = rng.choice(
        ("value", "value", "value", "key", "delete", "repeat", "move", "new", *("edge",) * 6)
    )
    fragment = nasty.toml_fragment(rng)
    if what == "edge":
        key = rng.choice(sorted(nasty.EDGES))
        fragment = rng.choice(nasty.EDGES[key])
        lines = [f"{key} = {fragment}" if line.startswith(f"{key} = ") else line for line in lines]
    elif what == "value" and at in entries:
        lines[at] = lines[at].partition(" = ")[0] + " = " + fragment
    elif what == "key":
        key = rng.choice(
            ("seed", "format", "a.b", ".".join("ab" * 1500), f'"{nasty.written(rng)}"')
        )
        lines[at] = f"[{key}]" if at in headers else f"{key} = " + lines[at].partition(" = ")[2]
    elif what == "delete":
        del lines[at]
    elif what == "repeat":
        lines[at:at] = [lines[at]] * rng.choice((1, 2, 300))
    elif what == "move":
        line = lines.pop(at)
        lines.insert(rng.randint(0, len(lines)), line)
    else:
        word = rng.choice(("outcomes", "row_id", "weight", "seed", "alpha", "prior", "laps", "x"))
        lines.insert(rng.randint(0, len(lines)), f"{word} = {fragment}")
    return "\n".join(lines).encode("utf-8", "replace"), f"{what} of line {at} ({fragment[:40]!r})"
