"""The axis of charts of rates."""

from __future__ import annotations

from math import nan

import pytest

from fedmerdel.model.rates import Rate
from fedmerdel.report.axis import axis_end
from fedmerdel.report.charts import intervals
from tests.page_tree import parsed

SHARE = Rate(0.5, 0.0, 1.0)
TEXTS = SHARE.tick, SHARE.said
WIDE = (0.5, 0.01, 1.0)
RATES = [(0.05, 0.04, 0.06), (0.1, 0.08, 0.12)]


def test_an_axis_ends_at_clusters_that_have_rows_or_are_sure() -> None:
    assert axis_end([*RATES, WIDE], [600, 396, 4], 0.07) == 0.12
    assert axis_end([*RATES, WIDE], [600, 390, 10], 0.07) == 1.0  # 1 % of the rows
    assert axis_end([*RATES, (0.3, 0.21, 0.4)], [600, 396, 4], 0.07) == 0.4  # tiny, but sure
    assert axis_end([WIDE] * 200, [1] * 200, nan) == 1.0  # none is better
    assert axis_end([(0.0, 0.0, 0.001)], [1000], nan) == 0.01
    assert axis_end([(0.1, 0.08, 0.12)], [1000], 0.2) == 0.2  # all rows are shown as well


def test_a_chart_cuts_a_long_interval_with_an_arrow() -> None:
    chart = parsed(str(intervals(["a", "b", "c"], [*RATES, WIDE], 0.07, [600, 396, 4], *TEXTS)))
    *others, tiny = chart.all("g")
    assert [len(each.all("path", "cut")) for each in (*others, tiny)] == [0, 0, 1]
    assert [len(each.all("circle")) for each in (*others, tiny)] == [1, 1, 0]
    assert "c: 50.0 % (1.0 % to 100.0 %)" in chart.titles()
    end = tiny.one("path", "cut").attributes["d"].split()[0].removeprefix("M")
    assert tiny.all("path")[0].attributes["d"].endswith(f"H{end}")
    assert float(end) == pytest.approx(570)
    assert "12 %" in [text.text for text in chart.all("text", "tick")]
    unknown = parsed(str(intervals(["a"], [(nan, 0.0, 1.0)], nan, [3], *TEXTS)))
    assert not unknown.all("circle")
    assert not unknown.all("path", "cut")
