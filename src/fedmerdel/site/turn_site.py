"""A site's work in rounds of sums: it answers what follows from the totals, and writes it down."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.fitting.passes import Workers
from fedmerdel.masking.work import History, Integers
from fedmerdel.records.collapse import collapse
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.site.ledger import Entry, Ledger, check_release, table_digest
from fedmerdel.site.outcome_rows import site_outcomes
from fedmerdel.site.site_file import SiteFile
from fedmerdel.site.site_table import check_one_row_each, open_site_table, study_rows
from fedmerdel.site.tally_site import tally_rows
from fedmerdel.summing.noise import discrete_noise
from fedmerdel.summing.question import Question
from fedmerdel.summing.tally import STEPS
from fedmerdel.summing.work import SumsWork
from fedmerdel.sums.arrays import FloatArray

MOST_OF_ALL = 0.5
"""Share of all rows that one site may have: of more, a total is nearly that site's own."""


class SiteSums(SumsWork):
    """What a site does when it is asked; its rows and its ledger are its own.

    Parameters
    ----------
    agreed : SiteFile
        The site's own file: what leaves is written down in the ledger beside it.
    threads : int
        Threads; the result does not depend on it.
    """

    def __init__(self, agreed: SiteFile, threads: int = 1) -> None:
        super().__init__(agreed.approved_study())
        self.agreed, self.threads = agreed, threads
        self.limits = self.study.rounds, agreed.most_rounds
        self.ledger = Ledger(agreed.home)
        self.digest = table_digest(agreed.table)
        opened = open_site_table(agreed.table)
        check_one_row_each(self.study, opened)
        self.rows = study_rows(self.study, opened)
        self.outcomes = site_outcomes(self.study, opened)

    def answer(self, question: bytes, history: History, sites: int) -> Integers:
        """Count the site's rows, and add its share of the noise: the operating system's."""
        asked = Question.from_bytes(question)
        # Before the work, and once more when it is written down.
        check_release(self.ledger.entries(), self._entry(asked.number, ""), *self.limits)
        rows, outcomes = _joined(self.rows, self.outcomes, asked)
        seed = [self.study.seed, asked.number, *self.agreed.name.encode("utf-8")]
        with Workers(self.threads) as workers:
            tally = tally_rows(asked, self.scheme.prior, rows, outcomes, seed, workers)
        vector = tally.to_vector()
        scale = self.scheme.noise * STEPS / np.sqrt(sites)
        return np.asarray(vector + discrete_noise(scale, len(vector)), dtype=np.int64)

    def check_totals(self, history: History) -> None:
        """Refuse totals that can't be, or that are for the most part this site's own rows."""
        super().check_totals(history)
        total = self.total_rows(history)
        if self.rows.n_rows > MOST_OF_ALL * total:
            raise DataError(
                f"this site has more than half of the {total:,.0f} rows of all sites together: "
                "totals would tell of its own; nothing more is answered"
            )

    def charge(self, ctx: bytes, opening: int) -> None:
        """Write down that numbers of a question are told; a second time for the same is nothing."""
        if table_digest(self.agreed.table) != self.digest:
            raise DataError(
                f"table {self.agreed.table.name!r} changed meanwhile: nothing leaves; the run "
                "can't go on with other rows"
            )
        self.ledger.add(self._entry(opening, ctx.hex()), *self.limits)

    def _entry(self, opening: int, ctx: str) -> Entry:
        return Entry(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            # The first numbers about a table, as a summary is; then one in each round.
            what="reply" if opening else "summary",
            study=self.study.name,
            study_hash=self.study.hash,
            round=opening,
            broadcast=ctx,
            policy=self.study.policy.name,
            table=self.agreed.table.name,
            table_digest=self.digest,
            rows=self.rows.n_rows,
            release=hashlib.sha256(bytes.fromhex(ctx)).hexdigest() if ctx else "",
        )


def _joined(
    rows: PackedRows, outcomes: Mapping[str, FloatArray], asked: Question
) -> tuple[PackedRows, dict[str, FloatArray]]:
    """Join identical rows where no outcomes are asked for, which go row by row."""
    if asked.is_last and outcomes:
        return rows, dict(outcomes)
    return repack(collapse(rows)[0]), {}
