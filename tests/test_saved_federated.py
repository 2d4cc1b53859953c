"""`FedMerDel` has what `MerDel` has: a file that predicts the same, and a page; `MerDel` too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmerdel import FedMerDel, FileError, MerDel, plot, simulate

TABLE = simulate(900, 20, 3, random_state=4)
SITE = np.array(["Family/General", "York", "Hull"])[np.arange(900) % 3]


@pytest.fixture(scope="module", params=[{}, {"variable_selection": True}, {"prior": 0.7}])
def fitted(request: pytest.FixtureRequest) -> FedMerDel:
    return FedMerDel(6, random_state=1, rounds=1, **request.param).fit(TABLE.X, groups=SITE)


def test_a_loaded_estimator_predicts_the_same_to_the_last_bit(
    fitted: FedMerDel, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "fed.json")
    loaded = FedMerDel.load(tmp_path / "fed.json")
    for method in ("predict", "predict_proba", "score_samples"):
        expected = getattr(fitted, method)(TABLE.X)
        assert getattr(loaded, method)(TABLE.X).tobytes() == expected.tobytes()
    assert loaded.n_clusters_ == fitted.n_clusters_
    assert loaded.lower_bound_ == fitted.lower_bound_
    np.testing.assert_array_equal(loaded.selected_, fitted.selected_)
    assert (loaded.max_clusters, loaded.rounds) == (6, 1)
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "fed.json").read_bytes()


def test_the_file_has_no_site(fitted: FedMerDel, tmp_path: Path) -> None:
    fitted.save(tmp_path / "fed.json")
    text = (tmp_path / "fed.json").read_text()
    assert not any(name in text for name in ("Family", "York", "Hull"))


def test_a_page_with_sites_and_after_loading_without(fitted: FedMerDel, tmp_path: Path) -> None:
    fitted.report(tmp_path / "sites.html", date="2026-01-01")
    assert "Family/General" in (tmp_path / "sites.html").read_text()
    fitted.save(tmp_path / "fed.json")
    loaded = FedMerDel.load(tmp_path / "fed.json")
    loaded.report(tmp_path / "own.html", date="2026-01-01")
    own = (tmp_path / "own.html").read_text()
    assert "Family/General" not in own
    fitted.model_.report(tmp_path / "model.html", date="2026-01-01")
    assert own == (tmp_path / "model.html").read_text()
    assert plot.heatmap(loaded).figure is not None


@pytest.mark.parametrize("damage", ["model", "options", "n_features", "lower_bound"])
def test_a_damaged_file_is_refused_in_one_line(
    fitted: FedMerDel, tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "fed.json"
    fitted.save(path)
    content = json.loads(path.read_text())
    content[damage] = 7 if damage != "lower_bound" else "high"
    path.write_text(json.dumps(content))
    with pytest.raises(FileError, match="damaged or was changed") as caught:
        FedMerDel.load(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(FileError):
        MerDel.load(path)


@pytest.mark.parametrize(
    "options", [{}, {"missing": "level"}, {"variable_selection": True}, {"prior": 0.7}]
)
def test_the_page_of_one_table(options: dict[str, Any], tmp_path: Path) -> None:
    X = TABLE.X.astype(float)
    X[::7, 3] = np.nan
    model = MerDel(6, random_state=1, **options).fit(X)
    model.report(tmp_path / "fit.html", title="One table", date="2026-01-01")
    page = (tmp_path / "fit.html").read_text()
    assert "One table" in page
    assert f"<strong>{model.n_clusters_}</strong>" in page
    assert "900" in page
    assert ("(missing)" in page) == (options.get("missing") == "level")
    model.save(tmp_path / "fit.json")
    MerDel.load(tmp_path / "fit.json").report(
        tmp_path / "again.html", title="One table", date="2026-01-01"
    )
    assert (tmp_path / "again.html").read_text() == page
