"""One self-contained page: template, style, script and data in a single file."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedmerdel.errors import DataError, FileError
from fedmerdel.files import check_earlier, check_place
from fedmerdel.report.colours import RATIO_STOPS, SHARE_STOPS, on, share_colour

OWN_FILES = ("federation.json", "model.json", "summary.json", "reply.json", "broadcast.json")
"""Where one of these is, or above it, a folder has its own files and no other."""

GENERATOR = b'<meta name="generator" content="fedmerdel">'
"""What every page has near its beginning."""

MOST_CLUSTERS, MOST_LEVELS, MOST_CELLS = 500, 20_000, 400_000
"""What a page shows: more than people look at, and as much as a browser takes. Memory and time
grow with clusters times levels, and a small file may tell of many."""

ASSETS = files("fedmerdel.report") / "assets"


def render(template: str, *, heat: dict[str, Any], **content: Any) -> str:
    """Return the page of a template.

    Parameters
    ----------
    template : {"model.html", "site.html"}
        Which page.
    heat : dict
        What the heatmap's script reads; see `heat.heat_data`.
    **content
        What the template shows.
    """
    style = _asset("page.css")
    script = _asset("heatmap.js") + _asset("page.js")
    data = {**heat, "shareStops": SHARE_STOPS, "ratioStops": RATIO_STOPS}
    page = _environment().get_template(template).render(
        style=Markup(style), script=Markup(script), data=_data(data), policy=_policy(script),
        heat_orders=list(heat["orders"]), heat_unmeasured=heat["unmeasured"], **content,
    )  # fmt: skip
    return page.rstrip() + "\n"


@cache
def _environment() -> Environment:
    """Return what fills templates in; each is compiled once."""
    found = Environment(
        loader=PackageLoader("fedmerdel.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(count=count, percent=percent, number=number, shade=share_colour, ink=on)
    return found


def check_page_place(path: str | Path) -> None:
    """Refuse a place where no page can be written, or must not: before the work for it.

    Raises
    ------
    FileError
        If it is a folder, nothing can be written there, or it is inside the folder of a model or
        of a summary, which have their own files and no other.
    """
    target = Path(path)
    check_place(target)
    if target.is_dir():
        raise FileError(f"{str(target)!r} is a folder: name an HTML file in it")
    if target.suffix.lower() not in (".html", ".htm"):
        raise FileError(f"file {str(target)!r}: a page's name ends in .html")
    check_earlier(target, "page of this software", lambda first: GENERATOR in first)
    folders = target.resolve().parents
    if any((folder / name).exists() for folder in folders for name in OWN_FILES):
        raise FileError(
            f"file {str(target)!r} would be in the folder of a model or a summary, which has its "
            "files and no other: name a place outside it"
        )


def check_page_size(n_clusters: int, n_levels: int) -> None:
    """Refuse what is too large for a page, before the work for it.

    Raises
    ------
    DataError
        If there are too many clusters, levels of all variables, or of one times the other.
    """
    if n_clusters > MOST_CLUSTERS or n_levels > MOST_LEVELS or n_clusters * n_levels > MOST_CELLS:
        raise DataError(
            f"{n_clusters:,} clusters by {n_levels:,} levels are too many for a page, which shows "
            f"{MOST_CLUSTERS:,} clusters, {MOST_LEVELS:,} levels and {MOST_CELLS:,} of one times "
            "the other at most"
        )


def count(rows: float) -> str:
    """Return a count as people write it."""
    return f"{rows:,.0f}"


def percent(share: float, digits: int = 1) -> str:
    """Return a share in per cent, in one piece; a dash where there is none."""
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%" if share == share else "–"


def number(value: float, digits: int = 1) -> str:
    """Return a number with so many decimals; a dash where there is none."""
    return f"{value:,.{digits}f}" if value == value else "–"


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _data(content: dict[str, Any]) -> Markup:
    """Return JSON that no text in it can end early: a script's data ends at the next ``</``."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _policy(script: str) -> str:
    """Return the content security policy: this script alone runs, and nothing is fetched."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
