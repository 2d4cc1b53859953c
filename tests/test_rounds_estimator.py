"""Rounds against pooled rows, and `FedMerDel(rounds=...)`, which plays them in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from fedmerdel import (
    Federation,
    FedMerDel,
    MerDel,
    OptionError,
    Round,
    assign,
    bayes_labels,
    reply_site,
    simulate,
)
from fedmerdel.centre.run import QUIET, QUIET_ROUNDS, has_settled
from fedmerdel.estimators import federated
from fedmerdel.fitting.passes import Workers
from fedmerdel.fitting.solution import em_step, make_problem
from fedmerdel.site.site_table import study_rows
from fedmerdel.study.priors import study_prior
from tests.round_trips import Made, made, noisy, play

TABLE = simulate(900, 20, 3, beta=(0.5, 1.0), random_state=3)
HOSPITALS = np.array(["york", "hull", "leeds"])[np.arange(900) % 3]


def pooled_passes(sites: Made, begun: Federation) -> float:
    """The ELBO that plain passes over all rows reach from a federation's sums."""
    study, stats, prior, last = sites.study, begun.sums, begun.prior, -np.inf
    base = study_prior(study, begun.prior.n_components)
    learned = "strengths" if study.prior == "learned" else None
    with Workers() as workers:
        problem = make_problem(study_rows(study, sites.X), base, workers, learned)  # type: ignore[arg-type]
        for _ in range(4000):
            _, stats, reached, prior = em_step(problem, stats, prior)
            if reached - last < 1e-8:
                return reached
            last = reached
    raise AssertionError("passes don't end")


