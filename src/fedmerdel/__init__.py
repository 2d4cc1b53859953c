"""Bayesian clustering of binary and categorical tables, on one machine and across sites.

`MerDel` clusters one table and finds the number of clusters by itself.
"""

from __future__ import annotations

from fedmerdel.errors import (
    ConstantColumnWarning,
    DataError,
    FedMerDelError,
    FedMerDelWarning,
    FileError,
    OptionError,
)
from fedmerdel.estimators import MerDel
from fedmerdel.mixture.history import Move
from fedmerdel.records.simulate import SimulatedTable, bayes_labels, simulate
from fedmerdel.study.codebook import Codebook, Variable

__version__ = "0.1.0"

__all__ = [
    "Codebook",
    "ConstantColumnWarning",
    "DataError",
    "FedMerDelError",
    "FedMerDelWarning",
    "FileError",
    "MerDel",
    "Move",
    "OptionError",
    "SimulatedTable",
    "Variable",
    "bayes_labels",
    "simulate",
]
