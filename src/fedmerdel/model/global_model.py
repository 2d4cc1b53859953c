"""The clusters that all sites have found together: all that is needed to use them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedmerdel.bundles import Files, damaged
from fedmerdel.errors import DataError, FileError, OptionError
from fedmerdel.inference.cluster_worth import ClusterWorth
from fedmerdel.inference.equality import OutcomeTest, equality, joint_equality
from fedmerdel.inference.intervals import Intervals
from fedmerdel.model.certainty import expected_certainty
from fedmerdel.model.describe import Cluster, describe, intervals_of, worth_of
from fedmerdel.model.generate import sample
from fedmerdel.model.guides import guide_rates
from fedmerdel.model.membership import CovariateTest, Effect, Membership
from fedmerdel.model.model_files import (
    CLUSTERS,
    DOCUMENT,
    STUDY,
    SUMS,
    model_document,
    model_sheets,
    read_model,
)
from fedmerdel.model.names import changed
from fedmerdel.model.names_file import FILE as NAMES
from fedmerdel.model.paragraph import methods_paragraph
from fedmerdel.model.rates import Rate, Rates
from fedmerdel.model.report import write_report
from fedmerdel.model.state import ModelState
from fedmerdel.parcels import Parcel
from fedmerdel.study.guide import refused
from fedmerdel.sums.arrays import IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalModel(ModelState, Parcel):
    """The clusters that all sites have found together.

    Made by a `Federation` (``federation.model``). It is small, may be sent to the sites, and
    holds no site's counts: what `assign` and `score_samples` need, and what is shown here.

    Attributes
    ----------
    study : Study
        What the sites agreed on.
    sums : Sums
        T, S and h of the clusters, over all sites, the largest first. Counts that disclosure
        control has hidden are filled with what is expected of them.
    prior : Prior
        The centre's: as many components as all sites have together (appendix E.3), and what
        was learned of it from the sums.
    rows : float64 array (K,)
        Rows of each cluster as the sites told them.
    selection_probability : float64 array (P,)
        How surely each variable tells clusters apart. With a selection of variables the share
        of the sites that selected it (appendix D.3); else the probability under the prior.
        Counts that disclosure control has hidden are taken for what leaves the clusters most
        alike.
    selected : tuple of str
        Variables that tell clusters apart. With a selection of variables those that all sites
        selected, or all but one where there are more than two; else those that more probably
        do than not.
    outcomes : dict of str to Rates
        How often each outcome of the study occurs.
    n_sites, n_rounds : int
        Sites that took part, and rounds since their first merge.
    elbo : float or None
        The ELBO in nats. After one shot, of the counts that the sites released, which are the
        rows' own without a policy; after rounds, of all rows, where it is known.
    names : tuple of str
        The clusters' names, "" where one has none; empty if none has any.
    site_shares : dict of str to float64 array (K,)
        Share of each site's rows in each cluster, where the study says so; else empty.
    checks : Checks or None
        Whether the clusters explain the rows; None if the study asks for no checks.
    membership : Membership or None
        How membership depends on the study's covariates; None if it has none.
    """

    NOUN: ClassVar[str] = "model"
    KIND: ClassVar[str] = "fedmerdel model"
    VERSION: ClassVar[int] = 5
    DOCUMENT: ClassVar[str] = DOCUMENT
    NEEDED: ClassVar[tuple[str, ...]] = (STUDY, SUMS, CLUSTERS)
    OPTIONAL: ClassVar[tuple[str, ...]] = (NAMES,)
    KEEPS: ClassVar[dict[str, str]] = {"names": "names for its clusters"}

    def describe(self) -> tuple[Cluster, ...]:
        """Describe every cluster: size, prevalence, ratio to all, outcomes."""
        return describe(self)

    def intervals(self) -> Intervals:
        """Return 95 % intervals of the clusters' shares and of their levels.

        They allow for rows that may belong to several clusters, and for what disclosure control
        did to counts. They need no row: what rows would tell is asked of rows that the model
        makes up. They take the model and its number of clusters for true.
        """
        return intervals_of(self)

    def worth(self) -> ClusterWorth | None:
        """Return what each cluster is worth: about how many nats the ELBO is lower without it.

        That is, merged with the cluster with which it loses least, or its rows given to all
        others. Of the counts that the sites released, hidden ones filled with what is expected of
        them. It needs no row: what rows would tell is asked of rows that the model makes up. None
        of a single cluster.
        """
        return worth_of(self)

    def named(self, names: Mapping[int, str]) -> Self:
        """Return the model with names for these clusters; others keep theirs.

        Parameters
        ----------
        names : mapping of int to str
            Of each cluster to be named: up to 80 characters on one line, as no other cluster
            is called. "" takes a name away.
        """
        return replace(self, names=changed(self.names, self.n_clusters, names))

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        date: str | None = None,
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        """Write a page of pictures and tables: one HTML file that opens from disk.

        It loads nothing from anywhere. (`Federation.report` has parts about each site as well.)

        Parameters
        ----------
        path : str or Path
            The file to write.
        title : str, optional
            Its heading; the study's name by default.
        date : str, optional
            The date that it says it was written on; today's by default.
        image_shape : (int, int), optional
            For tables whose variables are pixels: lines and columns of the image. A variable's
            place is the number that its name ends in, such as ``pixel_37``.
        """
        write_report(self, path, title=title, date=date, image_shape=image_shape)

    def methods_paragraph(self) -> str:
        """Return what to state of the model in a paper, as plain text to adapt.

        How it was found, from how many sites and rows, under which policy, with which seed and
        software; how many clusters there are and why; how sure rows are expected to be; how
        rates of outcomes were estimated; and what was not checked. The report ends with it.
        """
        sure = expected_certainty(self.sums, self.prior, self.row_prior, self.rows[None, :])
        return methods_paragraph(self, sure)

    def outcome_rates(self, name: str) -> tuple[Rate, ...]:
        """Return how often an outcome of the study occurs in each cluster, or its mean there.

        Corrected for rows that are taken for rows of another cluster; see `Rate`.

        Parameters
        ----------
        name : str
            One of `Study.measures`: the outcome's name; with several levels
            ``"smoking: never"``; with time to an event ``"died by 365"``.
        """
        return self._rates(name).clusters

    def guide_rates(self, name: str) -> tuple[Rate, ...]:
        """Return how often a guide occurs in each cluster, which is no validation of them.

        Corrected for rows that are counted in another cluster; see `Rate`.

        Parameters
        ----------
        name : str
            The guide's name; with more than two levels ``"stage: II"``.
        """
        found = guide_rates(self)
        if name not in found:
            known = ", ".join(map(repr, found)) or "none"
            raise OptionError(f"name: {name!r} is no guide of the study, which has {known}")
        return found[name].clusters

    def outcome_test(self, name: str) -> OutcomeTest:
        """Test whether an outcome is the same in all clusters, and which pairs differ.

        Parameters
        ----------
        name : str
            As in `outcome_rates`. The name of an outcome with several levels, or of time to an
            event, tests all that is told of it at once; pairs are then of no one number.
        """
        own = [each for each in self.study.outcomes if each.name == name]
        if own and own[0].measures != (name,):
            parts = [self.outcomes[measure] for measure in own[0].measures]
            # Shares of levels sum to 1: the first says nothing that the others don't.
            parts = parts[1:] if own[0].kind == "levels" else parts
            K, kept = self.n_clusters, [each.at for each in parts]
            columns = np.concatenate([np.arange(m * K, (m + 1) * K) for m in kept])
            covariance = np.concatenate([each.covariance[:, columns] for each in parts])
            return joint_equality(np.array([each.means for each in parts]), covariance)
        rates = self._rates(name)
        return equality(rates.means, rates.own_covariance)

    def covariate_effects(self, reference: int = 0) -> tuple[Effect, ...]:
        """Return how each covariate of the study changes the odds of each cluster.

        By latent class regression: a multinomial logit of the cluster on all covariates and the
        site, corrected for rows that are taken for rows of another cluster.

        Parameters
        ----------
        reference : int, default=0
            The cluster that all others are compared with; 0 is the largest.

        Returns
        -------
        tuple of Effect
            Of each cluster but the reference, and each level but the first of each covariate.
        """
        return self._membership.effects(reference)

    def covariate_tests(self) -> tuple[CovariateTest, ...]:
        """Test for each covariate whether membership depends on it at all."""
        return self._membership.tests()

    @property
    def _membership(self) -> Membership:
        if self.membership is None:
            raise OptionError("the study has no covariates: name them in the study before it")
        return self.membership

    def _rates(self, name: str) -> Rates:
        if name not in self.outcomes:
            refused(self.study.codebook, name)
            known = ", ".join(map(repr, self.outcomes)) or "none"
            raise OptionError(f"name: {name!r} is no outcome of the study, which has {known}")
        return self.outcomes[name]

    def sample(self, n_rows: int, random_state: int | None = None) -> tuple[NDArray[Any], IntArray]:
        """Draw rows from the clusters: values of the codebook, and the cluster of each."""
        return sample(self, n_rows, random_state)

    @cached_property
    def hash(self) -> str:
        """A fingerprint of the clusters, whatever they are called: validations name it."""
        prior = self.row_prior
        text = f"{self.study.hash} {self.selected} {prior.alpha!r} {prior.n_components}"
        digest = hashlib.sha256(text.encode())
        for array in (self.sums.T, self.sums.S, prior.eps):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def _made_files(self) -> Files:
        """Return the content of each file by its name."""
        return {self.DOCUMENT: self._document_bytes(model_document(self)), **model_sheets(self)}

    @classmethod
    def _from_made_files(cls, files: Files) -> Self:
        """Read what `_made_files` returned."""
        content = cls._read_document(files)
        try:
            return cls(**read_model(content, files))
        except (DataError, FileError):
            raise
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            raise FileError(damaged(cls.DOCUMENT, "or was changed")) from None

    def check_centre(self) -> None:
        """Refuse a model that the centre has not signed, if its study lists keys.

        Raises
        ------
        DataError
            If it is not signed by the centre, or was changed since.
        """
        self.check_signed(self.study.centre_key, "the centre")

    @staticmethod
    def _loses(earlier: tuple[str, ...], new: tuple[str, ...]) -> bool:
        """Whether names are lost: a model that has any may be given others."""
        return any(earlier) and not any(new)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote, or the part of a centre's folder that holds it."""
        inside = Path(path) / "model"
        return super().load(inside if inside.is_dir() else path)
