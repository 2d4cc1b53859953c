"""A fitted estimator as a file: JSON, no pickle, no row and no label."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedmerdel.errors import FileError
from fedmerdel.files import read_json, write_json
from fedmerdel.mixture.history import Move
from fedmerdel.mixture.prior import Prior
from fedmerdel.mixture.statistics import Statistics
from fedmerdel.study.codebook import Codebook

KIND = "fedmerdel estimator"
VERSION = 1

Estimator = TypeVar("Estimator")

_NOT_OPTIONS = ("codebook", "init", "prior", "random_state")
"""Kept elsewhere in the file, or of no use to a model that is fitted."""


def save(estimator: Any, path: str | Path) -> None:
    """Write what `predict`, `score_samples` and `sample` need, and how it was found."""
    prior, stats = estimator._prior, estimator._stats
    options = {k: v for k, v in estimator.get_params().items() if k not in _NOT_OPTIONS}
    names = getattr(estimator, "feature_names_in_", None)
    content = {
        "estimator": type(estimator).__name__,
        "options": options,
        "codebook": estimator.codebook_.to_dict(),
        "feature_names": None if names is None else [str(name) for name in names],
        "prior": {
            "alpha": prior.alpha,
            "n_components": prior.n_components,
            "eps": prior.eps.tolist(),
        },
        "statistics": {"T": stats.T.tolist(), "S": stats.S.tolist(), "h": stats.h.tolist()},
        "lower_bound": estimator.lower_bound_,
        "lower_bounds": estimator.lower_bounds_.tolist(),
        "history": [asdict(move) for move in estimator.history_],
        "n_iter": estimator.n_iter_,
        "converged": estimator.converged_,
    }
    write_json(path, KIND, VERSION, content)


def load(kind: type[Estimator], path: str | Path) -> Estimator:
    """Read a file written by `save`; refuse one whose parts don't fit each other."""
    content = read_json(path, KIND, VERSION)
    try:
        if content["estimator"] != kind.__name__:
            raise ValueError("another estimator")
        estimator: Any = kind(**content["options"])
        codebook = Codebook.from_dict(content["codebook"])
        prior = Prior(
            float(content["prior"]["alpha"]),
            int(content["prior"]["n_components"]),
            np.array(content["prior"]["eps"], dtype=np.float64),
            codebook.level_offsets,
        )
        T, S, h = (np.array(content["statistics"][part], dtype=np.float64) for part in "TSh")
        if prior.eps.shape != S.shape[1:] or not T.shape == h.shape == S.shape[:1]:
            raise ValueError("shapes differ")
        estimator.codebook_ = codebook
        estimator.n_features_in_ = len(codebook.variables)
        if content["feature_names"] is not None:
            estimator.feature_names_in_ = np.array(content["feature_names"], dtype=object)
        estimator.lower_bounds_ = np.array(content["lower_bounds"], dtype=np.float64)
        estimator.history_ = [
            Move(**{**move, "clusters": tuple(move["clusters"])}) for move in content["history"]
        ]
        estimator._take(
            prior,
            Statistics(T, S, h),
            float(content["lower_bound"]),
            int(content["n_iter"]),
            bool(content["converged"]),
        )
    except (KeyError, TypeError, ValueError):
        raise FileError(
            f"file {str(path)!r} is damaged or was changed: save the model again"
        ) from None
    loaded: Estimator = estimator
    return loaded
