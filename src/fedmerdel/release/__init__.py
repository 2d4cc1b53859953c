"""What leaves a site: sums under disclosure control, in files that a person can read."""

from __future__ import annotations

from fedmerdel.release.cells import HardCounts, OutcomeCounts
from fedmerdel.release.disclosure import Protected, protect, too_small
from fedmerdel.release.report import Changes, DisclosureReport
from fedmerdel.release.summary import SiteSummary

__all__ = [
    "Changes",
    "DisclosureReport",
    "HardCounts",
    "OutcomeCounts",
    "Protected",
    "SiteSummary",
    "protect",
    "too_small",
]
