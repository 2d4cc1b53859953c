"""Every experiment by its name."""

from __future__ import annotations

from experiments.experiment import Experiment
from experiments.studies import (
    comparisons,
    criteria,
    frequency,
    merging,
    mnist,
    removed,
    selection,
    sizes,
    variants,
)

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        frequency.FREQUENCY_OF_MOVES,
        frequency.ELBO_CURVES,
        removed.REMOVED,
        merging.GLOBAL,
        merging.UNEVEN_SIZES,
        merging.HETEROGENEOUS,
        sizes.SIZES,
        sizes.STATED_SIZES,
        variants.P,
        variants.SEPARABLE,
        selection.SELECTION,
        variants.NUMBER_OF_BATCHES,
        criteria.CRITERIA,
        variants.CATEGORICAL_MERGE,
        mnist.DIGITS,
        comparisons.FEDERATED_COMPARISON,
        comparisons.CENTRAL_COMPARISON,
    )
}
