"""One of each thing that travels between a site and the centre, for the tests."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from fedmerdel import (
    Broadcast,
    Federation,
    GlobalModel,
    Reply,
    SiteSummary,
    Validation,
    fit_site,
    merge_sites,
    reply_site,
    validate_site,
)
from fedmerdel.parcels import Parcel
from fedmerdel.release.mechanism import MoveSums
from fedmerdel.sums.cuts import FirstHalves
from tests.site_tables import frame_of, level_numbers, study

TABLES: dict[str, Any] = {
    site: frame_of(level_numbers(250, seed), seed) for seed, site in enumerate(("hull", "leeds"))
}
KINDS: tuple[type[Parcel], ...] = (SiteSummary, Reply, Broadcast, GlobalModel, Validation)


class Sent(NamedTuple):
    """A federation of two sites, and what has travelled for it."""

    federation: Federation
    summary: SiteSummary
    reply: Reply

    def parcel(self, kind: type[Parcel]) -> Any:
        if kind is Validation:
            return validate_site(self.federation.model, TABLES["hull"].head(120), "york")
        parts = (self.summary, self.reply, self.federation.broadcast, self.federation.model)
        return dict(zip(KINDS[:-1], parts, strict=True))[kind]


def sent(**options: Any) -> Sent:
    agreed = study(outcomes=("died",), **options)
    federation = merge_sites(agreed, [fit_site(agreed, t, site) for site, t in TABLES.items()])
    reply = reply_site(agreed, federation.broadcast, TABLES["hull"], "hull")
    return Sent(federation, federation.summaries[0], reply)


def as_reply(summary: SiteSummary, seed: int, **changed: Any) -> Reply:
    """A reply with a summary's sums, and drawn numbers of what else it tells."""
    rng, (T, S) = np.random.default_rng(seed), summary.sums[:2]
    share = rng.random(len(T))
    blur = rng.random(len(T)) * T * np.minimum(share, 1 - share)
    halves = FirstHalves(T * share, S * share[:, None], blur)
    fields = {field.name: getattr(summary, field.name) for field in dataclasses.fields(summary)}
    more = {
        "broadcast": f"{seed:x}",
        "moves": MoveSums(halves, -700.0 * T),  # of rows that are wholly in their clusters
    }
    return Reply(**fields, **{**more, **changed})
