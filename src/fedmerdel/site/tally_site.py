"""One site's part in a round of sums over sites: count its rows. Nothing is protected yet."""

from __future__ import annotations

import numpy as np

from fedmerdel.fitting.halving import count_halves, propose_halves
from fedmerdel.fitting.passes import Workers
from fedmerdel.records.packing import PackedRows
from fedmerdel.site.local_fit import count_clusters
from fedmerdel.site.people import count_outcomes
from fedmerdel.summing.question import Question
from fedmerdel.summing.tally import Tally
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.halves import FirstHalves, second_halves
from fedmerdel.sums.levels import level_positions
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


def tally_rows(
    question: Question,
    prior: Prior,
    rows: PackedRows,
    outcomes: dict[str, FloatArray],
    seed: list[int],
    workers: Workers,
) -> Tally:
    """Count rows in the clusters that are asked for.

    Parameters
    ----------
    question : Question
        The clusters, and what is told of each.
    prior : Prior
        The study's; the question has what is learned of its levels.
    rows : PackedRows
        The site's rows.
    outcomes : dict of str to float64 arrays (N, C)
        The cells that each row is in; they are counted where the question asks for them.
    seed : list of int
        Where the search for halves starts.
    workers : Workers
        The threads to work with.
    """
    theta = question.clusters
    sums = count_clusters(rows, theta, workers)
    if question.is_last:
        named = count_outcomes(rows, theta, outcomes, workers)
        cells = np.column_stack([sums.S, *named.values()])
        nothing = np.zeros(0)
        told = question.cells.numbers(sums.T, cells)
        return Tally(told, np.zeros((0, 0)), sums.h, nothing, sums.Q)
    halves, uncut = count_halves(rows, theta, question.cuts, workers), question.uncut
    if uncut.any():
        rng = np.random.default_rng(seed)
        prior = prior._replace(eps=question.eps)
        proposed = propose_halves(rows, theta, sums, prior, workers, rng)
        halves = turned(proposed, sums, prior.offsets).where(uncut, halves)
    first = question.cells.numbers(halves.T, halves.S)
    return Tally(question.cells.numbers(sums.T, sums.S), first, sums.h, halves.blur, sums.Q)


def turned(halves: FirstHalves, whole: Sums, offsets: IntArray) -> FirstHalves:
    """Return halves of which the first has more of the higher levels.

    So sites that know nothing of each other propose halves that can be added up.
    """
    second = FirstHalves(*second_halves(whole, halves), halves.blur)
    height = level_positions(offsets)
    one, other = ((each.S @ height) / np.maximum(each.T, 1.0) for each in (halves, second))
    return halves.where(one >= other, second)
