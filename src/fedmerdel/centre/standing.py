"""How a site stands among the others: what changes without it, what it alone has, what is odd."""

from __future__ import annotations

from typing import Literal, NamedTuple

from fedmerdel.sums.arrays import FloatArray


class LeftOut(NamedTuple):
    """The clusters without one site, found anew.

    Attributes
    ----------
    site : str
        The site that is left out.
    n_clusters : int
        Clusters of the others.
    likeness : float64 array (K,)
        How alike each cluster of the model is to the most alike one of these, by rows of the
        other sites (Jaccard); nan for a cluster of this site alone.
    loss : float
        Nats a row that the others lose by being merged with this site: by how much the ELBO of
        their counts is lower where clusters that are apart without it are together with it.
    """

    site: str
    n_clusters: int
    likeness: FloatArray
    loss: float


class LoneCluster(NamedTuple):
    """A global cluster that one site alone has.

    Attributes
    ----------
    cluster : int
        Its number.
    site : str
        The site.
    rows : float
        Its rows.
    share : float
        Of the site's rows.
    """

    cluster: int
    site: str
    rows: float
    share: float


class Doubt(NamedTuple):
    """What is odd about a site.

    Attributes
    ----------
    site : str
        The site.
    kind : {"between", "misfit", "size", "missing", "outcome"}
        Clusters of it lie between clusters that other sites tell apart; its counts do not fit
        the clusters that were sent to it; it tells of many times the rows of all others
        together; every variable has far more missing entries there than elsewhere; or an
        outcome is far more or less frequent.
    score : float
        The share of its rows that are between, or do not fit; times the rows of the others;
        share of missing entries; how many spreads of the others' log odds its own are away.
    text : str
        The same in words.
    """

    site: str
    kind: Literal["between", "misfit", "size", "missing", "outcome"]
    score: float
    text: str
