"""Sums over sites of which the centre learns nothing but the total: masks, and who may open them.

A site hides a vector of whole numbers under masks that cancel in the sum over a roster of sites.
What the numbers are, and what is asked, is known to a `SiteWork` alone.
"""

from __future__ import annotations

from fedmerdel.masking.centre_part import CentreState, begin_run, centre_turn, ended, without
from fedmerdel.masking.folders import take_centre_turn, take_site_turn
from fedmerdel.masking.site_part import join_run, site_turn
from fedmerdel.masking.site_state import SiteState
from fedmerdel.masking.work import Agreement, History, Member, Opened, SiteWork, Turn, Work

__all__ = [
    "Agreement",
    "CentreState",
    "History",
    "Member",
    "Opened",
    "SiteState",
    "SiteWork",
    "Turn",
    "Work",
    "begin_run",
    "centre_turn",
    "ended",
    "join_run",
    "site_turn",
    "take_centre_turn",
    "take_site_turn",
    "without",
]
