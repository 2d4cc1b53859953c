"""Keys for the tests, the same each time, and a federation whose parcels are signed with them."""

from __future__ import annotations

from typing import Any, NamedTuple

from fedmerdel import (
    Broadcast,
    Federation,
    GlobalModel,
    Reply,
    SiteSummary,
    Study,
    Validation,
    fit_site,
    merge_sites,
    reply_site,
    validate_site,
)
from fedmerdel.parcels import Parcel
from tests.parcels import TABLES
from tests.site_tables import study
from tests.toy_keys import key

CENTRE, STRANGER = key(100), key(200)
SITES = {site: key(number) for number, site in enumerate(TABLES)}
LISTED: dict[str, Any] = {
    "centre_key": CENTRE.public,
    "site_keys": {site: each.public for site, each in SITES.items()},
}


class SignedSent(NamedTuple):
    """A federation of two sites whose study lists keys, and all that has travelled for it."""

    study: Study
    summaries: dict[str, SiteSummary]
    federation: Federation
    broadcast: Broadcast
    model: GlobalModel
    replies: dict[str, Reply]

    def parcel(self, kind: type[Parcel]) -> Any:
        if kind is Validation:
            return validate_site(self.model, TABLES["hull"].head(120), "hull").signed(SITES["hull"])
        known = (self.summaries["hull"], self.replies["hull"], self.broadcast, self.model)
        return next(each for each in known if type(each) is kind)


def signed_sent(**options: Any) -> SignedSent:
    agreed = study(outcomes=("died",), **LISTED, **options)
    summaries = {s: fit_site(agreed, t, s).signed(SITES[s]) for s, t in TABLES.items()}
    federation = merge_sites(agreed, summaries.values())
    broadcast = federation.broadcast.signed(CENTRE)
    replies = {s: reply_site(agreed, broadcast, t, s).signed(SITES[s]) for s, t in TABLES.items()}
    model = federation.model.signed(CENTRE)
    return SignedSent(agreed, summaries, federation, broadcast, model, replies)
