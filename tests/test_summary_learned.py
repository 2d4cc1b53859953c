"""What a summary tells of a prior that was learned at the site: the names of variables, no more."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedmerdel import FedMerDel, simulate
from fedmerdel.errors import FedMerDelError
from fedmerdel.release.summary import SiteSummary
from fedmerdel.site.fit_site import fit_site
from fedmerdel.study.policy import POLICIES
from fedmerdel.study.study import Study
from tests.federations import made_study
from tests.summaries import assert_same, make

TABLE = simulate(1500, 20, 3, beta=(1, 1), noisy=0.5, random_state=2)
WAYS: list[dict[str, Any]] = [
    {"prior": "learned"},
    {"prior": "fixed"},
    {"prior": "fixed", "variable_selection": True},
]


def study(**options: Any) -> Study:
    return made_study(np.full(20, 2), **options)


def fitted(agreed: Study) -> SiteSummary:
    columns = {f"v{j}": TABLE.X[:, j].astype(int) for j in range(20)}
    return fit_site(agreed, pd.DataFrame(columns), "leeds")


@pytest.mark.parametrize("policy", ["none", "opensafely"])
@pytest.mark.parametrize("options", WAYS, ids=str)
def test_of_what_is_learned_the_selected_variables_leave(
    options: dict[str, Any], policy: str
) -> None:
    """A fit may learn strengths and a floor; of these, names of selected variables leave."""
    agreed = study(policy=POLICIES[policy], **options)
    summary = fitted(agreed)
    assert summary.n_clusters > 1
    document = json.loads(summary.to_files()["summary.json"])
    assert set(document) == {"kind", "version", *SiteSummary.ENTRIES}
    if not agreed.variable_selection:
        assert summary.selected is None
        return
    assert summary.selected is not None
    names = np.array(agreed.codebook.names)
    chosen = np.isin(names, summary.selected)
    assert chosen[TABLE.relevant].mean() >= 0.9
    assert chosen[~TABLE.relevant].mean() <= 0.3
    assert list(summary.selected) == [name for name in names if name in summary.selected]


@pytest.mark.parametrize("selected", [None, (), ("sex",), ("age", "sex")])
@pytest.mark.parametrize("name", ["a", "a.zip"])
def test_the_selection_is_kept(selected: Any, name: str, tmp_path: Path) -> None:
    summary = dataclasses.replace(make(), selected=selected)
    summary.save(tmp_path / name)
    assert_same(SiteSummary.load(tmp_path / name), summary)


@pytest.mark.parametrize("selected", [["weight"], [["sex"]], [{}], [3], "sex", {"sex": 1}, 0, True])
def test_a_damaged_selection_is_refused_in_one_line(selected: Any, tmp_path: Path) -> None:
    dataclasses.replace(make(), selected=("sex",)).save(tmp_path / "a")
    path = tmp_path / "a" / "summary.json"
    document = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**document, "selected": selected}), encoding="utf-8")
    with pytest.raises(FedMerDelError, match=r"select") as caught:
        SiteSummary.load(tmp_path / "a")
    assert "\n" not in str(caught.value)


def test_an_estimator_of_sites_selects_by_their_votes() -> None:
    site = np.arange(1500) % 3
    model = FedMerDel(6, variable_selection=True, random_state=0).fit(TABLE.X, groups=site)
    sent = model.federation_.summaries
    votes = np.mean([np.isin(model.codebook_.names, s.selected) for s in sent], axis=0)
    np.testing.assert_array_equal(model.selection_probability_, votes)
    np.testing.assert_array_equal(model.selected_, votes > 0.5)  # two of three
    assert model.selected_[TABLE.relevant].mean() >= 0.8
    assert np.isfinite(model.score_samples(TABLE.X)).all()
    # Variables that were not selected say nothing of a row's cluster.
    changed = TABLE.X.copy()
    changed[:, ~model.selected_] = 1 - changed[:, ~model.selected_]
    assert (~model.selected_).any()
    np.testing.assert_array_equal(model.predict_proba(changed), model.predict_proba(TABLE.X))
