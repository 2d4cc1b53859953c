"""One case: a real file, broken in a way that a number decides, and used."""

from __future__ import annotations

import ctypes
import gc
import io
import random
import shutil
import sys
import time
import traceback
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from fedmerdel.errors import FedMerDelError, FedMerDelWarning
from fuzz import places
from fuzz.archives import edit_zip
from fuzz.arrays import edit_object
from fuzz.bulk import large
from fuzz.noise import edit_bytes
from fuzz.seals import seal
from fuzz.sheets import edit_sheet
from fuzz.tables import edit_parquet, edit_table
from fuzz.trees import edit_json, edit_toml
from fuzz.uses import KINDS, Use, run
from fuzz.workshop import SHOPS, Workshop

LONGEST_MESSAGE = 20_000
"""Characters of a message: one line, and no file's whole content."""

TIDY_MEGABYTES = 420
"""A process that has more is asked to give back what it does not use, which takes a while."""

LARGE_SHARE = 1 / 250
"""Of the cases, with a file that costs much to read."""

REFUSED, ACCEPTED, INTERNAL = "refused", "accepted", "internal"

Tree = dict[str, bytes]


class Case(NamedTuple):
    """A hostile file that lies where it is to be read."""

    kind: str
    shop: Path
    use: Use
    edits: tuple[str, ...]
    it: Path
    out: Path
    rows: bool
    """Whether it is a large table of rows: these may need much memory."""


class Outcome(NamedTuple):
    """What became of a case: refused, accepted, or internal with the reason."""

    status: str
    detail: str
    seconds: float


def prepare(shop: Workshop, seed: int, number: int) -> Case:
    """Make the hostile file of a case; the same numbers give the same file.

    What the case before has left is removed.

    Parameters
    ----------
    shop : Workshop
        Real files.
    seed, number : int
        Which case.
    """
    home = shop.bench
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    rng = random.Random(f"{seed} {number}")
    # Kinds in turn, so that few cases have all of them.
    kind = list(KINDS)[number % len(KINDS)]
    seeds, uses = KINDS[kind]
    name, use = rng.choice(seeds), rng.choice(uses)
    which = rng.choice([each for each in SHOPS if (each, name) in shop.trees])
    tree = dict(shop.trees[which, name])
    edits: list[str] = []
    is_large = rng.random() < LARGE_SHARE
    if is_large:
        edits.append(_enlarge(tree, name, rng))
    else:
        parcel = shop.parcels.get((which, name))
        if parcel is not None and rng.random() < 0.35:
            tree = _changed_object(parcel, tree, edits, rng)
        if not edits or rng.random() < 0.3:
            for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
                _edit_tree(tree, name, shop, edits, rng)
        if rng.random() < 0.6:
            seal(tree, shop.trees[which, name], name)
    it = home / ("it" + "".join(Path(name).suffixes if "." in name else []))
    packed = (which, name) in shop.parcels and rng.random() < 0.35
    if packed:
        it = it.with_suffix(".zip")
        data, what = edit_zip(tree, rng)
        tree, edits = {"": data}, [*edits, what]
    places.write_tree(it, tree)
    if not packed and not is_large and rng.random() < 0.12:
        edit = places.edit_folder if it.is_dir() else places.edit_file
        edits.append(edit(it, rng))
    rows = (is_large and _is_rows(edits[0])) or (_is_rows(name) and edits[-1] == "file: huge")
    return Case(kind, shop.folder / which, use, tuple(edits), it, home / "out", rows)


def outcome(case: Case) -> Outcome:
    """Use the hostile file, and say what became of it."""
    began = time.process_time()  # the machine may be busy with something else
    status, detail = ACCEPTED, ""
    unraised: list[str] = []
    hook, sys.unraisablehook = (
        sys.unraisablehook,
        lambda found: unraised.append(str(found.exc_value)),
    )
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():  # nobody is to read it
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FedMerDelWarning)
        # scikit-learn's own word to users, of a model whose file has no names of columns.
        warnings.filterwarnings("ignore", "X has feature names", UserWarning)
        try:
            run(case.use, case.it, case.shop, case.out)
        except FedMerDelError as error:
            status, detail = REFUSED, str(error)
            if len(detail.splitlines()) != 1 or len(detail) > LONGEST_MESSAGE:
                status = INTERNAL
                detail = f"a message of {len(detail)} characters: {detail[:200]!r}"
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            status = INTERNAL
            line = f"{Path(where.filename).name}:{where.lineno}"
            detail = f"{type(error).__name__}: {str(error)[:200]} ({line})"
    sys.unraisablehook = hook
    if unraised:
        status, detail = INTERNAL, f"ignored: {unraised[0]}"
    return Outcome(status, detail, time.process_time() - began)


def forget_peak() -> None:
    """Begin anew to look for the most memory; what made the case is given back."""
    if megabytes("VmRSS") > TIDY_MEGABYTES:
        gc.collect()
        pa.default_memory_pool().release_unused()
        ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def megabytes(what: str) -> int:
    """Return what the system says of this process's memory: VmRSS now, VmHWM at most."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) // 1024
    return 0


def _is_rows(name: str) -> bool:
    return name.startswith(("leeds.", "dictionary."))


def _enlarge(tree: Tree, name: str, rng: random.Random) -> str:
    path = rng.choice(sorted(tree))
    suffix = Path(path or name).suffix
    head = tree[path].partition(b"\n")[0] + b"\n"
    tree[path], what = large(suffix, head, rng, rows=_is_rows(path or name))
    return f"{path or name}: {what}"


def _changed_object(parcel: object, tree: Tree, edits: list[str], rng: random.Random) -> Tree:
    """Return the files of an object with a number changed, where it can still be written."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            changed, what = edit_object(parcel, rng)
            files: Tree = changed.to_files()
    except Exception:  # no way to write it: then files are edited
        return tree
    edits.append(what)
    return files


def _edit_tree(tree: Tree, name: str, shop: Workshop, edits: list[str], rng: random.Random) -> None:
    path = rng.choice(sorted(tree))
    data, other = tree[path], rng.choice(shop.files)
    suffix = Path(path or name).suffix
    try:
        again = suffix == ".parquet" and edits  # Arrow is not to read what is broken here
        if again or (rng.random() < 0.2 and suffix != ".gz"):
            tree[path], what = edit_bytes(data, rng, other)
        elif not path and name.startswith("leeds."):
            tree[path], what = edit_table(data, suffix, rng, other)
        elif suffix == ".json":
            tree[path], what = edit_json(data, rng)
        elif suffix == ".toml":
            tree[path], what = edit_toml(data, rng)
        elif suffix == ".csv":
            tree[path], what = edit_sheet(data, rng)
        elif suffix == ".parquet":
            tree[path], what = edit_parquet(data, rng, other)
        else:
            tree[path], what = edit_bytes(data, rng, other)
    except Exception:  # an earlier edit has broken it
        tree[path], what = edit_bytes(data, rng, other)
    edits.append(f"{path or name}: {what}")
