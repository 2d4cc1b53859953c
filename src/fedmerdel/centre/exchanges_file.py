"""What exchanges have brought, and what the centre remembers for the next one, as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedmerdel.centre.lineage import Exchange
from fedmerdel.centre.rounds import UNCUT, Course
from fedmerdel.files import read_json, write_json
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.extrapolation import Past

KIND = "fedmerdel exchanges"
VERSION = 1
FILE = "exchanges.json"


def save_exchanges(model: GlobalModel, folder: Path) -> None:
    """Write the record and the centre's memory into a model's folder."""
    course = model.course
    content = {
        "record": [step._asdict() for step in model.record],
        "age": course.age.tolist(),
        "parents": course.parents.tolist(),
        "divergence": course.divergence,
        "read": [_plain(theta) for theta in course.past.read],
        "reached": [_plain(theta) for theta in course.past.reached],
    }
    write_json(folder / FILE, KIND, VERSION, content)


def load_exchanges(
    folder: Path, sent: Broadcast, n_clusters: int
) -> tuple[tuple[Exchange, ...], Course]:
    """Read the record, and with what is sent out the course of the next exchange.

    Raises
    ------
    ValueError, TypeError, KeyError
        If the file was damaged or changed.
    """
    content = read_json(folder / FILE, KIND, VERSION)
    record = tuple(
        Exchange(**{**step, "stale": tuple(step["stale"])}) for step in content["record"]
    )
    past = Past(*(tuple(_theta(t) for t in content[name]) for name in ("read", "reached")))
    age = np.array(content["age"], dtype=np.int64)
    parents = np.array(content["parents"], dtype=np.int64)
    K = sent.n_clusters
    shapes = {array.shape for theta in (*past.read, *past.reached) for array in theta}
    divergence = content["divergence"]
    fits = (
        len(past.read) == len(past.reached)
        and shapes <= {(K,), sent.clusters.log_levels.shape}
        and age.shape == parents.shape == (K,)
        and np.array_equal(age == UNCUT, sent.uncut)
        and parents.min() >= 0
        and parents.max() < n_clusters
        and isinstance(divergence, float | None)
        and all(isinstance(step.elbo, float | None) for step in record)
        and [step.number for step in record] == list(range(1, sent.number))
    )
    if not fits:
        raise ValueError(FILE)
    return record, Course(sent.number - 1, sent.clusters, sent.cuts, age, parents, past, divergence)


def _plain(theta: Expectations) -> dict[str, Any]:
    return {name: array.tolist() for name, array in theta._asdict().items()}


def _theta(plain: dict[str, Any]) -> Expectations:
    return Expectations(
        np.array(plain["log_weights"], dtype=np.float64),
        np.array(plain["log_levels"], dtype=np.float64),
    )
