"""The scikit-learn face: one table, or the rows of many sites in one process."""

from __future__ import annotations

from fedmerdel.estimators.federated import FedMerDel
from fedmerdel.estimators.merdel import MerDel

__all__ = ["FedMerDel", "MerDel"]
