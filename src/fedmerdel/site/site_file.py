"""A site's own file: which study it has approved, for which table, and how far it goes.

A study is what all agree on; this file is what one site agrees to. It stays at the site, and
decides there: nothing that arrives can change it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from fedmerdel.errors import DataError, OptionError
from fedmerdel.files import check_place, read_plain, write_text
from fedmerdel.keys import key_fingerprint
from fedmerdel.study.policy import CUSTOM, POLICIES, Policy, custom_policy, policy_named
from fedmerdel.study.site_keys import check_site_name
from fedmerdel.study.study import Study
from fedmerdel.study.study_file import toml_document
from fedmerdel.study.study_text import quoted
from fedmerdel.texts import MOST_TOML

SECTION = "site"

DIGITS = re.compile(r"[0-9]{30}")
"""A fingerprint without its gaps."""

Approval = Literal["person", "nobody"]

_TEXT = """\
# What this site has agreed to. It stays here, beside the ledger of what has left, and decides:
# nothing that arrives can change it. Paths are seen from this file.

[site]
# Name of this site.
name = {name}
# The table of rows.
table = {table}
# The study, and the hash of the one that was read and approved: another is refused.
study = {study}
approved = {approved}
# The weakest policy that is accepted: {policies}; or
# weakest_policy = {{threshold = 10, rounding = 5}}. A study with a weaker one is refused.
weakest_policy = {policy}
# Most rounds about this table, of all studies together.
most_rounds = {rounds}
# Greatest risk that someone's membership is guessed: of pairs of people the share that is told
# apart, where 0.5 is chance. A release above it is refused; review warns.
{risk}
# Who must agree before anything leaves: "person" or "nobody".
approve = {approve}
# The secret key that signs what leaves, if the study lists keys.
{key}
# Sites whose keys a person here has compared with their owners: under promise "sums" only these
# count towards the least number. By name, the 30 digits as the other site has read them out.
{confirmed}
"""


@dataclass(frozen=True)
class SiteFile:
    """What one site has agreed to.

    Attributes
    ----------
    name : str
        Name of the site.
    table : Path
        Its table of rows.
    study : Path
        The study's file.
    approved : str
        Hash of the study that was approved.
    weakest_policy : Policy
        A study's policy may not be weaker; see `Policy.not_weaker_than`.
    most_rounds : int
        Replies that may leave about this table, of all studies together.
    approve : {"person", "nobody"}
        Who must agree before anything leaves.
    key : Path or None
        The file of the secret key that signs what leaves.
    most_risk : float or None
        Greatest risk of a cluster of a release, see `release_risks`; None refuses none.
    confirmed : mapping of str to str
        Fingerprints of other sites' keys, as a person has heard them from their owners.
    home : Path
        The folder of this file, in which the ledger is; of a link, where it leads.
    """

    name: str
    table: Path
    study: Path
    approved: str
    weakest_policy: Policy
    most_rounds: int = 0
    approve: Approval = "person"
    key: Path | None = None
    most_risk: float | None = None
    confirmed: Mapping[str, str] = field(default_factory=dict)
    home: Path = field(default=Path(), repr=False)

    @classmethod
    def load(cls, path: str | Path) -> SiteFile:
        """Read a site's file.

        Raises
        ------
        FileError
            If it can't be read, or is no TOML.
        DataError
            If an entry can't be used; the message names it.
        """
        where = f"file {str(path)!r}"
        document = toml_document(read_plain(path, where, MOST_TOML), where)
        if set(document) != {SECTION} or not isinstance(document[SECTION], dict):
            raise DataError(f"{where}: a site's file has one section, [{SECTION}]")
        # Where a link leads: one site's file has one ledger.
        home = Path(os.path.realpath(path) if Path(path).is_symlink() else path).parent
        try:
            return cls(home=home, **_entries(document[SECTION], home))
        except (DataError, OptionError) as error:
            raise DataError(f"{where}: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write a file that a person can read and change; one that is there is not lost.

        Raises
        ------
        FileError
            If it can't be written.
        DataError
            If there is one already, or no site can have this name.
        """
        check_site_name(self.name)
        if Path(path).exists():
            raise DataError(f"file {str(path)!r} is there already: change it by hand")
        check_place(path)
        weakest = self.weakest_policy
        policy = quoted(weakest.name)
        if weakest.name == CUSTOM:
            policy = f"{{threshold = {weakest.threshold}, rounding = {weakest.rounding}}}"
        text = _TEXT.format(
            name=quoted(self.name),
            table=quoted(str(self.table)),
            study=quoted(str(self.study)),
            approved=quoted(self.approved),
            policies=", ".join(POLICIES),
            policy=policy,
            rounds=self.most_rounds,
            risk="# most_risk = 0.7" if self.most_risk is None else f"most_risk = {self.most_risk}",
            approve=quoted(self.approve),
            key='# key = "…"' if self.key is None else f"key = {quoted(str(self.key))}",
            confirmed=_confirmed_lines(self.confirmed),
        )
        write_text(path, text)

    def approved_study(self) -> Study:
        """Return the study, if it is the one that was approved, and not weaker than accepted.

        Raises
        ------
        DataError
            If it is another, or asks for more than this site agrees to.
        """
        study = Study.load(self.study)
        if study.hash != self.approved:
            raise DataError(
                f"study {str(self.study)!r} is not the one that this site approved, or was "
                "changed since: read it, and approve its hash in the site's file"
            )
        self.check_limits(study)
        return study

    def confirmed_keys(self, study: Study) -> frozenset[str]:
        """Return the keys of a study whose fingerprints a person here has confirmed.

        Raises
        ------
        DataError
            If a fingerprint is of no site, or of another key than the study lists.
        """
        found = set()
        for site, digits in self.confirmed.items():
            listed = study.key_of(site)
            if listed is None or "".join(key_fingerprint(listed).split()) != digits:
                raise DataError(
                    f"confirmed: the key that the study lists for {site!r} does not have this "
                    "fingerprint: compare it again with its owner, and agree to no sums before"
                )
            found.add(listed)
        return frozenset(found)

    def check_limits(self, study: Study) -> None:
        """Refuse a study that asks for more than this site agrees to."""
        if not study.policy.not_weaker_than(self.weakest_policy):
            raise DataError(
                f"the study's policy {study.policy} is weaker than {self.weakest_policy}, the "
                "weakest that this site accepts"
            )
        if study.rounds > self.most_rounds:
            raise DataError(
                f"the study asks for {study.rounds} rounds, and this site agrees to "
                f"{self.most_rounds} at most"
            )


