"""Room for clusters that grows as it is used up, a ceiling that is told, and several starts."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from fedmerdel import (
    CeilingWarning,
    FedMerDel,
    MerDel,
    OptionError,
    draft_study,
    fit_site,
    merge_sites,
    simulate,
)
from fedmerdel.fitting import fit as fitting
from fedmerdel.fitting.fit import starts_that_pay
from fedmerdel.options import site_starts
from fedmerdel.sums.components import (
    AUTO_COMPONENTS,
    FIRST_ROOM,
    component_count,
    room_for,
    used_up,
)
from tests.reference import Dense, packed


def many_groups(n_groups: int, n_rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    modes = rng.integers(0, 2, (n_groups, 40))
    return modes[np.arange(n_rows) % n_groups] ^ (rng.random((n_rows, 40)) < 0.03)


def test_room_is_made_as_it_is_used_up() -> None:
    X = many_groups(30, 900)
    model = MerDel(random_state=0).fit(X)
    assert model.n_clusters_ == 30
    assert model._prior.n_components == 40
    assert np.all(np.diff(model.lower_bounds_) >= -1e-9 * abs(model.lower_bound_))


def test_where_there_is_room_enough_it_stays() -> None:
    X = many_groups(5, 300)
    auto, enough = MerDel(random_state=0).fit(X), MerDel(FIRST_ROOM, random_state=0).fit(X)
    assert auto.n_clusters_ == 5
    assert auto.lower_bound_ == pytest.approx(enough.lower_bound_, rel=1e-9)
    assert adjusted_rand_score(auto.labels_, enough.labels_) == 1.0


def test_the_number_of_components_steers_no_search() -> None:
    """It adds one number to the ELBO of every clustering, whatever the rows."""
    X = simulate(400, 20, 4, random_state=1).X
    few, many = (MerDel(most, init=np.arange(400) % 6, random_state=0).fit(X) for most in (10, 150))
    np.testing.assert_array_equal(few.labels_, many.labels_)
    assert few.lower_bound_ != many.lower_bound_


@pytest.mark.parametrize(
    ("n_clusters", "room"), [(1, 20), (19, 20), (20, 40), (79, 80), (160, 200), (200, 200)]
)
def test_the_room_for_so_many(n_clusters: int, room: int) -> None:
    assert room_for(n_clusters) == room


def test_components_of_a_prior() -> None:
    assert component_count(7, "default") == component_count(7, "paper") == 7
    assert component_count("auto", "default") == AUTO_COMPONENTS
    assert component_count("auto", "paper") == 20


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_a_ceiling_is_told_where_all_is_used(recipe: str) -> None:
    X = many_groups(6, 300)
    with pytest.warns(CeilingWarning, match="used all 4 clusters that max_clusters allows"):
        MerDel(4, recipe=recipe, random_state=0).fit(X)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MerDel(7, recipe=recipe, random_state=0).fit(X)  # type: ignore[arg-type]


def test_the_advice_names_auto_where_it_would_help() -> None:
    assert "or take 'auto'" in used_up("the fit", 20)
    assert "auto" not in used_up("the fit", AUTO_COMPONENTS)


def test_sites_and_centre_tell_it(tmp_path: Path) -> None:
    X = many_groups(6, 600)
    study = replace(draft_study(X, name="groups"), max_clusters=4)
    with pytest.warns(CeilingWarning, match="site 'leeds' used all 4 clusters"):
        leeds = fit_site(study, X[:300], "leeds")
    roomy = replace(study, max_clusters="auto")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        merge_sites(roomy, [fit_site(roomy, X[:300], "leeds")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        york = fit_site(study, X[300:], "york")
    with pytest.warns(CeilingWarning, match="'leeds', 'york' used all 4") as said:
        federation = merge_sites(study, [leeds, york])
    assert len(said) == 1
    federation.report(tmp_path / "page.html")
    assert "leeds, york used all 4 clusters" in (tmp_path / "page.html").read_text("utf-8")


def test_the_page_of_one_table_tells_it(tmp_path: Path) -> None:
    X = many_groups(6, 300)
    for most, told in ((4, True), (8, False)):
        MerDel(most, random_state=0).fit(X).report(tmp_path / "page.html")
        assert ("The fit used all 4" in (tmp_path / "page.html").read_text("utf-8")) is told


def test_a_federation_finds_more_clusters_than_the_first_room() -> None:
    X = many_groups(24, 2400)
    found = FedMerDel(random_state=0, n_init=1).fit(X, groups=np.arange(2400) // 24 % 2)
    assert found.n_clusters_ == 24


@pytest.mark.parametrize(
    ("n_rows", "n_iter", "starts"), [(100, 30, 4), (20_000, 10, 1), (5000, 40, 3), (5000, 900, 1)]
)
def test_small_tables_have_several_starts(n_rows: int, n_iter: int, starts: int) -> None:
    rows = packed(Dense(np.zeros((1, 40), dtype=int), np.ones(1), np.full(40, 2)))
    rows = rows._replace(codes=np.zeros((n_rows, rows.packing.n_codes), dtype=np.uint8))
    assert starts_that_pay(rows, n_iter) == starts


def test_default_starts_are_as_many_as_pay_and_the_best_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = simulate(300, 30, 6, random_state=3).X
    four = MerDel(random_state=0, n_init=4).fit(X)
    assert MerDel(random_state=0).fit(X).lower_bound_ == four.lower_bound_
    assert MerDel(random_state=0, n_jobs=2).fit(X).lower_bound_ == four.lower_bound_
    monkeypatch.setattr(fitting, "START_WORK", 0.0)
    one = MerDel(random_state=0).fit(X)
    assert one.lower_bound_ == MerDel(random_state=0, n_init=1).fit(X).lower_bound_
    assert one.lower_bound_ <= four.lower_bound_


@pytest.mark.parametrize(
    ("rows", "recipe", "starts"),
    [(100, "default", 4), (700, "default", 2), (5000, "default", 1), (100, "paper", 1)],
)
def test_small_sites_have_several_starts(rows: int, recipe: Any, starts: int) -> None:
    assert site_starts(float(rows), recipe) == starts


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_no_more_clusters_than_rows_are_searched(recipe: Any) -> None:
    """A study may ask for thousands: the search has room for as many as there are rows."""
    X = simulate(60, 12, 3, random_state=4).X
    plain, huge = (
        MerDel(most, recipe=recipe, prior="fixed", random_state=0).fit(X) for most in (60, 2000)
    )
    np.testing.assert_array_equal(plain.labels_, huge.labels_)


@pytest.mark.parametrize("most", [10**20, 10_001, 0, -1, 2.0, True, "many", None])
def test_what_is_no_number_of_clusters(most: Any) -> None:
    X = simulate(60, 12, 3, random_state=4).X
    with pytest.raises(OptionError, match=r"^max_clusters: give 'auto', or a whole number"):
        MerDel(most).fit(X)
    with pytest.raises(OptionError, match=r"^max_clusters: give 'auto', or a whole number"):
        replace(draft_study(X, name="s"), max_clusters=most)
