"""Sums of a narrow table: solved for the rows of every pattern, they must not give people away."""

from __future__ import annotations

import json

import numpy as np
from benchmarks.__main__ import RESULTS
from benchmarks.patterns import ALLOWED, attacked
from benchmarks.promises import PAGE, filled


def test_noise_is_what_keeps_unique_people_from_being_found() -> None:
    """Without it the attack finds them, so that it is none that can't."""
    for noise in (0.0, 2.0):
        ends = [attacked(noise, seed, n_rows=400, n_variables=7, shown=(4, 8)) for seed in (4, 5)]
        plain, drawn = np.array(ends)[:, -1].mean(axis=0)
        if noise == 0:
            assert plain[:2].min() >= 0.9
        else:
            # More people than the final model alone would guess.
            assert plain[0] - plain[2] <= ALLOWED
            assert drawn[0] - drawn[2] <= 2 * ALLOWED


def test_the_page_has_the_losses_that_were_measured() -> None:
    results = json.loads((RESULTS / "benchmarks.json").read_text())
    page = PAGE.read_text()
    assert filled(page, results) == page
    assert all(f"| {row[0]} |" in page for row in results["sums"]["rows"])
