"""A fitted estimator as a file: JSON, no pickle, no row and no label.

The same fit gives the same bytes, so what depends on the machine or the day stays out:
times, threads, and the record of the search with them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedmerdel.errors import FileError
from fedmerdel.files import check_earlier, check_place, read_json, write_json
from fedmerdel.study.codebook import Codebook
from fedmerdel.sums.arrays import FloatArray, plain_number, plain_numbers, plain_whole
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

KIND = "fedmerdel estimator"
VERSION = 4

LEARNED = ("strength", "inclusion", "background")
"""What a fit may have learned of its prior."""

GIVEN = "as given"
"""How the file says that the prior was given as numbers: they are the model's own."""

Estimator = TypeVar("Estimator")


def save(estimator: Any, path: str | Path) -> None:
    """Write what an estimator needs to predict, and its options.

    Raises
    ------
    FileError
        If another file is there, or nothing can be written.
    """
    check_place(path)
    check_earlier(path, "saved estimator", is_saved)
    names = getattr(estimator, "feature_names_in_", None)
    content = {
        "estimator": type(estimator).__name__,
        "options": _options(estimator),
        "n_features": int(estimator.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        **estimator._saved(),
    }
    write_json(path, KIND, VERSION, content)


def is_saved(first: bytes) -> bool:
    """Whether these are the first bytes of what `save` wrote, in whatever version."""
    return first.startswith(f'{{"kind": "{KIND}"'.encode())


def load(kind: type[Estimator], path: str | Path) -> Estimator:
    """Read a file written by `save`; refuse one whose parts don't fit each other."""
    content = read_json(path, KIND, VERSION)
    try:
        if content["estimator"] != kind.__name__:
            raise ValueError("another estimator")
        estimator: Any = kind()
        estimator._restore(content)
        codebook = estimator.codebook_
        options = dict(content["options"])
        if options["prior"] == GIVEN:
            options["prior"] = estimator._given_prior()
        options["codebook"] = codebook if options["codebook"] else None
        guides = {variable.name: variable.guide for variable in codebook.guides}
        options["guide"] = guides if options["guide"] else None
        estimator.__init__(**options)
        estimator.n_features_in_ = plain_whole(content["n_features"])
        names = content["feature_names"]
        weights = getattr(estimator, "_weights", None)
        covariates = [] if weights is None else [each.name for each in weights.variables]
        if list(options.get("covariates") or ()) != covariates:
            raise ValueError("other covariates")
        columns = [*codebook.names, *covariates]
        if estimator.n_features_in_ != len(columns):
            raise ValueError("another number of columns")
        if names is not None:
            if sorted(names) != sorted(columns):
                raise ValueError("other names")
            estimator.feature_names_in_ = np.array(names, dtype=object)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        raise FileError(
            f"file {str(path)!r} is damaged or was changed: save the model again"
        ) from None
    loaded: Estimator = estimator
    return loaded


def clusters_content(estimator: Any) -> dict[str, Any]:
    """Return the clusters of a `MerDel` as JSON has them."""
    prior, stats = estimator._prior, estimator._stats
    return {
        "codebook": estimator.codebook_.to_dict(),
        "prior": {
            "alpha": float(prior.alpha),
            "n_components": int(prior.n_components),
            "eps": prior.eps.tolist(),
            "constant": prior.constant,
            "floor": prior.floor,
            **{name: _listed(getattr(prior, name)) for name in LEARNED},
        },
        "statistics": {"T": stats.T.tolist(), "S": stats.S.tolist(), "h": stats.h.tolist()},
        "lower_bound": estimator.lower_bound_,
        "n_iter": estimator.n_iter_,
        "converged": estimator.converged_,
    }


def read_clusters(content: dict[str, Any]) -> tuple[Codebook, Prior, Sums]:
    """Read what `clusters_content` returned."""
    codebook = Codebook.from_dict(content["codebook"])
    told = content["prior"]
    prior = Prior(
        plain_number(told["alpha"]),
        plain_whole(told["n_components"]),
        plain_numbers(told["eps"]),
        codebook.level_offsets,
        plain_number(told["constant"]),
        floor=None if told["floor"] is None else plain_number(told["floor"]),
        guide=codebook.guide,
        **{name: _array(told[name]) for name in LEARNED},
    )
    T, S, h = (plain_numbers(content["statistics"][part]) for part in "TSh")
    stats = Sums(T, S, h)
    _check_numbers(prior, stats)
    return codebook, prior, stats


def _listed(learned: FloatArray | None) -> list[float] | None:
    return None if learned is None else learned.tolist()


def _array(learned: Any) -> FloatArray | None:
    return None if learned is None else plain_numbers(learned)


def _options(estimator: Any) -> dict[str, Any]:
    """Return the options as JSON has them; labels of rows to start from are left out."""
    options = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in estimator.get_params().items()
        if name not in ("n_jobs", "verbose")
    }
    if not isinstance(options.get("init", ""), str):
        options["init"] = None
    if not isinstance(options["random_state"], int):
        options["random_state"] = None
    # What these were is said by the model itself.
    if not isinstance(options["prior"], str | None):
        options["prior"] = GIVEN
    for name in ("codebook", "guide"):
        options[name] = options[name] is not None
    return options


def _check_numbers(prior: Prior, stats: Sums) -> None:
    """Refuse numbers that no fit can have found."""
    n_clusters = len(stats.T)
    n_levels = int(prior.offsets[-1])
    if (stats.T.shape, stats.S.shape, stats.h.shape) != (
        (n_clusters,), (n_clusters, n_levels), (n_clusters,)
    ):  # fmt: skip
        raise ValueError("shapes differ")
    if not prior.is_possible or not 1 <= n_clusters <= prior.n_components:
        raise ValueError("no prior, no clusters, or too many")
    if min(stats.T.min(), stats.S.min()) < 0:
        raise ValueError("too small")
