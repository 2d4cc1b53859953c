"""A whole fit: several starts, the best kept, its clusters put in order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.fitting.adaptive import Limits, fit_adaptive
from fedmerdel.fitting.ascent import most_passes
from fedmerdel.fitting.history import History, InTurn, Watch
from fedmerdel.fitting.initialise import start_labels
from fedmerdel.fitting.options import Options
from fedmerdel.fitting.paper import Schedule, fit_paper
from fedmerdel.fitting.passes import Workers, count_labels, label_rows
from fedmerdel.fitting.solution import Problem, Solution, em_step
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.components import FIRST_ROOM
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.learning import start_prior
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

START_WORK = 2.5e7
"""Small tables are fitted from several starts: rows times variables times passes of all, ..."""

FEW_PASSES = 20
"""... where a start counts for no fewer passes, since its search on samples costs as much, ..."""

MOST_STARTS = 4
"""... and this many at most."""

ROUNDING = 1e-10
"""Share of the ELBO by which it may differ where nothing has changed but the order of sums."""


class Fit(NamedTuple):
    """The best of all starts.

    Attributes
    ----------
    stats : Sums
        Its clusters, the largest first.
    prior : Prior
        The problem's prior, or what was learned of it.
    elbo : float
        Its ELBO in nats.
    history : History
        Its record.
    converged : bool
        Whether it converged within the passes allowed.
    """

    stats: Sums
    prior: Prior
    elbo: float
    history: History
    converged: bool

    def with_components(self, n_components: int) -> Fit:
        """Return the fit under a prior of so many components, all else as it is.

        That is one number for every clustering of the rows: it steers no search.
        """
        prior = self.prior._replace(n_components=n_components)
        more = elbo(self.stats, prior) - elbo(self.stats, self.prior)
        self.history.elbos[:] = [each + more for each in self.history.elbos]
        return self._replace(prior=prior, elbo=self.elbo + more)


def fit_mixture(
    problem: Problem,
    options: Options,
    seed: np.random.SeedSequence,
    watch: Watch | None = None,
) -> Fit:
    """Fit from each start and return the one with the highest ELBO, the first of equals.

    Starts run side by side where there are threads for it; the result is the same. ``watch``
    is then called from several threads, one at a time.
    """
    watched = InTurn(watch)

    def fit_from(start: int, workers: Workers) -> Fit:
        prior = start_prior(problem.learning, problem.prior, start)
        from_here = problem._replace(prior=prior, workers=workers)
        with watched.part(start) as part:
            return _fit_once(from_here, options, seeds[start], part)

    n_init = 1 if options.recipe == "paper" and options.n_init is None else options.n_init
    seeds = seed.spawn(MOST_STARTS if n_init is None else n_init)
    fits: list[Fit] = []
    if n_init is None:
        fits.append(fit_from(0, problem.workers))
        n_init = starts_that_pay(problem.rows, fits[0].history.n_iter)
    done = len(fits)
    if n_init > done:
        fits += problem.workers.side_by_side(
            n_init - done, lambda at, own: fit_from(done + at, own)
        )
    return max(fits, key=lambda fit: fit.elbo)


def starts_that_pay(rows: PackedRows, n_iter: int) -> int:
    """Return from how many starts to fit rows of which one start took so many passes."""
    work = rows.n_rows * len(rows.packing.n_levels) * max(n_iter, FEW_PASSES)
    return int(min(max(START_WORK / work, 1), MOST_STARTS))


def _fit_once(
    problem: Problem,
    options: Options,
    seed: np.random.SeedSequence,
    watch: Watch | None,
) -> Fit:
    history = History(problem.rows.n_rows, watch)
    solution, converged = _search(problem, options, np.random.default_rng(seed), history)
    solution = drop_empty(problem, solution, history)
    by_size = np.argsort(-solution.stats.T, kind="stable")
    return Fit(solution.stats.take(by_size), solution.prior, solution.elbo, history, converged)


def _search(
    problem: Problem, options: Options, rng: np.random.Generator, history: History
) -> tuple[Solution, bool]:
    max_iter = most_passes(problem.rows) if options.max_iter is None else options.max_iter
    # More clusters than rows would cost time and memory, and hold nothing.
    most = min(problem.prior.n_components, problem.rows.n_rows)
    adaptive = options.recipe == "default"
    room, start = min(FIRST_ROOM, most) if options.grows else most, None
    if isinstance(options.init, np.ndarray) or options.init != "divide":
        labels = start_labels(options.init, problem, room, rng)
        room = max(room, int(labels.max()) + 1)
        start = count_labels(problem.rows, labels, room, problem.workers)
    if adaptive:
        limits = Limits(room, most, max_iter, options.tol, options.thorough)
        return fit_adaptive(problem, start, limits, rng, history)
    assert start is not None
    schedule = Schedule(options.laps, options.merge_criterion, options.tol, max_iter)
    return fit_paper(problem, start, schedule, rng, history)


def drop_empty(problem: Problem, solution: Solution, history: History) -> Solution:
    """Take out clusters that no row is given to, all or one by one, if the ELBO stays.

    A search leaves components behind that hold next to nothing: no clusters to anyone
    who looks at the labels.
    """
    theta = expectations(solution.stats, solution.prior)
    labels = label_rows(problem.rows, theta, problem.workers)
    given = np.bincount(labels, problem.rows.weights, minlength=solution.n_clusters) > 0
    if given.all():
        return solution
    attempts = [given]
    for k in np.flatnonzero(~given):
        attempts.append(np.arange(solution.n_clusters) != k)
    kept = np.ones(solution.n_clusters, dtype=bool)
    for stay in attempts:
        if np.array_equal(kept & stay, kept):
            continue
        clusters = np.flatnonzero((kept & stay)[kept])
        tried = em_step(problem, solution.stats.take(clusters), solution.prior)
        if tried.elbo >= solution.elbo - ROUNDING * abs(solution.elbo):
            solution, kept = tried, kept & stay
            history.add_pass(solution.elbo, solution.n_clusters)
    return solution
