"""The numbers that steer searches: what changes when each is another one.

One line a constant and value. A constant without a line here has its reason in
`tests/test_constants.py`, which finds all of them.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple

import numpy as np
from numba import njit

from benchmarks.constant_settings import SETTINGS, Outcome
from benchmarks.measure import Finding, Report, instead, one_core
from fedmerdel.errors import FedMerDelWarning

NOTE = """\
Each constant with its value (*is*) and with another (*tried*), on the same tables from the same
seeds; changes of the mean. *Fits changed*: other labels, or other variables or likelihoods where
these are the result. *Nats a row*: the ELBO; of rows held out where the prior itself is another; of
all rows under the merged model for merges, hidden counts, sites and batches; the log-likelihood for
classes. *Score*: ARI; F1 of the variables that tell clusters apart; for classes the share of starts
that reach the best. *Work* is counted, not timed: passes over the rows, rounds, or evaluations
of a cluster's evidence (merges, hidden counts)."""


class Constant(NamedTuple):
    """A number of the package, other values of it, and where they are tried.

    Attributes
    ----------
    module, name : str
        Where it is, below `fedmerdel`.
    others : tuple of float
        Values to try: less and more.
    setting : str
        What is fitted: a name in `SETTINGS`.
    """

    module: str
    name: str
    others: tuple[float, ...]
    setting: str


CONSTANTS = tuple(
    Constant(*entry)
    for entry in (
        ("fitting.adaptive", "ROWS_PER_CLUSTER", (25, 400), "fits"),
        ("fitting.adaptive", "GROWTH", (2, 64), "fits"),
        ("fitting.adaptive", "CLIMB", (0.02, 0.5), "fits"),
        ("fitting.ascent", "SLOW", (0.5, 0.95), "narrow"),
        ("fitting.ascent", "SLOW_PASSES", (1, 8), "narrow"),
        ("fitting.ascent", "WINDOW", (2, 30), "narrow"),
        ("fitting.fit", "START_WORK", (1e6, 1e8), "fits"),
        ("fitting.fit", "FEW_PASSES", (5, 80), "fits"),
        ("fitting.fit", "MOST_STARTS", (1, 12), "fits"),
        ("fitting.adaptive", "NEARLY_ALL", (0.7, 1.0), "room"),
        ("sums.components", "FIRST_ROOM", (5, 80), "room"),
        ("fitting.adaptive", "CLIMB_SHARE", (0.0, 1.0), "fits"),
        ("fitting.adaptive", "DIVIDE_STEPS", (1, 8), "fits"),
        ("fitting.adaptive", "SMALLEST_HALF", (1.0, 16.0), "fits"),
        ("fitting.moves", "TRIAL_PAIRS", (1, 12), "moves"),
        ("fitting.moves", "HORIZON", (2, 40), "moves"),
        ("fitting.moves", "HALVES_STEPS", (2, 24), "fits"),
        ("fitting.moves", "SMALL_CLUSTER", (0.0125, 0.2), "fits"),
        ("fitting.moves", "DYING", (0.1, 10.0), "fits"),
        ("fitting.halving", "POWER_STEPS", (1, 16), "fits"),
        ("fitting.halving", "FIRM", (0.75, 12.0), "fits"),
        ("fitting.halving", "RARE", (1.0, 16.0), "fits"),
        ("options", "ROW_TOLERANCE", (1e-6, 1e-4), "fits"),
        ("options", "SITE_TOLERANCE", (1e-5, 1e-2), "sites"),
        ("options", "SITE_START_ROWS", (500, 8000), "sites"),
        ("options", "SITE_MOST_STARTS", (1, 12), "sites"),
        ("sums.strengths", "STEPS", (1, 12), "fits"),
        ("sums.strengths", "LONGEST", (0.4, 6.0), "fits"),
        ("sums.strengths", "STILL", (0.0025, 0.04), "fits"),
        ("sums.strengths", "HALVINGS", (1, 20), "fits"),
        ("sums.strengths", "LEAST", (1e-4, 1.0), "held out"),
        ("sums.strengths", "MOST", (100.0, 1e8), "held out"),
        ("sums.strengths", "COMMON", (0.75, 12.0), "held out"),
        ("sums.strengths", "COMMON_SPREAD", (0.25, 4.0), "held out"),
        ("sums.strengths", "SPREAD", (0.75, 12.0), "held out"),
        ("sums.strengths", "WIDE", (2.5, 40.0), "held out"),
        ("sums.strengths", "LOWEST", (0.005, 0.08), "held out"),
        ("sums.strengths", "HIGHEST", (0.5, 4.0), "held out"),
        ("sums.strengths", "HALF", (0.2, 1.0), "held out"),
        ("sums.strengths", "FEW", (5, 80), "held out"),
        ("sums.learning", "LOWER", (0.1, 0.9), "held out"),
        ("sums.strengths", "DOUBT", (0.0, 12.0), "variables"),
        ("sums.selection", "LEAP", (0.0, 36.0), "selection"),
        ("sums.learning", "MOST_UPDATES", (1, 400), "merges"),
        ("sums.search", "CLEAR", (0.0, 0.2), "merges"),
        ("sums.search", "BRANCH", (2, 32), "merges"),
        ("sums.extrapolation", "MEMORY", (1, 8), "rounds"),
        ("sums.extrapolation", "CAUTION", (1e-6, 1.0), "rounds"),
        ("centre.rounds", "PATIENCE", (3, 48), "rounds"),
        ("centre.rounds", "LEAST_GAIN", (0.0, 10.0), "rounds"),
        ("fitting.halving", "LOCAL_STEPS", (3, 48), "rounds"),
        ("centre.run", "QUIET", (1e-6, 1e-4), "rounds"),
        ("centre.run", "QUIET_ROUNDS", (2, 24), "rounds"),
        ("centre.filling", "STEPS", (1, 40), "hidden"),
        ("release.hidden", "TILTS", (1, 40), "hidden"),
        ("site.assign", "KAPPA", (0.01, 100.0), "sites"),
        ("site.assign", "WEIGHT_PASSES", (1, 80), "sites"),
        ("estimators.batches", "ROWS_PER_BATCH", (1250, 20_000), "batches"),
        ("site.local_fit", "BATCH_PASSES", (1, 20), "large site"),
        ("sums.stretch", "KEPT", (0.0025, 0.04), "classes"),
        ("sums.stretch", "GROWTH", (1.3, 8.0), "classes"),
        ("fitting.classical", "WINDOW", (1, 20), "classes"),
        ("fitting.class_starts", "SEARCH_PASSES", (25, 400), "classes"),
        ("fitting.class_starts", "SEARCH_TOLERANCE", (2.5e-5, 4e-4), "classes"),
        ("fitting.class_starts", "LIKE_ITS_ROW", (0.125, 0.875), "classes"),
        ("fitting.initialise", "KMODES_STEPS", (2, 40), "paper"),
    )
)


