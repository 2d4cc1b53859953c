"""The public surface: these names, documented, and light to import."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import fedmerdel

NAMES = [
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


# Named in what a public function or method returns, and not exported: each should become public,
# or what returns it private.
def test_all_names_are_listed_here() -> None:
    assert fedmerdel.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_documented(name: str) -> None:
    public = getattr(fedmerdel, name)
    assert inspect.getdoc(public)
    assert public.__doc__ is not None  # its own, not its base's


def public_functions() -> Iterator[tuple[str, Any]]:
    """Every public function, and every public method of a public class, with its name."""
    for name in NAMES:
        public = getattr(fedmerdel, name)
        if inspect.isfunction(public):
            yield name, public
        members = public.__all__ if inspect.ismodule(public) else dir(public)
        for member in members if not inspect.isfunction(public) else ():
            found = inspect.getattr_static(public, member)
            found = inspect.unwrap(getattr(found, "__func__", found))
            if not member.startswith("_") and inspect.isfunction(found):
                yield f"{name}.{member}", found


def own_types() -> dict[str, type]:
    """Every class of the package by its name."""
    modules = pkgutil.walk_packages(fedmerdel.__path__, "fedmerdel.")
    return {
        name: found
        for module in modules
        for name, found in vars(importlib.import_module(module.name)).items()
        if inspect.isclass(found) and found.__module__.startswith("fedmerdel.")
    }


def test_whatever_is_returned_is_public_too() -> None:
    """A user who gets an object can name its type, in an annotation or in `isinstance`."""
    own, returned = own_types(), {}
    for where, function in public_functions():
        if function.__module__.startswith("fedmerdel."):
            for word in re.findall(r"\w+", str(function.__annotations__.get("return"))):
                if word in own:
                    returned.setdefault(word, where)
    # What is surely there, so that looking has found something.
    assert {"Federation", "Reply", "Cluster", "Round", "ModelTable"} <= set(returned)
    hidden = {name: where for name, where in returned.items() if name not in NAMES}
    assert not hidden


def test_public_methods_are_documented() -> None:
    for name, method in vars(fedmerdel.MerDel).items():
        if callable(method) and not name.startswith("_"):
            assert method.__doc__, name
    for where, function in public_functions():
        if function.__module__.startswith("fedmerdel."):
            assert inspect.getdoc(function), where


def test_errors_have_one_base() -> None:
    errors = [fedmerdel.DataError, fedmerdel.FileError, fedmerdel.OptionError]
    assert all(issubclass(error, fedmerdel.FedMerDelError) for error in errors)
    assert issubclass(fedmerdel.ConstantColumnWarning, fedmerdel.FedMerDelWarning)


def test_the_version_is_that_of_the_package() -> None:
    assert fedmerdel.__version__ == importlib.metadata.version("fedmerdel")


def test_importing_needs_no_heavy_package() -> None:
    """They are imported where they are used.

    scikit-learn looks for pandas, which takes pyarrow along; so being loaded proves nothing,
    and here none of them can be loaded at all.
    """
    code = (
        "import sys\n"
        "for name in ('matplotlib', 'pandas', 'polars', 'pyarrow', 'rich'):\n"
        "    sys.modules[name] = None\n"
        "import fedmerdel\n"
        "fedmerdel.plot.heatmap\n"
        "print(fedmerdel.MerDel().max_clusters)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout.strip()) == (0, "auto"), found.stderr
