"""The study: everything that its sites agree on before they fit."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, get_args

from fedmerdel.errors import DataError, OptionError
from fedmerdel.files import check_earlier, check_place, write_text
from fedmerdel.study.codebook import (
    UNSEEN,
    Codebook,
    Missing,
    Variable,
    check_no_missing_level,
    check_seen,
)
from fedmerdel.study.guide import check_not_selected
from fedmerdel.study.level_prior import checked_alpha, checked_prior, chosen_way
from fedmerdel.study.outcome import (
    COVARIATES,
    Outcome,
    checked_covariates,
    checked_outcomes,
    patterns,
)
from fedmerdel.study.pairs import check_paired, paired_names
from fedmerdel.study.policy import CUSTOM, POLICIES, Policy
from fedmerdel.study.promise import COUNTS, Promise
from fedmerdel.study.site_keys import checked_keys
from fedmerdel.study.study_file import FORMAT, SECTION_OF, is_study, read_study, study_bytes
from fedmerdel.study.study_text import study_text
from fedmerdel.sums.components import (
    AUTO,
    MaxClusters,
    checked_max_clusters,
    component_count,
)
from fedmerdel.sums.similarity import MergeCriterion
from fedmerdel.texts import is_seen

RECIPES = ("default", "paper")
MISSING_WAYS = get_args(Missing)

MOST_ROUNDS = 1000
"""More than anyone goes; each is one more release about the same rows."""

LARGEST_SEED = 2**32 - 1
"""Largest number that every generator in use takes as a seed."""


@dataclass(frozen=True)
class Study:
    """What the sites of a federated study agree on.

    Parameters
    ----------
    name : str
        Name of the study.
    codebook : Codebook
        Its variables and their levels, in order.
    max_clusters : int or "auto", default="auto"
        Most clusters that a site may find. "auto" gives a fit room for 20 at first, and for
        twice as many whenever they are used up, to 200, the components of the prior at every
        site; recipe "paper" has 20.
    recipe : {"default", "paper"}, default="default"
        How a site fits; see `MerDel`.
    laps : int or None, default=5
        Recipe "paper": passes before each pair of proposals; None makes no proposals.
    merge_criterion : {"correlation", "kl", "bhattacharyya", "random"}, default="correlation"
        Recipe "paper": how the pair to merge is chosen.
    alpha : float, default=0.01
        Dirichlet parameter of each cluster's weight.
    prior : {"learned", "fixed"}, float or sequence, default=None
        What is expected of the levels; see `MerDel`. None is "learned", but "fixed" with
        recipe "paper" or with variable selection. Kept as a name, or as one number for
        each level in the order of the codebook.
    variable_selection : bool, default=False
        Select variables as in the paper; see `MerDel`.
    missing : {"ignore", "level", "error"}, default="ignore"
        What missing entries of variables are. "ignore" leaves them out of the likelihood;
        the row stays. "level" makes missing a level of its own, ``"(missing)"``, of every
        variable, so that all sites have the same levels whichever have missing entries;
        `codebook` then has it. "error" refuses a table that has any.
    policy : Policy, default=POLICIES["opensafely"]
        The counts that may leave a site.
    promise : Promise, default=Promise("counts")
        What leaves a site: its own counts, or numbers of which only totals can be read.
    rounds : int, default=0
        Broadcasts that a site replies to at most, after its first release; under another promise
        than "counts" the rounds of all sites together. Under a policy that hides anything, "counts"
        has rounds only if it says ``trusts_centre``.
    site_shares : bool, default=False
        Whether the model that sites get tells the share of each site's rows in each cluster.
    checks : bool, default=False
        Whether sites tell tables of all their rows with which the model is checked: numbers of
        conditions, how sure rows are, and rows by two variables at a time; see `Checks`.
    check_pairs : sequence of str, default=()
        Variables of which each two are told then. Empty takes all, or as many as make 20,000
        cells, in the order of the codebook.
    outcomes : sequence of str or Outcome, default=()
        What is counted in each cluster, but not used to find the clusters. A name alone is a
        yes/no column. Kept as `Outcome`.
    covariates : sequence of Variable, or mappings with name and levels, default=()
        What membership of the clusters may depend on, such as age and sex: their patterns are
        counted in each cluster, for a regression at the centre. They don't help to find clusters.
    row_id : str or None, default=None
        Column that says which row is which. It never leaves a site.
    weight : str or None, default=None
        Column that holds the weight of each row in a site's fit; see `MerDel.fit`.
        Disclosure control counts rows, whatever their weights.
    labels : mapping of str to str, or pairs of these, default=()
        What people call a variable. Kept as pairs, in the order of the codebook.
    seed : int, default=0
        Makes a fit the same every time.
    centre_key : str or None, default=None
        The centre's public key, as ``fedmerdel key`` shows it. With keys, what is sent must be
        signed by who made it, and anything else is refused.
    site_keys : mapping of str to str, or pairs of these, default=()
        The public key of each site by its name: of all that take part, or of none. Kept as
        pairs, in the order of the names.

    Raises
    ------
    OptionError
        If a field has a value outside what it takes; the message begins with its name.
    DataError
        If fields do not fit the codebook or each other.
    """

    name: str
    codebook: Codebook
    _: KW_ONLY
    max_clusters: MaxClusters = AUTO
    recipe: Literal["default", "paper"] = "default"
    laps: int | None = 5
    merge_criterion: MergeCriterion = "correlation"
    alpha: float = 0.01
    prior: Any = None
    variable_selection: bool = False
    missing: Missing = "ignore"
    policy: Policy = POLICIES["opensafely"]
    promise: Promise = COUNTS
    rounds: int = 0
    site_shares: bool = False
    checks: bool = False
    check_pairs: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    covariates: tuple[Variable, ...] = ()
    row_id: str | None = None
    weight: str | None = None
    labels: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    seed: int = 0
    centre_key: str | None = None
    site_keys: Mapping[str, str] | tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no site could work with; lists become tuples, and numbers plain."""
        _check_text("name", self.name)
        if not isinstance(self.codebook, Codebook):
            raise OptionError("codebook: give a Codebook")
        self._set("max_clusters", checked_max_clusters(self.max_clusters))
        self._set("seed", _whole("seed", self.seed, 0, LARGEST_SEED))
        self._set("rounds", _whole("rounds", self.rounds, 0, MOST_ROUNDS))
        if self.laps is not None:
            self._set("laps", _whole("laps", self.laps, 0))
        _choice("recipe", self.recipe, RECIPES)
        _choice("merge_criterion", self.merge_criterion, get_args(MergeCriterion))
        _choice("missing", self.missing, MISSING_WAYS)
        self._set("codebook", self._checked_codebook())
        self._set("alpha", checked_alpha(self.alpha))
        for field in ("variable_selection", "site_shares", "checks"):
            if not isinstance(getattr(self, field), bool):
                raise OptionError(f"{field}: give true or false")
        check_not_selected(self.codebook, self.variable_selection)
        way = chosen_way(self.prior, self.recipe, self.variable_selection)
        self._set("prior", checked_prior(way, self.codebook))
        if not isinstance(self.policy, Policy):
            raise OptionError("policy: give a Policy, from policy_named or custom_policy")
        if self.policy.name != CUSTOM and self.policy != POLICIES.get(self.policy.name):
            # Its name is what the file keeps, so other numbers would be lost.
            raise OptionError(
                "policy: it is not the one of this name: use policy_named, or custom_policy for "
                "numbers of your own"
            )
        if not isinstance(self.promise, Promise):
            raise OptionError("promise: give a Promise")
        self._set("outcomes", checked_outcomes(self.outcomes))
        self._set("covariates", checked_covariates(self.covariates))
        self._set("check_pairs", _names("check_pairs", self.check_pairs))
        check_paired(self.codebook, self.checks, self.check_pairs)
        for field in ("row_id", "weight"):
            if getattr(self, field) is not None:
                _check_text(field, getattr(self, field))
        self._set("labels", self._checked_labels())
        self._set("site_keys", checked_keys(self.centre_key, self.site_keys))
        self._check_columns()
        self._check_characters()
        self._check_promise()

    @cached_property
    def hash(self) -> str:
        """What every output of the study carries, so that only like is put with like.

        SHA-256, in hexadecimal, of all that changes a result or what it means, and of
        the version of the format. Left out are the labels, the row id, and a policy's
        source: a site may have them in its own language, or its own name for the column.
        Comments, spelling and the order of a file's lines do not count either.
        """
        content = {
            "format": FORMAT,
            "name": self.name,
            "codebook": self.codebook.to_dict(),
            "max_clusters": self.max_clusters,
            "recipe": self.recipe,
            "laps": self.laps,
            "merge_criterion": self.merge_criterion,
            "alpha": self.alpha,
            "prior": self.prior if isinstance(self.prior, str) else list(self.prior),
            "variable_selection": self.variable_selection,
            "policy": [self.policy.name, self.policy.threshold, self.policy.rounding],
            "rounds": self.rounds,
            "site_shares": self.site_shares,
            "outcomes": [outcome.entry for outcome in self.outcomes],
            "missing": self.missing,
            "weight": self.weight,
            "seed": self.seed,
        }
        if self.checks:
            content["checks"] = list(self.checked)
        if self.covariates:
            content["covariates"] = [[each.name, list(each.levels)] for each in self.covariates]
        if self.promise != COUNTS:
            content["promise"] = self.promise.entries
        if self.site_keys:  # without keys, a study has the hash that it had before there were any
            content["keys"] = [self.centre_key, dict(self.site_keys)]
        # ASCII and sorted, with Python's shortest text of each float: the same anywhere.
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    @property
    def n_components(self) -> int:
        """Components of the prior at every site, which are the most clusters that it finds."""
        return component_count(self.max_clusters, self.recipe)

    @property
    def checked(self) -> tuple[str, ...]:
        """Variables of which each two are told, where the study asks for checks."""
        return paired_names(self.codebook, self.check_pairs) if self.checks else ()

    @cached_property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """What is counted in each cluster beside the variables: names of the cells of each."""
        found = {each.name: each.table for each in self.outcomes}
        if self.covariates:
            found[COVARIATES] = patterns(self.covariates)
        return found

    @property
    def parts(self) -> frozenset[str]:
        """Outcomes of which a row is in several cells, by parts."""
        return frozenset(each.name for each in self.outcomes if each.kind == "number")

    @property
    def measures(self) -> dict[str, Outcome]:
        """The outcome of each rate or mean that the model tells of a cluster, by its name."""
        return {name: outcome for outcome in self.outcomes for name in outcome.measures}

    def label(self, variable: str) -> str:
        """Return what people call a variable: its label, or its name, and whether it guides."""
        label = dict(self.labels).get(variable, variable)
        guides = {each.name: each for each in self.codebook.guides}
        return guides[variable].called(label) if variable in guides else label

    def key_of(self, site: str) -> str | None:
        """Return the public key that a site must sign with; None if the study lists no keys.

        Raises
        ------
        DataError
            If it lists keys of others only: the site can't take part.
        """
        if not self.site_keys:
            return None
        if site not in dict(self.site_keys):
            raise DataError(
                f"site {site!r} is not among the sites whose keys the study lists: check its name, "
                "or agree on a study that lists its key"
            )
        return dict(self.site_keys)[site]

    def check_counts(self) -> None:
        """Refuse to tell a site's own counts where the study promises that nobody sees them."""
        if self.promise.adds_up:
            raise DataError(
                f"study {self.name!r} promises {self.promise.kind!r}: no site's own counts leave "
                "it; take turns instead (fedmerdel turn)"
            )

    def to_text(self) -> str:
        """Return the TOML text that `save` writes."""
        return study_text(self.codebook, self.policy, vars(self))

    def save(self, path: str | Path) -> None:
        """Write a TOML file that a person can read and change.

        Parameters
        ----------
        path : str or Path
            An earlier study of that name is replaced once the new one is complete; any other
            file stays, and is refused.

        Raises
        ------
        FileError
            If another file is there, or nothing can be written; an earlier file then stays.
        """
        check_place(path)
        check_earlier(path, "study", is_study)
        write_text(path, self.to_text())

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a study from a TOML file.

        Raises
        ------
        FileError
            If the file can't be read, or is no TOML.
        DataError
            If a section, key or value can't be used; the message names all three.
        """
        return cls.from_bytes(study_bytes(path), f"file {str(path)!r}")

    @classmethod
    def from_bytes(cls, content: bytes, where: str = "study") -> Study:
        """Read a study from the bytes of a TOML file, which messages call ``where``."""
        arguments = read_study(content, where)
        try:
            return cls(**arguments)
        except OptionError as error:
            section = SECTION_OF[str(error).partition(":")[0]]
            raise DataError(f"{where}: section [{section}]: {error}") from None
        except DataError as error:
            raise DataError(f"{where}: {error}") from None

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)

    def _checked_codebook(self) -> Codebook:
        """Return the codebook with the levels that the sites' counts have."""
        if self.missing == "level":
            return self.codebook.with_missing_level()
        check_no_missing_level(self.codebook)
        return self.codebook

    def _checked_labels(self) -> tuple[tuple[str, str], ...]:
        try:
            labels = dict(self.labels)
        except (TypeError, ValueError):
            raise OptionError("labels: give a label for each variable that has one") from None
        known = set(self.codebook.names)
        for variable, label in labels.items():
            if variable not in known:
                raise OptionError(f"labels: the codebook has no variable {variable!r}")
            _check_text("labels", label)
        return tuple((name, labels[name]) for name in self.codebook.names if name in labels)

    def _check_columns(self) -> None:
        variables = set(self.codebook.names)
        asked = [column for outcome in self.outcomes for column in outcome.columns]
        covariates = {each.name for each in self.covariates}
        for column in asked:
            if column in variables:
                raise DataError(
                    f"outcome {column!r} is a variable too: an outcome may not help to find the "
                    "clusters, so take it out of one of the two"
                )
        for name in covariates & variables:
            raise DataError(
                f"covariate {name!r} is a variable too: a variable helps to find the clusters, so "
                "take it out of one of the two"
            )
        self._check_apart()
        for field, beside in (("row_id", self.row_id), ("weight", self.weight)):
            for names, noun in (
                (variables, "a variable"),
                (asked, "an outcome"),
                (covariates, "a covariate"),
                ({v.name for each in self.outcomes for v in each.strata}, "a stratum"),
            ):
                if beside in names:
                    raise DataError(f"{field} {beside!r} is {noun} too: take it out of one of both")
        if self.weight is not None and self.weight == self.row_id:
            raise DataError(f"weight {self.weight!r} is the row_id too: take it out of one of both")

    def _check_apart(self) -> None:
        """Refuse tables of one column under a policy: told twice, what is hidden can be subtracted.

        Proposition 8 is of the cells of one table. Two tables of different columns have nothing
        but the clusters' rows in common.
        """
        if self.policy.smallest <= 1:  # nothing is hidden
            return
        told = [{name} for name in self.codebook.names]
        told += [{*each.columns, *(v.name for v in each.strata)} for each in self.outcomes]
        told.append({each.name for each in self.covariates})
        times = Counter(column for table in told for column in table)
        for column in (column for column, n in times.items() if n > 1):
            raise DataError(
                f"column {column!r} would be counted in two tables, and under policy "
                f"{self.policy.name!r} the two could be subtracted to find a small group: count it "
                "in one of them"
            )

    def _check_promise(self) -> None:
        """Refuse what needs one site's own numbers, where only totals can be read.

        Where each site's counts are, refuse rounds that hide nothing from a centre that lies.
        """
        if not self.promise.adds_up:
            if self.rounds and self.policy.smallest > 1 and not self.promise.trusts_centre:
                raise DataError(
                    "rounds: a centre that chooses the clusters could count the small groups that "
                    f"policy {self.policy.name!r} hides: read the threat model and write "
                    "trusts_centre = true in section [promise] (init: --trusts-centre), or take "
                    "promise 'sums'"
                )
            return
        for field, words in (
            ("site_shares", "tells each site's shares"),
            ("checks", "needs tables of each site"),
            ("weight", "would let one row count for many"),
            ("variable_selection", "needs each site's own fit"),
        ):
            if getattr(self, field):
                raise DataError(
                    f"{field}: it {words}, and under promise {self.promise.kind!r} only totals "
                    "over all sites are told: leave it out"
                )
        if self.recipe != "default":
            raise DataError(
                f"recipe: {self.recipe!r} is a fit at each site, and under promise "
                f"{self.promise.kind!r} there is none: take 'default'"
            )

    def _check_characters(self) -> None:
        texts = [("name", self.name), ("policy", self.policy.source)]
        texts += [("row_id", self.row_id or ""), ("weight", self.weight or "")]
        texts += [("outcomes", column) for each in self.outcomes for column in each.columns]
        texts += [("outcomes", cell) for cells in self.tables.values() for cell in cells]
        texts += [("covariates", each.name) for each in self.covariates]
        texts += [("strata", v.name) for each in self.outcomes for v in each.strata]
        texts += [("labels", label) for label in dict(self.labels).values()]
        texts += [("site_keys", site) for site in dict(self.site_keys)]
        columns = [text for v in self.codebook.variables for text in (v.name, *v.levels)]
        whole = "".join((*(text for _, text in texts), *columns))
        if any("\ud800" <= character <= "\udfff" for character in whole):
            raise DataError(
                "a name, level or label holds half a character (a lone surrogate), which no file "
                "can hold: write it again"
            )
        for field, text in texts:
            if not is_seen(text):
                raise DataError(f"{field}: {text!r} {UNSEEN}")
        check_seen(self.codebook)


def check_is_study(given: Any) -> None:
    """Refuse anything but a study, such as the path of its file."""
    if not isinstance(given, Study):
        raise OptionError("study: give a Study, such as Study.load reads")


def _check_text(field: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise OptionError(f"{field}: give a text that is not empty")


def _names(field: str, given: Any) -> tuple[str, ...]:
    # A text is a sequence of texts too, but hardly ever meant as one.
    if not isinstance(given, (tuple, list)):
        raise OptionError(f"{field}: give a list of names")
    for name in given:
        _check_text(field, name)
    if len(set(given)) < len(given):
        raise OptionError(f"{field}: a name is listed twice: list each once")
    return tuple(given)


def _choice(field: str, value: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise OptionError(f"{field}: give one of {', '.join(repr(choice) for choice in choices)}")


def _whole(field: str, value: Any, at_least: int, at_most: int | None = None) -> int:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < at_least or (at_most is not None and value > at_most):
        limit = f"at least {at_least}" if at_most is None else f"{at_least} to {at_most}"
        raise OptionError(f"{field}: give a whole number of {limit}")
    return int(value)
