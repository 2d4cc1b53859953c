"""Colours of the report, as people see them who see other colours."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fedmerdel.report.colours import RATIO_STOPS, SHARE_STOPS, between
from tests.luminance import SEEN, linear, luminance


@pytest.mark.parametrize("way", SEEN)
def test_who_sees_other_colours_sees_the_same_order(way: str) -> None:
    places = np.linspace(0, 1, 101)
    shares = [luminance(between(SHARE_STOPS, at), way) for at in places]
    assert all(a > b for a, b in pairwise(shares))
    ratios = [luminance(between(RATIO_STOPS, at), way) for at in places]
    assert all(a < b for a, b in pairwise(ratios[:51]))
    assert all(a > b for a, b in pairwise(ratios[50:]))
    rare, often = ((SEEN[way] @ linear(RATIO_STOPS[at])).clip(0, 1) for at in (0, -1))
    shown = [255 * np.where(x <= 0.0031308, 12.92 * x, 1.055 * x ** (1 / 2.4) - 0.055)
             for x in (rare, often)]  # fmt: skip
    assert np.linalg.norm(shown[0] - shown[1]) > 60  # of 442 from black to white
