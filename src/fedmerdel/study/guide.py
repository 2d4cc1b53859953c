"""Outcomes that guide: they help to find clusters, with a weight, so they can't validate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedmerdel.errors import OptionError
from fedmerdel.study.codebook import WEIGHT, Codebook, Variable, is_weight


def check_weights(given: Any) -> None:
    """Refuse what are no weights of guides by their names; None is no guide."""
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise OptionError("guide: give the weight of each guide by its name")
    wrong = [repr(name) for name, weight in given.items() if not is_weight(weight)]
    if wrong:
        raise OptionError(f"guide: {wrong[0]}: {WEIGHT}")


def guided(codebook: Codebook, weights: Any) -> Codebook:
    """Return the codebook with these variables as guides.

    Parameters
    ----------
    codebook : Codebook
        Variables and levels.
    weights : mapping of str to float, or None
        The weight of each guide by the name of its variable.
    """
    check_weights(weights)
    if weights is None:
        return codebook
    unknown = [repr(name) for name in weights if name not in codebook.names]
    if unknown:
        raise OptionError(f"guide: there is no variable {', '.join(unknown)}: check the spelling")
    return Codebook(tuple(_guide(v, weights) for v in codebook.variables))


def _guide(variable: Variable, weights: Mapping[str, Any]) -> Variable:
    if variable.name not in weights:
        return variable
    # That an outcome is missing is no sign of a cluster.
    weight, levels = weights[variable.name], variable.observed
    return replace(variable, levels=levels, missing_level=False, guide=weight)


def check_not_selected(codebook: Codebook, variable_selection: bool) -> None:
    """Refuse a selection of variables beside a guide, which is one because the study says so."""
    if variable_selection and codebook.guides:
        raise OptionError(
            f"variable_selection: {codebook.guides[0].name!r} is a guide, which the study has "
            "chosen: leave one of the two out"
        )


def no_validation(guides: Sequence[Variable], labels: Mapping[str, str]) -> str:
    """Return the sentences that go wherever a guide's rates are shown.

    Parameters
    ----------
    guides : sequence of Variable
        One at least.
    labels : mapping of str to str
        What people call a variable, where that is not its name.
    """
    names = " and ".join(f"{labels.get(v.name, v.name)} (weight {v.guide:g})" for v in guides)
    they, it = ("these outcomes", "they") if len(guides) > 1 else ("this outcome", "it")
    return (
        f"Helped to find the clusters: {names}. That the clusters differ in {they} is therefore no "
        f"validation of them: they may differ by more than chance even if {it} had nothing to do "
        "with them."
    )


def refused(codebook: Codebook, name: str) -> None:
    """Refuse to rate or test a guide as an outcome that the clusters were found without."""
    if any(name == guide.name for guide in codebook.guides):
        raise OptionError(
            f"name: {name!r} is a guide: it helped to find the clusters, so its rates are no "
            "validation of them, and a test of them is void; guide_rates shows them"
        )
