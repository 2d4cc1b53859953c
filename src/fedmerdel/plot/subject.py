"""What is drawn: the parts of a model or of a fitted estimator that figures show.

Estimators are told by their attributes, for their package lies above this one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fedmerdel.centre.state import FederationState
from fedmerdel.errors import OptionError
from fedmerdel.model.state import ModelState
from fedmerdel.study.codebook import Codebook
from fedmerdel.study.conditions import level_texts
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.profile import Profile, profile


class Clusters(NamedTuple):
    """Clusters by levels, of a global model or of one table.

    Attributes
    ----------
    profile : Profile
        Every level in every cluster.
    codebook : Codebook
        The levels.
    texts : list of str
        What each level is called.
    names : tuple of str
        What each cluster is called.
    sizes : tuple of str
        Its rows; of one table their share, for weighted rows have no number.
    size : str
        What the sizes are.
    """

    profile: Profile
    codebook: Codebook
    texts: list[str]
    names: tuple[str, ...]
    sizes: tuple[str, ...]
    size: str


def global_model(model: Any) -> ModelState:
    """Return the global model, or that of a federation or of a fitted `FedMerDel`.

    Raises
    ------
    OptionError
        If it is none of these.
    """
    found = getattr(model, "model_", getattr(model, "model", model))
    if not isinstance(found, ModelState):
        raise OptionError("model: give a GlobalModel, a Federation or a fitted FedMerDel")
    return found


def federation_of(model: Any) -> FederationState | None:
    """Return the federation, or that of a fitted `FedMerDel`; None where it is not at hand."""
    found = getattr(model, "federation_", model)
    return found if isinstance(found, FederationState) else None


def needed_federation(model: Any) -> FederationState:
    """Return the federation, and refuse what has none.

    Raises
    ------
    OptionError
        If it is a model alone, or none of these.
    """
    global_model(model)
    found = federation_of(model)
    if found is None:
        raise OptionError(
            "model: this figure shows what sites sent, which a model does not have: give the "
            "Federation, or a FedMerDel as it was fitted"
        )
    return found


def of_one_table(model: Any) -> bool:
    """Tell whether this is a fitted `MerDel`."""
    return hasattr(model, "level_probabilities_") and hasattr(model, "selection_probability_")


def either(model: Any) -> ModelState | None:
    """Return the global model, or None for a fitted `MerDel`.

    Raises
    ------
    OptionError
        If it is none of what can be drawn.
    """
    if of_one_table(model):
        return None
    try:
        return global_model(model)
    except OptionError:
        raise OptionError(
            "model: give a GlobalModel, a Federation, or a fitted FedMerDel or MerDel"
        ) from None


def clusters_of(model: Any) -> Clusters:
    """Return the clusters by levels of a model."""
    found = either(model)
    if found is None:
        weights: FloatArray = model.weights_
        codebook: Codebook = model.codebook_
        return Clusters(
            profile(*model._clusters()),
            codebook,
            level_texts(codebook, {}),
            tuple(f"cluster {k}" for k in range(len(weights))),
            tuple(f"{100 * share:.1f} %" for share in weights),
            "of rows",
        )
    codebook = found.study.codebook
    return Clusters(
        found.profile,
        codebook,
        level_texts(codebook, dict(found.study.labels)),
        names_of(found),
        tuple(f"{rows:,.0f}" for rows in found.rows),
        "rows",
    )


def names_of(model: ModelState | FederationState) -> tuple[str, ...]:
    """Return what the clusters of a model are called."""
    return tuple(model.name(k) for k in range(model.n_clusters))
