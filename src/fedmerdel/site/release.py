"""What a site's work gives: a summary or reply that may leave, and an account that stays."""

from __future__ import annotations

from typing import Any, NamedTuple

from fedmerdel.keys import SigningKey
from fedmerdel.release.account import Changes
from fedmerdel.release.protection import Protected
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.study import Study


class Release(NamedTuple):
    """What a site's work gives: a summary that may leave, and an account that stays.

    Attributes
    ----------
    summary : SiteSummary
        What leaves: a summary, or a reply.
    changes : Changes
        What disclosure control did, exactly: for the site's own eyes.
    """

    summary: SiteSummary
    changes: Changes

    def signed(self, key: SigningKey) -> Release:
        """Return it with what leaves signed."""
        return self._replace(summary=self.summary.signed(key))

    def to_bytes(self) -> bytes:
        """Return the bytes of what leaves."""
        return self.summary.to_bytes()


def summary_fields(
    study: Study, site: str, protected: Protected, selected: tuple[str, ...] | None
) -> dict[str, Any]:
    """Return the fields that a summary and a reply have.

    Parameters
    ----------
    study : Study
        What the sites agreed on.
    site : str
        The site's name.
    protected : Protected
        What `protect` made of the site's clusters; its `changes` stay behind.
    selected : tuple of str or None
        Variables that the site selected, where the study selects any.
    """
    return {
        "study_hash": study.hash,
        "site": site,
        "n_components": study.n_components,
        "sums": protected.released.sums,
        "rest": protected.released.rest,
        "selected": selected,
        "account": protected.account,
        "codebook": study.codebook,
        "tables": study.tables,
        "checks": protected.checks,
    }
