"""The table of losses on the page about promises, filled from what the benchmarks have found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "promises.md"
BEGIN = "<!-- written by python -m benchmarks sums; do not edit by hand -->"
END = "<!-- to here -->"
EPSILON = "epsilon 3"


def filled(page: str, results: dict[str, Any]) -> str:
    """Return the page with the table of what was found, between its marks."""
    shots, budgets = (
        {row[0]: row[3] for row in results.get(name, {}).get("rows", [])}
        for name in ("hidden", "private")
    )
    header = ["loss", "one cluster", "`counts`, one shot", "`sums`, 8 rounds", "`sums`, 30 rounds"]
    lines = [[*header, f"`dp`, {EPSILON}"], ["---"] * (len(header) + 1)]
    for name, eight, thirty, _, _, one, _ in results["sums"]["rows"]:
        told = budgets.get(f"{name}, {EPSILON}", "").split(",")[0]
        lines.append([name, one, shots.get(name, ""), eight, thirty, told])
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    between = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    return between.sub(f"{BEGIN}\n\n{table}\n\n{END}", page)


def fill(results: dict[str, Any]) -> None:
    """Write the table into the page, where its benchmark has run."""
    if "sums" in results:
        PAGE.write_text(filled(PAGE.read_text(), results))
