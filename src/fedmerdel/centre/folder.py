"""A global model as a folder of readable files.

``model.json`` says how it was made, ``study.toml`` for which study, ``clusters.csv`` what is
in each cluster, ``lineage.csv`` where each local cluster went, and ``sites/`` holds what
the sites sent: the model is made of these, so they are all that is read back. ``broadcast/`` is
what the sites need for one more exchange, without any site's counts. After the first exchange
there are also ``exchanges.json``, what each has brought and what the centre must remember, and
``asked/``, what the sites last replied to. ``names.csv`` is there if clusters have names.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fedmerdel.centre.exchanges_file import load_exchanges, save_exchanges
from fedmerdel.centre.summaries import answers, check_summaries
from fedmerdel.errors import DataError, FileError, OptionError
from fedmerdel.files import (
    check_place,
    is_empty_folder,
    read_json,
    replacement,
    write_json,
    write_text,
)
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.global_model import SEARCHES, GlobalModel
from fedmerdel.model.names_file import FILE as NAMES
from fedmerdel.model.names_file import names_text, read_names
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.protocol import Study
from fedmerdel.sums.predictive import mean_levels
from fedmerdel.sums.similarity import Likeness

KIND = "fedmerdel model"
VERSION = 2
PARTS = {
    "model.json",
    "study.toml",
    "clusters.csv",
    "lineage.csv",
    "sites",
    "broadcast",
    "exchanges.json",
    "asked",
    NAMES,
}


def save_model(model: GlobalModel, path: str | Path) -> None:
    """Write the folder whole or not at all; an earlier model there is replaced."""
    check_model_place(path)
    with replacement(path, "folder") as part:
        (part / "sites").mkdir(parents=True)
        _write_parts(model, part)


def load_model(path: str | Path) -> GlobalModel:
    """Read a folder written by `save_model`."""
    source = Path(path)
    content = read_json(source / "model.json", KIND, VERSION)
    study = Study.load(source / "study.toml")
    if content.get("study_hash") != study.hash:
        raise FileError(f"folder {str(source)!r}: study.toml was changed after the merge")
    try:
        summaries = tuple(SiteSummary.load(source / "sites" / name) for name in content["sites"])
        check_summaries(study, summaries)
        groups = tuple(np.array(group, dtype=np.int64) for group in content["groups"])
        model = GlobalModel(study, summaries, groups, content["search"], content["criterion"])
        if content["exchanges"] or (source / "asked").exists():
            sent, asked = (Broadcast.load(source / part) for part in ("broadcast", "asked"))
            record, course = load_exchanges(source, sent, model.n_clusters)
            model = replace(model, record=record, next_course=course, asked=asked)
        if _belongs(model, content):
            return _with_names(model, source / NAMES)
    except DataError as error:
        raise DataError(f"folder {str(source)!r}: {error}") from None
    except (KeyError, TypeError, ValueError, OverflowError):
        pass
    raise FileError(f"file {str(source / 'model.json')!r} is damaged or was changed: merge again")


def _belongs(model: GlobalModel, content: dict[str, Any]) -> bool:
    """Whether groups and summaries are those that `model.json` was written for."""
    # Groups number the clusters through all sites, so the sites' order counts.
    names = list(model.sites)
    n_local = sum(summary.n_clusters for summary in model.summaries)
    return (
        names == content["sites"] == sorted(names)
        and model.search in SEARCHES
        and model.criterion in get_args(Likeness)
        and model.n_clusters == content["n_clusters"]
        and len(model.record) == content["exchanges"]
        and (model.asked is None or any(answers(s, model.asked) for s in model.summaries))
        and all(len(group) > 0 for group in model.groups)
        and np.array_equal(np.sort(np.concatenate(model.groups)), np.arange(n_local))
        # Another release of a library may round it otherwise.
        and isclose(model.lower_bound, content["lower_bound"], rel_tol=1e-9)
    )


def _with_names(model: GlobalModel, path: Path) -> GlobalModel:
    if not path.exists():
        return model
    try:
        return model.named(read_names(path))
    except OptionError as error:
        raise FileError(f"file {str(path)!r}: {error}") from None


def check_model_place(path: str | Path) -> None:
    """Refuse to write over anything but an empty folder or an earlier model, alone in its own.

    `save_model` asks this too; the command line asks it before a merge.

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
        content = json.loads((target / "model.json").read_text(encoding="utf-8"))
        if content["kind"] == KIND and {entry.name for entry in target.iterdir()} <= PARTS:
            return
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise FileError(f"{str(target)!r} is there and is no model, or holds more: name another folder")


def _write_parts(model: GlobalModel, part: Path) -> None:
    for summary in model.summaries:
        summary.save(part / "sites" / summary.site)
    model.study.save(part / "study.toml")
    write_text(part / "clusters.csv", _clusters(model))
    lineage = [["site", "local_cluster", "cluster", "rows"]]
    lineage += [[a.site, str(a.local_cluster), str(a.cluster), repr(a.rows)] for a in model.lineage]
    write_text(part / "lineage.csv", _csv(lineage))
    if model.names:
        write_text(part / NAMES, names_text(model.names))
    content = {
        "study_hash": model.study.hash,
        "sites": list(model.sites),
        "search": model.search,
        "criterion": model.criterion,
        "n_clusters": model.n_clusters,
        "lower_bound": model.lower_bound,
        "groups": [group.tolist() for group in model.groups],
        "exchanges": len(model.record),
    }
    (part / "broadcast").mkdir()
    model.broadcast.write(part / "broadcast")
    if model.asked is not None:
        save_exchanges(model, part)
        (part / "asked").mkdir()
        model.asked.write(part / "asked")
    write_json(part / "model.json", KIND, VERSION, content)


def _clusters(model: GlobalModel) -> str:
    """Return the share of each level in each cluster, and the clusters' rows first."""
    head = ["variable", "level", *(f"cluster_{k}" for k in range(model.n_clusters))]
    rows = [head, ["rows", "", *(repr(float(T)) for T in model.statistics.T)]]
    shares = mean_levels(model.statistics, model.prior).T
    names = [(v.name, level) for v in model.study.codebook.variables for level in v.levels]
    for (name, level), row in zip(names, shares, strict=True):
        rows.append([name, level, *(f"{share:.6f}" for share in row)])
    return _csv(rows)


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