@pytest.mark.parametrize("prior", ["fixed", "learned"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rounds_end_where_passes_over_pooled_rows_end(prior: str, seed: int) -> None:
    """The relative 1e-6 is 0.01 nats here; a single move would be worth more."""
    sites = made(seed, prior=prior)
    begun = sites.begun(noisy(sites.labels, 0.3, seed))
    found = play(begun, sites.tables, 25)
    assert not any(each.move in ("split", "merge", "delete") for each in found.record)
    assert found.lower_bound == pytest.approx(pooled_passes(sites, begun), rel=1e-6)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_rounds_reach_a_whole_fit_from_the_same_labels(seed: int) -> None:
    """`MerDel` with as many components as all sites together has the centre's prior."""
    sites = made(seed, prior="learned")
    labels = noisy(sites.labels, 0.2, seed)
    found = play(sites.begun(labels), sites.tables, 20)
    whole = MerDel(found.prior.n_components, init=labels, prior="learned", absolute_tol=1e-6)
    whole.fit(sites.X)
    assert found.n_clusters == whole.n_clusters_
    assert found.lower_bound >= whole.lower_bound_ - 1e-6 * abs(whole.lower_bound_)


def fitted(rounds: Any, X: Any = TABLE.X, **options: Any) -> FedMerDel:
    weights = options.pop("sample_weight", None)
    model = FedMerDel(6, **{"rounds": rounds, "random_state": 1, **options})
    return model.fit(X, groups=HOSPITALS, sample_weight=weights)


def test_without_rounds_all_is_as_it_was() -> None:
    plain = FedMerDel(6, random_state=1).fit(TABLE.X, groups=HOSPITALS)
    none = fitted(0)
    assert FedMerDel().rounds == 0
    assert plain.record_ == none.record_ == ()
    assert plain.lower_bound_ == none.lower_bound_
    np.testing.assert_array_equal(plain.labels_, none.labels_)
    assert none.federation_.asked is None
    assert none.model_.n_rounds == 0


def test_each_round_is_recorded_and_raises_the_elbo() -> None:
    none, three = fitted(0), fitted(3)
    assert [each.number for each in three.record_] == [1, 2, 3]
    assert three.record_ == three.federation_.record
    assert three.model_.n_rounds == 3
    assert three.lower_bound_ == three.federation_.lower_bound > none.lower_bound_
    np.testing.assert_array_equal(three.frozen_labels_, none.frozen_labels_)
    assert three.lineage_ == three.federation_.lineage
    for site in three.federation_.sites:
        at = site == HOSPITALS
        labels = assign(three.model_, TABLE.X[at]).labels
        np.testing.assert_array_equal(three.labels_[at], labels)
    np.testing.assert_array_equal(fitted(np.int64(3)).labels_, three.labels_)


def test_rounds_are_those_of_real_sites_but_for_the_order_of_sums() -> None:
    """The estimator joins identical rows first, so sums differ in their last digits."""
    federation = fitted(0).federation_
    tables = {site: TABLE.X[site == HOSPITALS] for site in federation.sites}
    federation = play(federation, tables, 3)
    found = fitted(3).federation_
    assert found.lower_bound == pytest.approx(federation.lower_bound, rel=1e-10)
    np.testing.assert_allclose(found.sums.S, federation.sums.S, atol=1e-4)


def test_the_number_of_threads_changes_no_bit() -> None:
    one, three = fitted(4), fitted(4, n_jobs=3)
    assert one.record_ == three.record_
    assert one.federation_.broadcast.hash == three.federation_.broadcast.hash
    for a, b in zip(one.model_.sums[:3], three.model_.sums[:3], strict=True):
        assert a.tobytes() == b.tobytes()


def test_the_order_of_sites_changes_no_bit() -> None:
    """Sites by name: rows of one after the other, or mixed, are the same tables."""
    order = np.argsort(HOSPITALS, kind="stable")
    mixed = fitted(3)
    sorted_ = FedMerDel(6, rounds=3, random_state=1).fit(TABLE.X[order], groups=HOSPITALS[order])
    assert mixed.record_ == sorted_.record_
    np.testing.assert_array_equal(mixed.labels_[order], sorted_.labels_)


def test_many_small_sites_come_near_the_best_possible() -> None:
    """Fifteen sites of 100 rows, twelve seeds: 0.89 on average by one shot, 0.96 by rounds."""
    near = np.empty((4, 2))
    for at, seed in enumerate((0, 1, 3, 4)):
        table = simulate(1500, 30, 5, beta=(0.6, 2.0), random_state=seed)
        best, sites = bayes_labels(table), np.arange(1500) % 15
        for rounds in (0, 8):
            found = FedMerDel(8, rounds=rounds, n_init=1, random_state=1).fit(table.X, groups=sites)
            near[at, rounds // 8] = adjusted_rand_score(best, found.labels_)
        assert found.n_clusters_ == 5
    assert near[:, 1].mean() > 0.935  # measured: 0.946
    assert np.all(near[:, 1] > near[:, 0] + 0.01)


def test_auto_ends_when_nothing_more_is_to_be_gained() -> None:
    auto = fitted("auto")
    assert QUIET_ROUNDS < len(auto.record_) < 60
    more = fitted(len(auto.record_) + 6)
    assert more.lower_bound_ - auto.lower_bound_ < 6 * QUIET * 900
    assert more.n_clusters_ == auto.n_clusters_


def past(number: int, gain: float | None, move: str = "") -> Round:
    return Round(number, -1000.0, gain, 3, 0.0, (), move)


def test_quiet_is_no_move_and_no_gain_for_a_while() -> None:
    still = tuple(past(n, 0.0) for n in range(QUIET_ROUNDS))
    assert has_settled(still, 100.0)
    assert not has_settled(still[1:], 100.0)
    assert not has_settled((*still[:-1], past(9, 1.0)), 100.0)
    assert not has_settled((*still[:-1], past(9, 0.0, "split")), 100.0)
    assert has_settled((*still[:-1], past(9, None, "taken back")), 100.0)
    assert not has_settled((*still[:-1], past(9, None)), 100.0)


def test_auto_gives_up_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federated, "MOST_ROUNDS", 4)
    assert len(fitted("auto").record_) == 4


@pytest.mark.parametrize("rounds", [-1, 1.5, "x", True, None, [3], "3"])
def test_a_number_that_is_none_is_refused_in_one_line(rounds: Any) -> None:
    with pytest.raises(OptionError, match=r"^rounds: give a whole number from 0 to") as caught:
        fitted(rounds)
    assert "\n" not in str(caught.value)


def test_it_shows_what_it_does_only_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    fitted(2)
    assert capsys.readouterr().out == ""
    fitted(2, verbose=1)
    assert "round 2: 3 clusters, ELBO -" in capsys.readouterr().out


def test_weights_count_as_rows() -> None:
    """A row of weight 2 is the same row twice, and one of weight 0 has no say."""
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 3, 900).astype(float)
    weighted = fitted(3, sample_weight=weights)
    assert weighted.model_.sums.T.sum() == pytest.approx(weights.sum())
    twice = np.repeat(np.arange(900), weights.astype(int))
    again = FedMerDel(6, rounds=3, random_state=1).fit(TABLE.X[twice], groups=HOSPITALS[twice])
    assert weighted.n_clusters_ == again.n_clusters_ == 3
    assert adjusted_rand_score(weighted.labels_[twice], again.labels_) > 0.97
    # From the same clusters, the two tables give the same replies.
    study, broadcast = weighted.federation_.study, weighted.federation_.broadcast
    reply = reply_site(study, broadcast, TABLE.X, "x", sample_weight=weights)
    other = reply_site(study, broadcast, TABLE.X[twice], "x")
    for a, b in zip(reply.sums[:4], other.sums[:4], strict=True):  # T, S, h and Q
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"variable_selection": True},
        {"recipe": "paper", "absolute_tol": 1e-2, "search": "greedy"},
        {"recipe": "paper", "variable_selection": True, "absolute_tol": 1e-2},
        {"prior": "fixed", "search": "tree"},
        {"missing": "level"},
        {"missing": "ignore"},
    ],
    ids=str,
)
def test_every_way_of_fitting_goes_on_with_rounds(options: dict[str, Any]) -> None:
    """With missing entries throughout; the record's ELBO is that of the rows, and never falls."""
    X = TABLE.X.astype(float)
    X[np.random.default_rng(4).random(X.shape) < 0.1] = np.nan
    found = fitted(5, X, **options)
    known = [s.elbo for s in found.record_ if s.elbo is not None and s.move != "taken back"]
    assert len(found.record_) == 5
    assert np.diff(known).min() >= -1e-10 * abs(known[0])
    assert (
        adjusted_rand_score(TABLE.labels, found.labels_) > 0.75
    )  # 0.87 is the best with no entry missing
    assert found.model_.sums.T.sum() == pytest.approx(900)


def test_scikit_learn_knows_the_parameter() -> None:
    model = FedMerDel(6, rounds="auto", random_state=2)
    assert model.get_params()["rounds"] == "auto"
    copy = clone(model).set_params(rounds=2)
    assert copy.rounds == 2
    assert len(copy.fit(TABLE.X, groups=HOSPITALS).record_) == 2
    assert model.rounds == "auto"
