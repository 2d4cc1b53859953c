"""A federation at its edges: outcomes of one row, and how exactly a folder must agree."""

from __future__ import annotations

import json
import re
from math import isnan
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from fedmerdel import Federation, GlobalModel, merge_sites
from fedmerdel.bundles import pack
from fedmerdel.errors import FileError
from tests.federations import binary, made_study, summary_of
from tests.outcome_cells import yes_no


def made(positive: float = 3.0, observed: float = 30.0) -> Federation:
    """One cluster, with so many deaths of so many rows where death is known."""
    study = made_study(np.full(3, 2), outcomes=("death",))
    deaths = {"death": yes_no(np.array([positive]), np.array([observed]))}
    stats = binary([[0.5, 0.25, 0.75]], [40.0])
    return merge_sites(study, [summary_of(study, "hull", stats, deaths)])


@pytest.mark.parametrize(
    ("positive", "observed"), [(0.0, 0.5), (0.25, 0.5), (0.0, 1.0), (1.0, 1.0), (1.0, 2.0)]
)
def test_one_row_or_less_has_a_rate_too(positive: float, observed: float) -> None:
    federation = made(positive, observed)
    for found in (federation, federation.model):
        (cluster,) = found.describe()
        rate = cluster.outcomes["death"]
        ends = beta.ppf([0.025, 0.975], positive + 0.5, observed - positive + 0.5)
        share = positive / observed
        assert rate.share == pytest.approx(share, abs=1e-9)
        assert 0 <= rate.low <= rate.share <= rate.high <= 1
        # The interval holds its share, which that of the posterior does not near 0 and 1.
        wanted = (min(ends[0], share), max(ends[1], share))
        assert (rate.low, rate.high) == pytest.approx(wanted, abs=2e-4)


def test_nothing_known_is_no_rate() -> None:
    federation = made(0.0, 0.0)
    sent = GlobalModel.from_bytes(federation.model.to_bytes())
    for found in (federation, federation.model, sent):
        (cluster,) = found.describe()
        assert isnan(cluster.outcomes["death"].share)


@pytest.mark.parametrize(("factor", "taken"), [(1 + 1e-12, True), (1 + 1e-7, False)])
def test_the_bound_of_a_folder_agrees_but_for_rounding(
    tmp_path: Path, factor: float, taken: bool
) -> None:
    """Another release of a library may round it otherwise; other counts change it by more."""
    federation = made()
    federation.save(tmp_path / "centre")
    file = tmp_path / "centre" / "federation.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["lower_bound"] *= factor
    file.write_text(json.dumps(content), encoding="utf-8")
    if taken:
        assert Federation.load(tmp_path / "centre").lower_bound == federation.lower_bound
    else:
        with pytest.raises(FileError, match="damaged or was changed"):
            Federation.load(tmp_path / "centre")


@pytest.mark.parametrize("number", [10**7, 2**53, 10**30])
@pytest.mark.parametrize("field", ["n_sites", "n_rounds", "n_components"])
def test_more_sites_or_components_than_can_be_are_refused(field: str, number: int) -> None:
    """Attack: arrays and variances grow with them, so that a small file fills the memory."""
    files = made().model.to_files()
    text = files["model.json"].decode()
    changed = re.sub(rf'"{field}": \d+', f'"{field}": {number}', text)
    assert changed != text
    with pytest.raises(FileError, match=r"model\.json"):
        GlobalModel.from_bytes(pack({**files, "model.json": changed.encode()}))
