"""A site's summary: the only thing that leaves it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.release.answer import Answer, impossible_answer
from fedmerdel.release.cells import DUST, OutcomeCounts, all_cells, wrong_arrays
from fedmerdel.release.disclosure import Protected, releases_exactly
from fedmerdel.release.report import DisclosureReport
from fedmerdel.study.codebook import Codebook
from fedmerdel.study.policy import custom_policy
from fedmerdel.study.priors import study_prior
from fedmerdel.study.protocol import Study
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.sums import Sums


@dataclass(frozen=True, eq=False)
class SiteSummary:
    """Sums over the rows of a site, under disclosure control.

    Parameters
    ----------
    study_hash : str
        Hash of the study that the site was fitted for.
    site : str
        Name of the site; part of file names, so without path separators.
    software : str
        Name and version of the software that wrote it.
    n_components : int
        ``K_init``, the components of the site's prior.
    statistics : Sums
        T, S and h of the site's clusters, K of them.
    overlap : float64 array (K, K)
        Q, or an upper bound of it.
    outcomes : dict of str to OutcomeCounts
        Counts for the outcomes that the study names.
    elbo : float
        ELBO of the statistics under the study's prior before anything is learned of it: it
        tells no more than they do.
    selected : tuple of str or None
        Variables that the site selected; None where the study selects none.
    report : DisclosureReport
        What disclosure control did.
    codebook : Codebook
        The study's variables and levels.
    answer : Answer or None
        If the site answers clusters that the centre has sent out: what serves the next moves.
        The clusters are then those, also where the site has no rows in one.

    Raises
    ------
    DataError
        If the numbers can't be those of any table, or break the policy that the report names.
    """

    study_hash: str
    site: str
    software: str
    n_components: int
    statistics: Sums
    overlap: FloatArray
    outcomes: dict[str, OutcomeCounts]
    elbo: float
    selected: tuple[str, ...] | None
    report: DisclosureReport
    codebook: Codebook = field(repr=False)
    answer: Answer | None = None

    def __post_init__(self) -> None:
        """Refuse impossible numbers."""
        check_summary(self)

    @property
    def n_clusters(self) -> int:
        """Clusters of the site."""
        return self.statistics.n_clusters

    @property
    def n_rows(self) -> float:
        """Rows that the released clusters stand for: the sum of T."""
        return float(self.statistics.T.sum())

    def cells(self) -> FloatArray:
        """Return every count that is told or implied, one after the other."""
        return all_cells(self.statistics, self.codebook.level_offsets, self.outcomes)

    def save(self, path: str | Path) -> None:
        """Write a folder of readable files, or one zip of them if the name ends in .zip.

        A summary that is there already is replaced, whole or not at all; anything else
        stays, and is refused.
        """
        from fedmerdel.release.folder import save_summary

        save_summary(self, path)

    @classmethod
    def load(cls, path: str | Path) -> SiteSummary:
        """Read what `save` wrote; every number is the same to the last bit.

        Raises
        ------
        FileError
            If a file is missing, damaged, or does not belong there.
        DataError
            If the numbers are impossible.
        """
        from fedmerdel.release.folder import load_summary

        return load_summary(path)


def make_summary(
    study: Study,
    site: str,
    protected: Protected,
    selected: tuple[str, ...] | None = None,
    answer: Answer | None = None,
) -> SiteSummary:
    """Make the summary of a site from the numbers that may leave it.

    Parameters
    ----------
    study : Study
        What the sites agreed on.
    site : str
        The site's name.
    protected : Protected
        What `protect` made of the site's clusters; its `changes` stay behind.
    selected : tuple of str, optional
        Variables that the site selected, where the study selects any.
    answer : Answer, optional
        What serves the next moves, if this answers clusters that the centre has sent out.
    """
    prior = study_prior(study, study.max_clusters)
    return SiteSummary(
        study_hash=study.hash,
        site=site,
        software=f"fedmerdel {version('fedmerdel')}",
        n_components=study.max_clusters,
        statistics=protected.statistics,
        overlap=protected.overlap,
        outcomes=protected.outcomes,
        elbo=elbo(protected.statistics, prior),
        selected=selected,
        report=protected.report,
        codebook=study.codebook,
        answer=answer,
    )


def selected_names(codebook: Codebook, inclusion: FloatArray | None) -> tuple[str, ...] | None:
    """Return which variables a selection has kept: all of it that leaves a site."""
    if inclusion is None:
        return None
    return tuple(name for name, c in zip(codebook.names, inclusion, strict=True) if c > 0.5)


def check_summary(summary: SiteSummary) -> None:
    """Refuse numbers that no table can have given, with the reason.

    Raises
    ------
    DataError
        One line: the site, and what is wrong.
    """
    check_site_name(summary.site)
    for name in ("study_hash", "software"):
        if not isinstance(getattr(summary, name), str) or not getattr(summary, name):
            raise DataError(f"summary of site {summary.site!r}: {name} must be a text")
    reason = _impossible(summary) or _breaks_policy(summary)
    if reason:
        raise DataError(f"summary of site {summary.site!r}: {reason}")


def check_site_name(site: str) -> None:
    """Refuse a name that no folder could have.

    Raises
    ------
    DataError
        If it is empty, "." or "..", starts or ends with a space, or has a path separator or
        a control character.
    """
    fits = isinstance(site, str) and site not in ("", ".", "..") and site == site.strip()
    if not fits or re.search(r"[/\\:\x00-\x1f\x7f]", site):
        raise DataError(f"site {site!r}: give a name that a folder can have, such as 'leeds'")


def _impossible(summary: SiteSummary) -> str | None:
    """Return the first thing that can't be, or None."""
    (T, S, h), Q = summary.statistics, summary.overlap
    n_clusters, offsets = len(T), summary.codebook.level_offsets
    most = summary.n_components if summary.answer is None else n_clusters
    if not 1 <= n_clusters <= most:
        return f"{n_clusters} clusters, where 1 to {summary.n_components} are possible"
    shapes = {
        "T": (T, (n_clusters,)),
        "S": (S, (n_clusters, int(offsets[-1]))),
        "h": (h, (n_clusters,)),
        "overlap": (Q, (n_clusters, n_clusters)),
    }
    for name, counts in summary.outcomes.items():
        for part, array in counts._asdict().items():
            shapes[f"{part} of outcome {name!r}"] = (array, (n_clusters,))
    wrong = wrong_arrays(shapes)
    if wrong is not None:
        return wrong
    if not np.isfinite(summary.elbo):
        return "the ELBO is not finite"
    names = summary.codebook.names
    # A damaged file may hold anything here, also what no set can hold.
    if not all(name in names for name in summary.selected or ()):
        return "it selects variables that its codebook does not have"
    if (T.min() if summary.answer is None else T.sum()) <= 0:
        return "a cluster has no rows: leave it out"
    if h.max() > 0:
        return "h is above 0, and no sum of r ln r is"
    if not np.array_equal(Q, Q.T) or np.any(np.diag(Q)):
        return "overlap is not symmetric with 0 on its diagonal"
    slack = DUST * np.maximum(T, 1.0)
    for variable, start, end in zip(
        summary.codebook.variables, offsets[:-1], offsets[1:], strict=True
    ):
        if np.any(S[:, start:end].sum(axis=1) > T + slack):
            return f"the levels of {variable.name!r} sum to more than the cluster's rows"
    for name, counts in summary.outcomes.items():
        if np.any(counts.observed > T + slack) or np.any(counts.positive > counts.observed + slack):
            return f"outcome {name!r} has more rows than there are"
    if summary.answer is not None:
        return impossible_answer(summary.answer, summary.statistics, offsets)
    return None


def _breaks_policy(summary: SiteSummary) -> str | None:
    """Return where the numbers break the policy that the report names, or None."""
    report = summary.report
    # Whatever the file says of the smallest count, it follows from the two numbers of the rule.
    rule = custom_policy(report.threshold, report.rounding)
    if report.smallest != (0 if releases_exactly(rule) else rule.smallest):
        return f"the smallest count in its report is not that of policy {report.policy!r}"
    if report.smallest == 0:
        return None
    if summary.answer is not None and summary.answer.prospects is not None:
        return f"it tells of halves, which policy {report.policy!r} does not protect"
    cells = summary.cells()
    if np.any((cells > 0) & (cells < report.smallest)):
        return f"a count is under {report.smallest}, the least of policy {report.policy!r}"
    if np.any(cells % max(report.rounding, 1)):
        return f"a count is not rounded as policy {report.policy!r} asks"
    return None
