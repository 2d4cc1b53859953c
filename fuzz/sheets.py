"""CSV, edited by cells, rows and columns."""

from __future__ import annotations

import csv
import io
from random import Random

from fuzz import nasty

EDITS = (
    *(
        "cell",
        "cell",
        "cell",
        "number",
        "number",
        "number",
        "delete row",
        "repeat row",
        "swap rows",
    ),
    *("delete column", "repeat column", "longer", "shorter", "separator", "ends", "quote", "blank"),
    *("header", "scale", "no rows", "fields"),
)


def edit_sheet(data: bytes, rng: Random) -> tuple[bytes, str]:
    """Return a sheet with one edit, and what it was."""
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    what = rng.choice(EDITS)
    at = rng.randrange(len(rows))
    row = rows[at]
    j = rng.randrange(len(row)) if row else 0
    new = nasty.number(rng) if what == "number" else nasty.written(rng)
    if what in ("cell", "number") and row:
        row[j] = new
    elif what == "delete row":
        del rows[at]
    elif what == "repeat row":
        rows[at:at] = [row] * rng.choice((1, 2, 500))
    elif what == "swap rows":
        other = rng.randrange(len(rows))
        rows[at], rows[other] = rows[other], rows[at]
    elif what == "delete column":
        rows = [each[:j] + each[j + 1 :] for each in rows]
    elif what == "repeat column":
        times = rng.choice((1, 2, 200))
        rows = [each[:j] + each[j : j + 1] * times + each[j:] for each in rows]
    elif what == "longer":
        row += [new] * rng.choice((1, 2, 1000))
    elif what == "shorter":
        del row[j:]
    elif what == "header":
        rows[0] = [nasty.written(rng) if rng.random() < 0.5 else cell for cell in rows[0]]
    elif what == "scale" and row:
        rows = [[_scaled(cell, rng) for cell in each] for each in rows]
    elif what == "no rows":
        del rows[1:]
    elif what == "fields":
        rows = [[new] * len(each) for each in rows]
    separator = rng.choice(";\t| ") if what == "separator" else ","
    ends = rng.choice(("\r", "\n", "\r\r\n", "\n\n", "\u2028")) if what == "ends" else "\r\n"
    text = _written(rows, separator, ends)
    if what == "quote":
        place = rng.randint(0, len(text))
        text = text[:place] + rng.choice(('"', '""', "'", '",', '\\"')) + text[place:]
    elif what == "blank":
        place = text.find("\n", rng.randint(0, len(text))) + 1
        text = text[:place] + "\n" * rng.choice((1, 3, 1000)) + text[place:]
    return text.encode(), f"{what}, row {at} column {j} ({new[:40]!r})"


def _scaled(cell: str, rng: Random) -> str:
    try:
        number = float(cell)
    except ValueError:
        return cell
    return repr(number * rng.choice((1e3, 1e300, -1.0, 1e-300, 0.0)))


def _written(rows: list[list[str]], separator: str, ends: str) -> str:
    def cell(text: str) -> str:
        quoted = any(sign in text for sign in (separator, '"', "\n", "\r"))
        return '"' + text.replace('"', '""') + '"' if quoted else text

    return "".join(separator.join(map(cell, row)) + ends for row in rows)
