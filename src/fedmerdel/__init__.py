"""Bayesian clustering of binary and categorical tables, on one machine and across sites.

`MerDel` clusters one table and finds the number of clusters by itself; `consensus` and
`stability` tell what of it does not depend on the start, or on the sample. Across sites:
`fit_site` at each site gives a `SiteSummary`, the only thing that leaves it; `merge_sites`
at the centre makes a `Federation` of these, and ``federation.model`` is the `GlobalModel` with
which `assign` at each site gives its rows to the common clusters. A round makes it better: the
federation's `Broadcast`, each site's `reply_site`, and ``federation.step``. `validate_site` says
how well the clusters fit a site that took no part, and `federation_stability` which would be found
again.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it: `typing` would be imported for nothing else
if TYPE_CHECKING:
    from typing import Any

    from fedmerdel import plot
    from fedmerdel.centre.comparison import SiteComparison
    from fedmerdel.centre.federation import Federation, merge_sites
    from fedmerdel.centre.lineage import Ancestor, Round
    from fedmerdel.centre.missing import Missingness
    from fedmerdel.centre.origins import Join
    from fedmerdel.centre.outcomes import SiteTest
    from fedmerdel.centre.run import run_rounds
    from fedmerdel.centre.standing import Doubt, LeftOut, LoneCluster
    from fedmerdel.centre.summaries import admit
    from fedmerdel.errors import (
        CeilingWarning,
        ConstantColumnWarning,
        DataError,
        FedMerDelError,
        FedMerDelWarning,
        FileError,
        NotConvergedWarning,
        OddSiteWarning,
        OptionError,
        RareLevelWarning,
    )
    from fedmerdel.estimators.consensus import Consensus, consensus
    from fedmerdel.estimators.federated import FedMerDel
    from fedmerdel.estimators.federation_stability import federation_stability
    from fedmerdel.estimators.merdel import MerDel
    from fedmerdel.estimators.model_table import ModelRow, ModelTable, model_table
    from fedmerdel.estimators.replicates import FederationStability, Replicates
    from fedmerdel.estimators.stability import stability
    from fedmerdel.estimators.starts import Stability
    from fedmerdel.fitting.history import Move
    from fedmerdel.inference.check_counts import CheckCounts
    from fedmerdel.inference.cluster_worth import ClusterWorth
    from fedmerdel.inference.comparison import LevelTest
    from fedmerdel.inference.equality import OutcomeTest, PairTest
    from fedmerdel.inference.intervals import Intervals
    from fedmerdel.inference.transport import Measured, Shift
    from fedmerdel.keys import SigningKey, key_fingerprint
    from fedmerdel.model.broadcast import Broadcast
    from fedmerdel.model.checks import Checks, PairResidual
    from fedmerdel.model.describe import Cluster, ClusterLevel
    from fedmerdel.model.global_model import GlobalModel
    from fedmerdel.model.membership import CovariateTest, Effect, Membership, Term
    from fedmerdel.model.rates import Rate, Rates
    from fedmerdel.records.draft import draft_study
    from fedmerdel.records.simulate import SimulatedTable, bayes_labels, simulate
    from fedmerdel.release.account import Account
    from fedmerdel.release.reply import Reply
    from fedmerdel.release.summary import SiteSummary
    from fedmerdel.release.validation import Validation
    from fedmerdel.site.assign import Assignment, assign, score_samples
    from fedmerdel.site.check import Check
    from fedmerdel.site.fit_site import fit_site
    from fedmerdel.site.own_site import Site
    from fedmerdel.site.reply_site import reply_site
    from fedmerdel.site.site_file import SiteFile
    from fedmerdel.site.validate_site import validate_site
    from fedmerdel.study.codebook import Codebook, Variable
    from fedmerdel.study.outcome import Outcome
    from fedmerdel.study.policy import Policy, custom_policy, policy_named
    from fedmerdel.study.promise import Promise
    from fedmerdel.study.study import Study
    from fedmerdel.summing.rounds import Brought
    from fedmerdel.sums.prior import Prior
    from fedmerdel.sums.sums import Sums

__version__ = "0.1.0"

__all__ = [
    "Account",
    "Ancestor",
    "Assignment",
    "Broadcast",
    "Brought",
    "CeilingWarning",
    "Check",
    "CheckCounts",
    "Checks",
    "Cluster",
    "ClusterLevel",
    "ClusterWorth",
    "Codebook",
    "Consensus",
    "ConstantColumnWarning",
    "CovariateTest",
    "DataError",
    "Doubt",
    "Effect",
    "FedMerDel",
    "FedMerDelError",
    "FedMerDelWarning",
    "Federation",
    "FederationStability",
    "FileError",
    "GlobalModel",
    "Intervals",
    "Join",
    "LeftOut",
    "LevelTest",
    "LoneCluster",
    "Measured",
    "Membership",
    "MerDel",
    "Missingness",
    "ModelRow",
    "ModelTable",
    "Move",
    "NotConvergedWarning",
    "OddSiteWarning",
    "OptionError",
    "Outcome",
    "OutcomeTest",
    "PairResidual",
    "PairTest",
    "Policy",
    "Prior",
    "Promise",
    "RareLevelWarning",
    "Rate",
    "Rates",
    "Replicates",
    "Reply",
    "Round",
    "Shift",
    "SigningKey",
    "SimulatedTable",
    "Site",
    "SiteComparison",
    "SiteFile",
    "SiteSummary",
    "SiteTest",
    "Stability",
    "Study",
    "Sums",
    "Term",
    "Validation",
    "Variable",
    "admit",
    "assign",
    "bayes_labels",
    "consensus",
    "custom_policy",
    "draft_study",
    "federation_stability",
    "fit_site",
    "key_fingerprint",
    "merge_sites",
    "model_table",
    "plot",
    "policy_named",
    "reply_site",
    "run_rounds",
    "score_samples",
    "simulate",
    "stability",
    "validate_site",
]

_HOMES: dict[str, tuple[str, ...]] = {
    "centre.comparison": ("SiteComparison",),
    "centre.federation": (
        "Federation",
        "merge_sites",
    ),
    "centre.lineage": (
        "Ancestor",
        "Round",
    ),
    "centre.origins": ("Join",),
    "centre.outcomes": ("SiteTest",),
    "centre.run": ("run_rounds",),
    "centre.missing": ("Missingness",),
    "centre.standing": ("Doubt", "LeftOut", "LoneCluster"),
    "centre.summaries": ("admit",),
    "errors": (
        "CeilingWarning",
        "ConstantColumnWarning",
        "DataError",
        "FedMerDelError",
        "FedMerDelWarning",
        "FileError",
        "NotConvergedWarning",
        "OddSiteWarning",
        "OptionError",
        "RareLevelWarning",
    ),
    "estimators.consensus": (
        "Consensus",
        "consensus",
    ),
    "estimators.federated": ("FedMerDel",),
    "estimators.federation_stability": ("federation_stability",),
    "estimators.merdel": ("MerDel",),
    "estimators.model_table": (
        "ModelRow",
        "ModelTable",
        "model_table",
    ),
    "estimators.replicates": ("FederationStability", "Replicates"),
    "estimators.stability": ("stability",),
    "estimators.starts": ("Stability",),
    "fitting.history": ("Move",),
    "inference.check_counts": ("CheckCounts",),
    "inference.cluster_worth": ("ClusterWorth",),
    "inference.comparison": ("LevelTest",),
    "inference.equality": ("OutcomeTest", "PairTest"),
    "inference.intervals": ("Intervals",),
    "inference.transport": ("Measured", "Shift"),
    "keys": ("SigningKey", "key_fingerprint"),
    "model.broadcast": ("Broadcast",),
    "model.checks": (
        "Checks",
        "PairResidual",
    ),
    "model.describe": (
        "Cluster",
        "ClusterLevel",
    ),
    "model.global_model": ("GlobalModel",),
    "model.membership": (
        "CovariateTest",
        "Effect",
        "Membership",
        "Term",
    ),
    "model.rates": (
        "Rate",
        "Rates",
    ),
    "records.draft": ("draft_study",),
    "records.simulate": (
        "SimulatedTable",
        "bayes_labels",
        "simulate",
    ),
    "release.account": ("Account",),
    "release.reply": ("Reply",),
    "release.summary": ("SiteSummary",),
    "release.validation": ("Validation",),
    "site.assign": (
        "Assignment",
        "assign",
        "score_samples",
    ),
    "site.check": ("Check",),
    "site.fit_site": ("fit_site",),
    "site.own_site": ("Site",),
    "site.reply_site": ("reply_site",),
    "site.site_file": ("SiteFile",),
    "site.validate_site": ("validate_site",),
    "study.codebook": (
        "Codebook",
        "Variable",
    ),
    "study.outcome": ("Outcome",),
    "study.promise": ("Promise",),
    "study.policy": (
        "Policy",
        "custom_policy",
        "policy_named",
    ),
    "study.study": ("Study",),
    "summing.rounds": ("Brought",),
    "sums.prior": ("Prior",),
    "sums.sums": ("Sums",),
}
"""The modules that names come from, as above; they are imported when a name is first used.

numpy, numba and scikit-learn take a second: whoever stops the program meanwhile is to be told so
in one line, and that needs a package that is there at once (`fedmerdel.__main__`)."""


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name == "plot":
        return import_module("fedmerdel.plot")
    for home, names in _HOMES.items():
        if name in names:
            globals()[name] = found = getattr(import_module(f"fedmerdel.{home}"), name)
            return found
    raise AttributeError(f"module 'fedmerdel' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
