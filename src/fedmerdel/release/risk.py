"""How well a person's membership of a release can be guessed from it, cluster by cluster.

The attacker knows the population and the entries of a person, and compares the released counts
with those that the population lets expect, with and without this person: a test by likelihood
ratio. What it can tell follows from the released counts alone; no row is needed. See "How well
membership can be guessed" in the documentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.release.cells import with_missing
from fedmerdel.release.mechanism import Mechanism
from fedmerdel.release.note import count_text
from fedmerdel.release.summary import SiteSummary
from fedmerdel.sums.arrays import FloatArray

MUCH = 0.7
"""Risk above which `review` warns: 7 of 10 pairs told apart, where guessing gives 5."""

N_ANGLES = 24
"""Angles at which the integral of Craig's formula is taken."""


TINY = 1e-300
"""So that no logarithm is of 0."""


class Rare(NamedTuple):
    """One of the smallest counts of a cluster: the level, and its rows."""

    variable: str
    level: str
    rows: float


class Risk(NamedTuple):
    """How well an attacker tells who is counted in a cluster.

    Attributes
    ----------
    cluster : int
        Its number.
    rows : float
        Its rows, as released.
    risk : float
        Of pairs of people of whom one is counted in the cluster and the other only might be, the
        share that the attacker tells apart (the AUC): 0.5 is chance, 1 is certainty.
    rare : tuple of Rare
        Its smallest counts that are told.
    """

    cluster: int
    rows: float
    risk: float
    rare: tuple[Rare, ...]

    @property
    def rarest(self) -> str:
        """Its smallest counts as people read them."""
        return ", ".join(f"{e.variable}={e.level} {count_text(e.rows)}" for e in self.rare)


def release_risks(summary: SiteSummary, n_rare: int = 3) -> tuple[Risk, ...]:
    """Return the risk of each cluster that a summary or reply tells of, the greatest first."""
    T, S, offsets = summary.sums.T, summary.sums.S, summary.codebook.level_offsets
    names = [(each.name, (*each.levels, "(missing)")) for each in summary.codebook.variables]
    tables = [with_missing(T, S[:, start:end]) for start, end in pairwise(offsets)]
    for name, cells in summary.sums.outcomes.items():
        names.append((name, (*summary.tables[name], "(missing)")))
        tables.append(with_missing(T, cells))
    risks = membership_risk(T, tables, summary.mechanism, summary.rest)
    found = []
    for k in np.flatnonzero(T > 0):
        told = (
            Rare(name, level, float(rows))
            for (name, levels), cells in zip(names, tables, strict=True)
            for level, rows in zip(levels, cells[k], strict=True)
            if 0 < rows < T[k]
        )
        rare = tuple(sorted(told, key=lambda each: each.rows)[:n_rare])
        found.append(Risk(int(k), float(T[k]), float(risks[k]), rare))
    return tuple(sorted(found, key=lambda each: -each.risk))


def in_words(risks: Sequence[Risk], most: float = MUCH) -> tuple[str, ...]:
    """Return in sentences what the greatest risk is, and whether it is above a limit.

    Parameters
    ----------
    risks : sequence of Risk
        The greatest first.
    most : float
        The limit.
    """
    worst = risks[0]
    told = (
        f"Of 100 pairs of patients, one counted in cluster {worst.cluster} and one who only might "
        f"be, someone who knows all their entries and the population tells which is which in "
        f"about {100 * worst.risk:.0f}; by chance it would be 50. In no other cluster is it more. "
        "This is of this release alone, as predicted from its counts."
    )
    above = sum(each.risk > most for each in risks)
    if not above:
        return (told,)
    return told, (
        f"Warning: above {100 * most:.0f} of 100 in {above} of {len(risks)} clusters. Fewer "
        "variables, fewer clusters or a stricter policy lower it."
    )


def check_risk(summary: SiteSummary, most: float) -> None:
    """Refuse a release of a greater risk than a site agrees to.

    Raises
    ------
    DataError
        If membership of one of its clusters can be guessed better.
    """
    worst = release_risks(summary)[0]
    if worst.risk > most:
        raise DataError(
            f"membership of cluster {worst.cluster} can be guessed: about {worst.risk:.2f} of "
            f"pairs are told apart, and this site agrees to {most:g} at most (most_risk): nothing "
            "leaves; a stricter policy, fewer clusters or fewer variables in the study lower it"
        )


def membership_risk(
    T: FloatArray, tables: Sequence[FloatArray], mechanism: Mechanism, rest: int | None
) -> FloatArray:
    """Return the AUC of the attack by likelihood ratio on each cluster, from released counts.

    Parameters
    ----------
    T : float64 array (K,)
        Rows of each cluster.
    tables : sequence of float64 arrays (K, C)
        The cells of each variable, with the missing one; they sum to T.
    mechanism : Mechanism
        Says how far counts may be from those of the rows.
    rest : int or None
        The cluster that is what the others leave.

    Notes
    -----
    A row of a cluster moves its counts by ``d^2 = (x - p)' (n Sigma + V)^-1 (x - p)`` squared
    standard deviations, where V is what protection adds; over rows, d^2 is a sum of one draw for
    each variable. The log likelihood ratio is normal with variance d^2 and mean d^2/2 of a row
    that is counted, -d^2/2 of one that is not, so the attacker tells two apart with probability
    ``E Phi(sqrt(d_1^2 + d_2^2) / 2)``. By Craig's formula this is ``1 - 1/pi int_0^{pi/2}
    M(1 / (8 sin^2 t))^2 dt`` with ``M(s) = E exp(-s d^2)``, a product over variables.
    """
    nodes, weights = np.polynomial.legendre.leggauss(N_ANGLES)
    s = 1.0 / (8.0 * np.sin((nodes + 1.0) * np.pi / 4.0) ** 2)
    log_moment = np.zeros((len(T), N_ANGLES))
    for cells in tables:
        variance, expected = mechanism.variance(cells, rest), cells.copy()
        if rest is not None:
            # What others hide is in it too: as often, say, in their rows as in its own.
            hiding = T @ (cells == 0)
            expected[rest] *= T[rest] / (T[rest] + hiding)
        for k in np.flatnonzero(T > 0):
            told = np.flatnonzero(cells[k] > 0)
            # The largest is what the others leave, and adds nothing to them.
            told = told[told != cells[k].argmax()]
            share, d2 = _distances(float(T[k]), expected[k, told], variance[k, told])
            log_moment[k] += np.log(share @ np.exp(-np.outer(d2, s)) + TINY)
    return np.asarray(1.0 - (weights / 4.0 * np.exp(2.0 * log_moment)).sum(axis=1))


def _distances(n: float, counts: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the shares of rows in some cells, and last in none of them, and the d^2 of each."""
    p = counts / n
    precise = 1.0 / (counts + variance)
    # Sigma is diag(p) - p p', so the inverse is that of a diagonal and of rank one (Woodbury).
    more = n / (1.0 - n * (p * p * precise).sum())
    apart = np.vstack([np.eye(len(p)), np.zeros(len(p))]) - p
    d2 = (apart**2 * precise).sum(axis=1) + more * ((apart * p * precise).sum(axis=1)) ** 2
    return np.append(p, 1.0 - p.sum()), d2
