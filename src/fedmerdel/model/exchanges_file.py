"""What exchanges have brought, and what the centre remembers for the next one, as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedmerdel.federation.rounds import Course
from fedmerdel.files import read_json, write_json
from fedmerdel.mixture.expectations import Expectations
from fedmerdel.mixture.extrapolation import Past
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.global_model import Exchange, GlobalModel

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


def load_exchanges(folder: Path, sent: Broadcast) -> tuple[tuple[Exchange, ...], Course]:
    """Read the record, and with what is sent out the course of the next exchange."""
    content = read_json(folder / FILE, KIND, VERSION)
    record = tuple(
        Exchange(**{**step, "stale": tuple(step["stale"])}) for step in content["record"]
    )
    course = Course(
        sent.number - 1,
        sent.clusters,
        sent.cuts,
        np.array(content["age"], dtype=np.int64),
        np.array(content["parents"], dtype=np.int64),
        Past(*(tuple(_theta(t) for t in content[name]) for name in ("read", "reached"))),
        content["divergence"],
    )
    return record, course


def _plain(theta: Expectations) -> dict[str, Any]:
    return {name: array.tolist() for name, array in theta._asdict().items()}


def _theta(plain: dict[str, Any]) -> Expectations:
    return Expectations(**{name: np.array(numbers) for name, numbers in plain.items()})
