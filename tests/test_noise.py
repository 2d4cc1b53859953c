"""Noise for whole numbers: its distribution, from both samplers."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.stats import chisquare

from fedmerdel import OptionError
from fedmerdel.summing.noise import TABLE_SCALE, discrete_noise


def odds(x: np.ndarray, scale: float) -> np.ndarray:
    every = np.arange(-60, 61)
    return np.exp(-((x / scale) ** 2) / 2) / np.exp(-((every / scale) ** 2) / 2).sum()


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("scale", [0.5, 3.3])
def test_both_samplers_draw_the_discrete_gaussian(seed: int | None, scale: float) -> None:
    rng = None if seed is None else np.random.default_rng(seed)
    size = 8000
    drawn = discrete_noise(scale, size, rng)
    assert drawn.dtype == np.int64
    assert drawn.shape == (size,)
    last = int(2.5 * scale)
    x = np.arange(-last, last + 1)
    seen = np.array([(drawn == each).sum() for each in x])
    told = odds(x, scale) * size
    seen, told = np.append(seen, size - seen.sum()), np.append(told, size - told.sum())
    # One in a million: noise from the system's randomness has no seed to fix.
    assert chisquare(seen, told).pvalue > 1e-6


@pytest.mark.parametrize("scale", [TABLE_SCALE, 2 * TABLE_SCALE, 1e9])
def test_wide_seeded_noise_has_its_scale(scale: float) -> None:
    drawn = discrete_noise(scale, 40_000, np.random.default_rng(3)) / scale
    assert abs(drawn.mean()) < 0.03
    assert abs(drawn.std() - 1) < 0.02
    assert abs((drawn**4).mean() - 3) < 0.25


def test_a_seed_gives_the_same_noise_and_none_does_not() -> None:
    first, again = (discrete_noise(9.0, 50, np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(discrete_noise(9.0, 50), discrete_noise(9.0, 50))


def test_no_scale_draws_zeros() -> None:
    assert not discrete_noise(0.0, 5).any()
    assert len(discrete_noise(2.0, 0)) == 0


@pytest.mark.parametrize("scale", [-1.0, np.nan, np.inf])
def test_scales_that_noise_cannot_have_are_refused(scale: float) -> None:
    with pytest.raises(OptionError, match="scale of noise"):
        discrete_noise(scale, 3)


def test_without_opendp_one_line_tells_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in list(sys.modules):
        if part.partition(".")[0] == "opendp":
            monkeypatch.setitem(sys.modules, part, None)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"pip install 'fedmerdel\[sums\]'"):
        discrete_noise(1.2345, 3)
    assert len(discrete_noise(1.2345, 3, np.random.default_rng(0))) == 3