def is_site_file(path: str | Path) -> bool:
    """Whether a TOML file is a site's, and not a study."""
    where = f"file {str(path)!r}"
    return SECTION in toml_document(read_plain(path, where, MOST_TOML), where)


def _entries(given: dict[str, Any], home: Path) -> dict[str, Any]:
    needed = ("name", "table", "study", "approved", "weakest_policy")
    for key in given:
        if key not in (*needed, "most_rounds", "most_risk", "approve", "key", "confirmed"):
            raise DataError(f"unknown entry {key!r}")
    for key in needed:
        if key not in given:
            raise DataError(f"there is no {key!r}: add it")
    for key in ("name", "table", "study", "approved", "key"):
        if key in given and not (isinstance(given[key], str) and given[key]):
            raise DataError(f"{key}: give a text that is not empty")
    check_site_name(given["name"])
    rounds = given.get("most_rounds", 0)
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 0:
        raise DataError("most_rounds: give a whole number of at least 0")
    risk = given.get("most_risk", 1.0)
    if not isinstance(risk, (int, float)) or isinstance(risk, bool) or not 0.5 <= risk <= 1:
        raise DataError("most_risk: give a number from 0.5, which is chance, to 1")
    approve = given.get("approve", "person")
    if approve not in get_args(Approval):
        raise DataError("approve: give 'person' or 'nobody'")
    return {
        **given,
        "table": home / given["table"],
        "study": home / given["study"],
        "key": home / given["key"] if "key" in given else None,
        "weakest_policy": _policy(given["weakest_policy"]),
        "confirmed": _fingerprints(given.get("confirmed", {})),
    }


def _fingerprints(given: Any) -> dict[str, str]:
    """Return the digits of each fingerprint, however they are grouped."""
    texts = isinstance(given, dict) and all(isinstance(each, str) for each in given.values())
    found = {site: "".join(each.split()) for site, each in given.items()} if texts else {}
    if not texts or not all(DIGITS.fullmatch(each) for each in found.values()):
        raise DataError(
            "confirmed: give for each site, by name, the 30 digits of its key's fingerprint"
        )
    return found


def _confirmed_lines(confirmed: Mapping[str, str]) -> str:
    if not confirmed:
        return '# confirmed = { NAME = "00000 00000 00000 00000 00000 00000" }'
    entries = ", ".join(f"{quoted(site)} = {quoted(each)}" for site, each in confirmed.items())
    return f"confirmed = {{ {entries} }}"


def _policy(given: Any) -> Policy:
    if isinstance(given, str) and given in POLICIES:
        return policy_named(given)
    if isinstance(given, dict) and "threshold" in given and set(given) <= {"threshold", "rounding"}:
        return custom_policy(**given, source="set by this site")
    names = ", ".join(repr(name) for name in POLICIES)
    raise DataError(f"weakest_policy: give one of {names}, or {{threshold = 10, rounding = 5}}")
