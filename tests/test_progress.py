"""The line that moves while a fit runs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from joblib import Parallel, delayed

from fedmerdel import MerDel, simulate
from fedmerdel.fitting.history import History
from fedmerdel.progress import shown

X = simulate(400, 20, 3, beta=(0.3, 0.3), random_state=0).X


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_silent_unless_asked(recipe: Any, capfd: pytest.CaptureFixture[str]) -> None:
    model = MerDel(recipe=recipe, random_state=0).fit(X)
    model.predict(X)
    model.score(X)
    model.sample(3)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("verbose", [1, True, 2])
@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_verbose_shows_passes_clusters_and_elbo(
    verbose: Any, recipe: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    model = MerDel(20, recipe=recipe, n_init=1, random_state=0, verbose=verbose).fit(X)
    out, err = capsys.readouterr()
    assert err == ""
    assert re.search(rf"pass {model.n_iter_}, {model.n_clusters_} clusters, \d+ of", out)
    assert f"{len(model.history_)} moves accepted" in out
    assert f"ELBO per row {model.lower_bound_ / len(X):.4f}" in out


def test_the_result_does_not_depend_on_it() -> None:
    silent, shown_one = (MerDel(random_state=0, verbose=v).fit(X) for v in (0, 1))
    assert silent.lower_bound_ == shown_one.lower_bound_


def test_weights_count_in_the_elbo_per_row(capsys: pytest.CaptureFixture[str]) -> None:
    model = MerDel(20, n_init=1, random_state=0, verbose=1).fit(X, sample_weight=[3.0] * len(X))
    assert f"ELBO per row {model.lower_bound_ / (3 * len(X)):.4f}" in capsys.readouterr().out


def test_a_sample_is_called_so_and_shows_no_elbo_of_all_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with shown(1, n_rows=5000, total_weight=5000.0) as watch:
        assert watch is not None
        History(5000, watch).on_sample(1234).add_pass(-2468.0, n_clusters=7)
    out = capsys.readouterr().out
    assert "1,234 rows: pass 1, 7 clusters, 0 of 0 moves accepted" in out
    assert "ELBO" not in out


def test_a_failed_fit_leaves_no_line_behind(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        with shown(1, n_rows=1, total_weight=1.0):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    capsys.readouterr()
    MerDel(random_state=0, verbose=1).fit(X)
    assert "clusters" in capsys.readouterr().out


def test_several_fits_at_once_may_all_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    models = [MerDel(random_state=seed, verbose=1) for seed in range(4)]
    fitted = Parallel(n_jobs=2, prefer="threads")(delayed(m.fit)(X) for m in models)
    alone = [MerDel(random_state=seed).fit(X) for seed in range(4)]
    assert [m.lower_bound_ for m in fitted] == [m.lower_bound_ for m in alone]
    assert "clusters" in capsys.readouterr().out
