"""Every number that steers a search is measured by a benchmark, or has its reason here.

`benchmarks/constants.py` changes each of its constants both ways, on tables where it can
matter. What is not there needs a line below; a test that is named in it notices a change.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from numbers import Real
from pathlib import Path

import numpy as np
from benchmarks.constants import CONSTANTS

import fedmerdel

HOME = Path(fedmerdel.__file__).parent
TESTS = Path(__file__).parent
LOOKED_AT = (
    "sums",
    "inference",
    "private",
    "summing",
    "fitting",
    "centre",
    "release",
    "site",
    "masking",
    "estimators",
    "options.py",
)

PAPER = "the paper's, appendix "
ROUNDING = "rounding: far below anything that counts, far above the last digit"
SPEED = "speed or memory only: the same result but for the order of sums"
ARITHMETIC = "arithmetic, against scipy or numpy: "
SHOWN = "what is told of a model, not how it is found"
FORMAT = "of a file's format"
BOUND = "a bound on memory, far above any file of ours: `make fuzz` measures it"

REASONS = {
    "estimators.federated.SUMS_ROUNDS": "more than any table here has needed to be quiet",
    "site.turn_site.MOST_OF_ALL": "the promise: test_turns.py::test_a_site_with_more_than_half",
    "summing.cells.SURE": "noise alone is taken for missing entries once in 30,000 variables",
    "summing.moves.DRAWS": SPEED + "; the spread is known to a quarter, beside SURELY",
    "summing.moves.SURELY": "test_summing.py::test_noise_alone_makes_no_split",
    "summing.moves.LIKELY": SPEED,
    "summing.moves.LEAST_GAIN": "less is nothing to anyone, as in sums.moving",
    "summing.question.ALIKE": ROUNDING,
    "summing.question.MOST_CELLS": "far above any table",
    "summing.rounds.CLUSTERS": "benchmarks/sums.py: chosen on seed 0 of three of its tables",
    "summing.rounds.SPREAD": "benchmarks/sums.py: chosen on seed 0 of three of its tables",
    "summing.rounds.RAREST": "a first guess only: rounds learn the rest",
    "summing.rounds.FIRST_MERGE": "benchmarks/sums.py: chosen on seed 0 of three of its tables",
    "summing.rounds.WHOLE_STEPS": "benchmarks/sums.py: chosen on seed 0 of three of its tables",
    "summing.rounds.MOVING": "of 5,000 numbers noise alone has 1.5 never, to any digit",
    "summing.rounds.DECAY": "between a half and 1: Delyon, Lavielle and Moulines 1999",
    "summing.rounds.FAINT": "noise alone is taken for a cluster once in 700 rounds",
    "summing.rounds.PATIENCE": "that of centre.rounds",
    "summing.rounds.QUIET": "benchmarks/sums.py: more rounds bring little",
    "summing.rounds.UNCUT": "a mark, no number",
    "summing.tally.STEPS": "fine beside any noise: test_summing.py::test_a_tally_is_its_vector",
    "summing.tally.SHARED": "ln 2",
    "summing.work.BEYOND": "an honest run is stopped once in a hundred million totals",
    "sums.similarity.MIN_CORRELATION": PAPER + "C.1",
    "sums.search.N_CANDIDATES": PAPER + "D.1",
    "sums.search.REJECTIONS": PAPER + "D.1",
    "sums.selection.A": PAPER + "G.2",
    "fitting.paper.N_CANDIDATES": PAPER + "C",
    "fitting.paper.SMALL_CLUSTER": PAPER + "C.2",
    "fitting.paper.STILL_PASSES": PAPER + "C",
    "options.PAPER_TOLERANCE": PAPER + "G.2",
    "fitting.class_starts.ALPHA": PAPER + "G.2: the default of `MerDel`",
    "inference.cluster_worth.N_PARTNERS": SHOWN
    + ": test_cluster_worth.py::test_more_partners_change_nothing",
    "inference.cluster_worth.TOUCHED": SPEED
    + ": test_cluster_worth.py::test_rows_far_from_a_merge_change_nothing",
    "inference.cluster_worth.NEXT_TO_NOTHING": "so that nothing is divided by 0",
    "estimators.federation_stability.N_JUDGES": SHOWN,
    "estimators.made_up_sites.PART": SPEED,
    "estimators.made_up_sites.COMPLETE": ROUNDING,
    "sums.agreement.SURVIVED": "Hennig's (2007)",
    "sums.agreement.BITS": "derived: ln 2",
    "estimators.replicates.DRAWN": "derived: 1 - 1/e",
    "sums.extrapolation.ALIKE": ROUNDING
    + ": test_extrapolation.py::test_steps_that_differ_by_rounding_lead_where_the_last_led",
    "sums.learning.STILL": "tested by test_learned_merges.py::"
    "test_a_prior_has_settled_where_more_learning_changes_nothing",
    "sums.moving.LEAST_GAIN": ROUNDING,
    "sums.pairs.NEVER": "a mark, not a number",
    "fitting.fit.ROUNDING": ROUNDING,
    "release.exact.ROUNDING": ROUNDING,
    "release.cells.DUST": ROUNDING,
    "release.few.TINY": "so that nothing is divided by 0",
    "centre.filling.RARE": "ICD-9, seed 0, loses 1.09 % with it, 1.10 % without any: "
    "test_filling.py::test_frequent_levels_are_no_burden",
    "release.totals.GRID": "test_totals.py::test_a_finer_grid_changes_little",
    "release.totals.UPDATES": "test_totals.py::test_more_updates_change_little",
    "release.hidden.SWEEPS": "far more than it takes: test_check_tables.py::"
    "test_a_filled_table_keeps_its_lines_and_columns",
    "inference.check_counts.N_BINS": SHOWN,
    "release.thresholds.DOUBLINGS": "a bound on time: nothing is told beyond",
    "inference.check_counts.SURE": SHOWN,
    **{
        f"inference.conditions.{name}": "set on some tables, measured on others: "
        "test_fit_checks.py::test_error_rates_over_many_tables"
        for name in ("DEGREE", "LEAST_LEFT")
    },
    "release.hidden.OPINIONS": "test_reply_site finds fewer: the few rows of a small cluster",
    "release.bounds.FLOOR": "the kernel's, test_bounds.py",
    "centre.copies.INFORMATIVE": "a chance of equal counts by accident: test_lies.py",
    "centre.doubts.LEAST_SITES": "of two that differ nobody can say which is odd",
    **{
        f"centre.doubts.{name}": "set on some honest federations, measured on others: "
        "test_odd_sites.py::test_honest_sites_are_hardly_ever_odd"
        for name in (
            "ON_THE_LINE",
            "NEAR_THE_LINE",
            "MIDDLE",
            "LEAST_SHARE",
            "MISSED",
            "MANY_TIMES",
            "EMPTY",
            "MORE_EMPTY",
        )
    },
    **{
        f"centre.doubts.{name}": "set on drawn rates, measured on others: "
        "test_odd_sites.py::test_honest_rates_are_hardly_ever_odd"
        for name in ("FAR", "SPREAD")
    },
    "inference.margins.DUST": ROUNDING,
    "inference.corrected.STEPS": "they settle: test_outcome_rates.py, against the closed form",
    "inference.corrected.SETTLED": ROUNDING,
    "inference.corrected.EDGE": "so that a rate of 0 or 1 has a variance: test_outcome_rates.py",
    "inference.corrected.SINGULAR": ROUNDING,
    "inference.corrected.SURE": "rates of 0 and 1 with no variance: test_outcome_kinds.py",
    "inference.measures.STEP": "of differences: test_outcome_kinds.py, against derivatives",
    "inference.measures.THIN": "strata without rows: test_outcome_kinds.py",
    "inference.corrected.OPEN": "a weak prior: test_outcome_rates.py, against the closed form",
    **{
        f"inference.confusion.{name}": "rows drawn: test_outcome_rates.py, against all rows"
        for name in ("LEAST_DRAWN", "MOST_DRAWN", "OFTEN", "AT_SITES")
    },
    "inference.confusion.ENTRIES": "a bound on memory",
    "sums.prior.MOST_TOGETHER": "a bound on memory",
    "inference.cluster_errors.MOST_PARAMETERS": "a bound on time: test_cluster_errors.py",
    "inference.cluster_errors.PART": SPEED,
    **{
        f"inference.cluster_errors.{name}": "rows asked: test_cluster_errors.py, against all rows"
        for name in ("INFORMATION_ROWS", "BLOCK_ROWS")
    },
    **{
        f"summing.noise.{name}": "of the seeded sampler, which protects nobody: test_noise.py"
        for name in ("TABLE_SCALE", "FAR")
    },
    "summing.noise.LARGEST_SCALE": "a bound on what may be asked for",
    "private.budget.MOST_EPSILON": "a bound on what may be asked for",
    "private.budget.STILL": ROUNDING,
    "private.question.FINEST": "derived: rounding adds a half of one per cent of noise",
    **{
        f"private.rounds.{name}": "chosen on simulated tables of seeds from 100 and one split "
        "of ICD-9; `benchmarks.private` reports others"
        for name in (
            *("POWER", "ROW", "FIRST", "LEAST_MOMENTS", "MOST_MOMENTS", "CLEAR", "STARTED"),
            *("SEARCHED", "REFINED", "OUTCOMES", "LONGEST", "HIDDEN", "USUAL", "KEPT"),
        )
    },
    "private.rounds.MOST_WIDE": "a bound on time: noise for all pairs",
    "private.rounds.LEAST_MADE": "of made-up rows: fewer tell of no clusters at all",
    "private.rounds.MOST_MADE": "a bound on time",
    "private.rounds.SURE": "of the normal distribution: test_private_rounds.py::"
    "test_missing_entries_are_counted_as_such",
    "private.rounds.TINY": "so that nothing is divided by 0",
    "private.estimate.FLOOR": "so that no logarithm is of 0 or less",
    "private.estimate.EMPTY": "of the normal distribution: test_private_rounds.py::"
    "test_clusters_are_found",
    "private.moments.ABOVE": "of the eigenvalues of noise: a little above where they end",
    "private.moments.FILLED": "it settles; a bound on time",
    "private.moments.SPREAD": "of a random start: far enough apart to differ, near enough to move",
    "site.private_count.ROWS_AT_ONCE": "memory alone",
    "centre.outcomes.NO_ROWS": SHOWN,
    **{
        f"inference.regression.{name}": "a weak prior, rstanarm's: test_regression.py::"
        "test_patterns_that_tell_clusters_apart_leave_finite_effects"
        for name in ("SPREAD", "OPEN_SPREAD")
    },
    **{
        f"inference.regression.{name}": "it settles: test_regression.py::"
        "test_no_other_coefficients_are_better"
        for name in ("MOST_STEPS", "HALVINGS", "LONGEST")
    },
    "inference.regression.STILL": ROUNDING,
    "centre.covariates.ADDED_UP": "derived, and measured by test_covariates.py::"
    "test_counts_under_a_policy_are_as_far_from_the_rows_as_is_told",
    "inference.regression.TINY": "so that nothing is divided by 0",
    "fitting.covariates.MERGES_TRIED": "a bound on time: the likeliest by the levels come first",
    "estimators.covariates.MOST_WORK": "a bound on time: test_covariate_fit.py::"
    "test_of_many_rows_some_tell_how_sure_effects_are",
    "inference.guided.MOST_STEPS": "a bound on time: nothing is told beyond",
    "centre.doubts.Z": "the normal distribution's",
    "inference.outlying.TO_DEVIATION": "1 over the upper quartile of a normal variable",
    **{
        f"centre.doubts.{name}": "a bound on time: who judges, not how"
        for name in ("EACH_ALONE", "PARTS", "JUDGES")
    },
    "centre.step.DUST": ROUNDING,
    "centre.comparison.STRONG": SHOWN + ": odds of 20 to 1",
    "release.validation.MOST_CLUSTERS": FORMAT,
    "inference.transport.LEAST_EXPECTED": "the usual rule of chi-squared tests",
    "release.scores.LEAST_LIMIT": "a policy's; measured in validate-elsewhere.md",
    "release.scores.VARIABLES_PER_NAT": "a policy's: wide tables gain more nats a row",
    "site.validate_site.PARTS": "the usual number; test_validation.py scores with other rows' fits",
    "fitting.halving_kernels._DUST": ROUNDING,
    "fitting.classical.SMALLEST": ROUNDING,
    **{
        f"sums.special.{name}": ARITHMETIC + "test_special.py"
        for name in ("_SHIFT", "_SAME", "_HALF_LN_2PI", "_LAST", "_LN2_HIGH", "_LN2_LOW")
    },
    **{
        f"sums.special.{name}": "of the bits of a double, test_special.py"
        for name in ("_EXPONENT", "_MORE", "_TO_HALF", "_WHOLE", "_WHOLE_AND_MORE")
    },
    **{f"sums.special._L{i}": ARITHMETIC + "test_special.py" for i in range(1, 8)},
    **{
        f"fitting.kernels.{name}": ARITHMETIC + "test_kernels.py"
        for name in ("_LOG2_E", "_LN2_HIGH", "_LN2_LOW", "_ROUND", "_FLOOR")
    },
    **{f"fitting.kernels._C{i}": "derived: 1 / i!" for i in range(3, 14)},
    "fitting.kernels.BLOCK": SPEED,
    "fitting.passes.MIN_CHUNK": SPEED,
    "fitting.passes.MAX_CHUNKS": SPEED,
    "fitting.class_starts.FEW_ROWS": SPEED,
    "site.people.PEOPLE_ROWS": SPEED,
    "site.local_fit.BATCH_ROWS": "memory: a site with more rows than this is fitted in parts",
    "estimators.consensus.MOST_KINDS": "memory: with more, clusters are compared and not rows",
    "fitting.ascent.LEAST_PASSES": "a bound on time; a warning tells",
    "fitting.ascent.MOST_WORK": "a bound on time; a warning tells",
    "sums.components.AUTO_COMPONENTS": "a ceiling; a warning tells",
    "sums.components.PAPER_COMPONENTS": PAPER + "G.2",
    "sums.strengths.MANY": "for tables of over 600 variables: `benchmarks.floor` has such",
    "sums.stretch._TINY": ROUNDING,
    "fitting.kernels._FAINT": ROUNDING,
    "options.MOST_TOLERANCE": "a nat is what counts as the same; `benchmarks.convergence`",
    "sums.moving.SWEEPS": "a bound on time, against counts so large that rounding seems to gain",
    "sums.search.MOST_EXACT": "a bound on time: benchmarks/federation.py times both searches, "
    "and compares what they find",
    "sums.search.PRIOR_UPDATES": "a bound on time, as that of sweeps",
    "estimators.consensus.START_STREAM": "a name for a stream of random numbers",
    "centre.rounds.UNCUT": "a mark, not a number",
    **{
        f"masking.{name}": "a bound on memory and time: "
        "test_masking_attacks.py::test_ten_megabytes_of_junk"
        for name in (
            "messages.MOST_SMALL",
            "messages.MOST_SITES",
            "masks.MOST_NUMBERS",
            "messages.MOST_QUESTION",
            "centre_part.MOST_BYTES",
            "folders.MOST_STATE",
        )
    },
    "masking.messages.MOST_ATTEMPTS": "so that few seeds of a run can be chosen among",
    "masking.spelling.VERSION": FORMAT,
    "masking.masks.SECRET": "of X25519, SHA-256 and ChaCha20",
    "masking.masks.WORD": "of int64",
    "masking.work.LEAST": "the default of the promise: a choice, not a measurement",
    "masking.work.FEWEST": "derived: of two sites each can subtract its own",
    "site.ledger.MOST_LEDGER": BOUND,
    "site.ledger.MOST_LINE": BOUND,
    "site.people.LEAST_SHARE": "a definition of disclosure control, not of a search",
    "sums.profile.ONE_ROW": SHOWN,
    "centre.report.MOST_VARIABLES": SHOWN,
    "inference.intervals.LEVEL": SHOWN,
    "inference.information.PRIOR_ROWS": PAPER + "G.2: 1 / L_j for each level",
    "inference.information.MOST_LOST": "a bound, so that shares nobody knows have an interval: "
    "test_information.py::test_more_is_never_lost_of_shares_than_there_is",
    "inference.information.DUST": ROUNDING,
    "inference.information.ROUNDING": ROUNDING,
    "centre.origins.MOST_BLOCKS": SHOWN,
    "centre.merge.MOST_SITES": SHOWN,
    "estimators.model_table.SAME_NATS": SHOWN,
    "estimators.model_table.SAME_SHARE": SHOWN,
    "release.note.WIDTH": FORMAT,
    "release.review_page.N_SMALLEST": SHOWN,
    "release.risk.MUCH": SHOWN,
    "release.risk.TINY": "so that no logarithm is of 0",
    "release.risk.N_ANGLES": ARITHMETIC
    + "test_risk.py::test_the_formula_is_the_mean_over_drawn_pairs",
    "release.grid.MOST_ROWS": BOUND,
    "release.grid.MOST_NUMBERS": BOUND,
    "centre.place.VERSION": FORMAT,
    "sums.components.MOST_COMPONENTS": "a bound on what a file may ask for: no table has as many",
    "sums.prior.SMALLEST": "a bound on what may be asked for",
    "sums.prior.ROUNDING": ROUNDING,
    "sums.prior.LARGEST": "a bound on what may be asked for",
    "site.labels_file.OWNER_ONLY": FORMAT,
}


def assigned(source: str) -> Iterator[str]:
    """Names in capitals that a module gives a value to."""
    for node in ast.parse(source).body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        for part in (inner for target in targets if target for inner in ast.walk(target)):
            if isinstance(part, ast.Name) and part.id.isupper():
                yield part.id


def constants() -> dict[str, float]:
    """All numbers at the top of the modules, by `module.NAME`."""
    found = {}
    paths = (path for part in LOOKED_AT for path in (HOME / part).rglob("*.py"))
    for path in (*paths, *(HOME / part for part in LOOKED_AT if part.endswith(".py"))):
        module = ".".join(path.relative_to(HOME).with_suffix("").parts)
        if path.stem == "__init__":
            continue
        for name in assigned(path.read_text()):
            value = getattr(import_module(f"fedmerdel.{module}"), name)
            if isinstance(value, Real | np.number) and not isinstance(value, bool):
                found[f"{module}.{name}"] = float(value)
    return found


def test_every_constant_is_measured_or_has_a_reason() -> None:
    measured = [f"{constant.module}.{constant.name}" for constant in CONSTANTS]
    assert len(set(measured)) == len(measured)
    assert not set(measured) & set(REASONS)
    found = set(constants())
    unexplained = found - set(measured) - set(REASONS)
    assert not unexplained, "add these to benchmarks/constants.py, or a reason to this file"
    assert not (set(measured) | set(REASONS)) - found, "these are gone: take them out here too"


def test_benchmarks_try_less_and_more() -> None:
    found = constants()
    for constant in CONSTANTS:
        value = found[f"{constant.module}.{constant.name}"]
        assert min(constant.others) < value < max(constant.others)


def test_tests_that_are_named_exist() -> None:
    for reason in REASONS.values():
        for file, name in re.findall(r"(test_\w+\.py)(?:::(\w+))?", reason):
            assert f"def {name}" in (TESTS / file).read_text()


def test_tuples_are_looked_into_and_words_are_not() -> None:
    source = 'A, B_C = 1, 2.0\nD: int = 3\nlower = 4\nE = "x"\ndef f():\n    G = 1\n'
    assert list(assigned(source)) == ["A", "B_C", "D", "E"]
    assert {"sums.strengths.LEAST", "sums.strengths.MOST"} <= set(constants())
