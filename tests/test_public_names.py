"""The public surface: these names, documented, and light to import."""

from __future__ import annotations

import importlib.metadata
import inspect
import subprocess
import sys

import pytest

import fedmerdel

NAMES = [
    "Ancestor",
    "Assignment",
    "Broadcast",
    "Codebook",
    "Consensus",
    "ConstantColumnWarning",
    "DataError",
    "Round",
    "FedMerDel",
    "FedMerDelError",
    "FedMerDelWarning",
    "FileError",
    "GlobalModel",
    "MerDel",
    "ModelRow",
    "ModelTable",
    "Move",
    "NotConvergedWarning",
    "OptionError",
    "Policy",
    "SimulatedTable",
    "SiteSummary",
    "Stability",
    "Study",
    "Variable",
    "assign",
    "bayes_labels",
    "consensus",
    "custom_policy",
    "draft_study",
    "fit_site",
    "merge_onto",
    "merge_sites",
    "model_table",
    "plot",
    "policy_named",
    "score_samples",
    "simulate",
    "stability",
    "update_site",
]


def test_all_names_are_listed_here() -> None:
    assert fedmerdel.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_documented(name: str) -> None:
    public = getattr(fedmerdel, name)
    assert inspect.getdoc(public)
    assert public.__doc__ is not None  # its own, not its base's


def test_public_methods_are_documented() -> None:
    for name, method in vars(fedmerdel.MerDel).items():
        if callable(method) and not name.startswith("_"):
            assert method.__doc__, name


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
    assert (found.returncode, found.stdout.strip()) == (0, "20"), found.stderr
