"""The first call after an install, compilation included, and a second process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from benchmarks.measure import Finding, Report, seconds

FIRST = 20.0
SECOND = 3.0
_CODE = "from fedmerdel import MerDel, simulate; MerDel(random_state=0).fit(simulate(1000).X)"


def run() -> Report:
    """Time two processes, one after the other, with a compilation cache that starts empty."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}

        def process() -> None:
            subprocess.run([sys.executable, "-c", _CODE], env=environment, check=True)

        first = seconds(process)
        second = min(seconds(process) for _ in range(3))
    return Report(
        [
            Finding(
                "first process: import, compile, fit 1,000 rows",
                f"under {FIRST:.0f} s",
                f"{first:.1f} s",
                first < FIRST,
            ),
            Finding(
                "second process: import, fit 1,000 rows",
                f"under {SECOND:.0f} s",
                f"{second:.1f} s",
                second < SECOND,
            ),
        ],
        ["process", "seconds"],
        [["first", f"{first:.1f}"], ["second", f"{second:.1f}"]],
    )
