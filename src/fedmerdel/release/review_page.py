"""The page that a person at a site looks through before a summary leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedmerdel.files import write_text
from fedmerdel.release.review import review_tables
from fedmerdel.release.risk import in_words
from fedmerdel.release.summary import SiteSummary
from fedmerdel.report.charts import bars
from fedmerdel.report.heat import heat_data
from fedmerdel.report.page import check_page_place, check_page_size, render
from fedmerdel.sums.profile import counted_profile

N_SMALLEST = 30


def write_review(summary: SiteSummary, path: str | Path) -> None:
    """Write the page of a summary: one HTML file, made of nothing but what would leave."""
    check_page_place(path)
    write_text(path, review_page(summary))


def review_page(summary: SiteSummary) -> str:
    """Return the page of a summary as HTML."""
    check_page_size(*summary.sums.S.shape)
    seen = review_tables(summary, N_SMALLEST)
    # A reply may have clusters without rows here; there is nothing to draw of them.
    here = [size for size in seen.sizes if size.rows > 0]
    stats = summary.sums.take(np.array([size.cluster for size in here]))
    found = counted_profile(stats, summary.codebook.level_offsets)
    clusters = [{"number": s.cluster, "name": "", "rows": round(s.rows)} for s in here]
    return render(
        "site.html",
        heat=heat_data(summary.codebook, {}, found, clusters),
        title=f"Site {summary.site}: what would leave",
        facts=seen.facts,
        sizes=seen.sizes,
        sizes_chart=bars([s.share for s in here], [f"cluster {s.cluster}" for s in here]),
        smallest=seen.smallest,
        risks=seen.risks,
        risk_sentences=in_words(seen.risks),
        contrasts=seen.contrasts,
        note=summary.to_files()["README.txt"].decode(),
    )