def run() -> Report:
    """Try every constant in its setting."""
    usual = {}
    rows, idle = [], []
    with one_core(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FedMerDelWarning)
        for constant in CONSTANTS:
            setting = SETTINGS[constant.setting]
            if constant.setting not in usual:
                usual[constant.setting] = setting()
            changed = 0
            for value in constant.others:
                with changed_to(constant, value):
                    found = setting()
                differ, cells = _compared(usual[constant.setting], found)
                changed += differ
                rows.append([*_named(constant), f"{value:g}", *cells])
            if not changed:
                idle.append(f"{constant.module}.{constant.name}")
    findings = [
        Finding(
            "constants that change nothing whatever, less or more",
            "none",
            ", ".join(idle) or "none",
            not idle,
        )
    ]
    header = ["constant", "is", "setting", "tried", "fits changed", "nats a row", "score"]
    header += ["clusters", "work, %"]
    return Report(findings, header, rows, NOTE + _levels_of(usual))


def _named(constant: Constant) -> list[str]:
    value = getattr(_module(constant), constant.name)
    return [f"`{constant.module}.{constant.name}`", f"{value:g}", constant.setting]


def _compared(usual: list[Outcome], found: list[Outcome]) -> tuple[int, list[str]]:
    """Return how many fits or their work changed, and the mean changes."""
    both = list(zip(usual, found, strict=True))
    ended = sum(a.mark != b.mark for a, b in both)
    differ = sum(a.mark != b.mark or a.work != b.work for a, b in both)
    nats, score, clusters = (
        float(np.mean([getattr(b, part) - getattr(a, part) for a, b in both]))
        for part in ("nats", "score", "clusters")
    )
    work = 100 * (sum(b.work for _, b in both) / sum(a.work for a, _ in both) - 1)
    cells = [f"{nats:+.5f}", f"{score:+.4f}", f"{clusters:+.2f}", f"{work:+.1f}"]
    return differ, [f"{ended} of {len(both)}", *cells]


def _levels_of(usual: dict[str, list[Outcome]]) -> str:
    told = [
        f"{name} {np.mean([o.nats for o in found]):.4f}, {np.mean([o.score for o in found]):.3f}, "
        f"{np.mean([o.clusters for o in found]):.1f}, {np.mean([o.work for o in found]):.1f}"
        for name, found in usual.items()
    ]
    return "\n\nAs things are (nats, score, clusters, work): " + "; ".join(told) + "."


def _module(constant: Constant) -> ModuleType:
    return import_module(f"fedmerdel.{constant.module}")


@contextmanager
def changed_to(constant: Constant, value: float) -> Iterator[None]:
    """Give a constant another value, wherever it is known by its name.

    Kernels were compiled with the value that it had: those that read it are compiled anew.
    """
    module = _module(constant)
    holders = [module, *_importers(module, constant.name)]
    with ExitStack() as stack:
        for holder in holders:
            stack.enter_context(instead(holder, constant.name, value))
        for holder in holders:
            for name, function in _kernels_reading(holder, constant.name):
                # Not from the cache on disk: that does not know of constants.
                anew = njit(nogil=True, fastmath={"contract"})(function)
                stack.enter_context(instead(holder, name, anew))
        yield


def _kernels_reading(module: ModuleType, constant: str) -> list[tuple[str, FunctionType]]:
    """Return the compiled functions of a module that read a constant, as they were written."""
    written = {name: getattr(part, "py_func", None) for name, part in vars(module).items()}
    return [
        (name, function)
        for name, function in written.items()
        if isinstance(function, FunctionType)
        and function.__module__ == module.__name__
        and constant in function.__code__.co_names
    ]


def _importers(module: ModuleType, name: str) -> Iterator[ModuleType]:
    """Yield the loaded modules that import a name from a module."""
    for other in list(sys.modules.values()):
        if not getattr(other, "__name__", "").startswith("fedmerdel.") or not other.__file__:
            continue
        imports = {
            alias.name
            for node in ast.walk(ast.parse(Path(other.__file__).read_text()))
            if isinstance(node, ast.ImportFrom) and node.module == module.__name__
            for alias in node.names
        }
        if name in imports:
            yield other
