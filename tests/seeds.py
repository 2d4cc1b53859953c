"""Seeds of statistical tests: a few in `make test`, many others in `make test-statistics`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Record = Callable[[str, object], None]
"""What pytest's `record_property` is: what was measured, and the value with what is required."""


def over(few: range, many: range) -> pytest.MarkDecorator:
    """Run a test over the few seeds, and over the many where statistics are asked for."""
    slow = pytest.param(many, marks=pytest.mark.statistics, id="many")
    return pytest.mark.parametrize("seeds", [pytest.param(few, id="few"), slow])
