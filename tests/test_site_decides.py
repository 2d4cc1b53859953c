"""A site's own file decides: which study, which policy, how many rounds, whatever arrives."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerdel import DataError, FileError, Site, Study, merge_sites
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.site.site_file import SiteFile
from fedmerdel.study.policy import POLICIES, Policy, custom_policy
from fedmerdel.sums.sums import Sums
from tests.command_line import INIT, SITES, Run, agree, done, refused, words
from tests.federations import everyone

rules = st.builds(custom_policy, st.integers(0, 12), st.integers(0, 12))

# "Not weaker than" is a partial order


@given(rules, rules, rules)
def test_not_weaker_than_is_a_partial_order(a: Policy, b: Policy, c: Policy) -> None:
    assert a.not_weaker_than(a)
    if a.not_weaker_than(b) and b.not_weaker_than(c):
        assert a.not_weaker_than(c)
    if a.not_weaker_than(b) and b.not_weaker_than(a):
        # Two names of one rule: they tell the same of every count.
        for count in range(30):
            assert told(a, count) == told(b, count)


@given(rules, rules)
def test_what_is_not_weaker_tells_nothing_that_the_other_hides(a: Policy, b: Policy) -> None:
    if not a.not_weaker_than(b) or (b.step == 1 and b.least == 0):
        return
    for count in range(40):
        if told(b, count) == 0:
            assert told(a, count) == 0
        assert told(a, count) % b.step == 0


def told(policy: Policy, count: int) -> float:
    """What is told of a level of so many rows, beside another of very many."""
    S = np.array([[float(count), 10_000.0]])
    sums = Sums(S.sum(axis=1), S, np.zeros(1), np.zeros((1, 1)))
    mechanism = mechanism_for(policy)
    return float(mechanism.protect(sums, everyone(sums), np.array([0, 2])).sums.S[0, 0])


def test_the_named_policies_in_order() -> None:
    stricter = {
        (a, b)
        for a, b in product(POLICIES, repeat=2)
        if a != b and POLICIES[a].not_weaker_than(POLICIES[b])
    }
    assert {(name, "none") for name in POLICIES if name != "none"} < stricter
    assert ("opensafely", "nhs") in stricter
    assert ("nhs", "opensafely") in stricter
    assert ("pcornet", "acro") in stricter
    assert ("acro", "pcornet") not in stricter
    # One has the higher threshold, and the other rounds.
    assert ("opensafely", "ons") not in stricter
    assert ("ons", "opensafely") not in stricter
    assert ("opensafely", "ohdsi") in stricter


# The site's file


def test_a_site_file_takes_the_place_of_the_single_arguments(run: Run) -> None:
    done(run(*INIT))
    file = agree(run)
    assert "The table fits" in words(run("check", str(file)))
    out = words(run("fit", str(file), "-o", "with"))
    assert "ledger" not in out
    assert "A person must agree before it leaves" in out
    out = words(run("fit", "study.toml", "leeds.csv", "--site", "leeds", "-o", "without"))
    assert "no ledger keeps count of what leaves" in out
    for name in ("counts.csv", "overlap.csv", "outcomes.csv", "summary.json"):
        assert Path("with", name).read_bytes() == Path("without", name).read_bytes()
    refused(run("fit", str(file), "leeds.csv", "-o", "x"), "leave TABLE, --site and --key out")
    refused(run("fit", str(file), "--site", "york", "-o", "x"), "leave TABLE, --site and --key out")


def test_a_study_that_was_changed_is_not_the_one_approved(run: Run) -> None:
    """The centre's file says otherwise: policy, outcomes, columns. The site's says no."""
    done(run(*INIT))
    file = agree(run)
    text = Path("study.toml").read_text()
    for old, new in (
        ('policy = "opensafely"', 'policy = "none"'),
        ('outcomes = ["died"]', 'outcomes = ["died", "seen"]'),
        ("rounds = 9", "rounds = 90"),
        ('name = "asthma"', 'name = "bmi"'),
    ):
        assert old in text
        Path("study.toml").write_text(text.replace(old, new))
        for command in (["fit", str(file)], ["check", str(file)]):
            tail = ["-o", "x"] if command[0] == "fit" else []
            refused(run(*command, *tail), "not the one that this site approved")
        assert not Path("x").exists()


def test_a_study_that_trusts_its_centre_says_so_before_a_site_agrees(run: Run) -> None:
    """Whoever approves it reads it; and nobody gets rounds without having said it."""
    refused(run(*(word for word in INIT if word != "--trusts-centre")), "rounds: ", "trusts_centre")
    assert not Path("study.toml").exists()
    done(run(*INIT))
    assert "\ntrusts_centre = true\n" in Path("study.toml").read_text()
    command = ("site", "study.toml", "leeds.csv", "--site", "leeds", "-o")
    words = " ".join(done(run(*command, "trusting.toml")).split())
    assert "it could count small groups here in spite of the policy" in words
    assert words.index("The study trusts the centre") < words.index("approves this")
    text = Path("study.toml").read_text()
    text = text.replace("trusts_centre = true", "trusts_centre = false")
    Path("study.toml").write_text(text)
    refused(run(*command, "other.toml"), "rounds: a centre that chooses the clusters could count")
    Path("study.toml").write_text(text.replace("rounds = 9", "rounds = 0"))
    assert "trusts the centre" not in done(run(*command, "other.toml"))


def test_a_weaker_policy_is_refused_with_both_named(run: Run) -> None:
    done(run(*INIT))
    Path("home").mkdir()
    said = run(
        *("site", "study.toml", "leeds.csv", "--site", "leeds", "-o", "home/site.toml"),
        *("--weakest-policy", "pcornet"),
    )
    refused(said, "'opensafely' (threshold 8, rounding 5)", "'pcornet' (threshold 11, rounding 0)")
    assert not Path("home/site.toml").exists()
    file = agree(run)
    text = file.read_text()
    file.write_text(text.replace('weakest_policy = "opensafely"', 'weakest_policy = "ons"'))
    refused(run("fit", str(file), "-o", "x"), "'opensafely'", "is weaker than 'ons'")
    file.write_text(text.replace("most_rounds = 9", "most_rounds = 2"))
    refused(run("fit", str(file), "-o", "x"), "asks for 9 rounds", "agrees to 2 at most")
    custom = "weakest_policy = {threshold = 5, rounding = 5}"
    file.write_text(text.replace('weakest_policy = "opensafely"', custom))
    done(run("fit", str(file), "-o", "x"))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("most_rounds = 9", "most_rounds = -1", "most_rounds"),
        ("most_rounds = 9", "most_rounds = true", "most_rounds"),
        ('approve = "person"', 'approve = "me"', "approve"),
        ('approve = "person"', "colour = 3", "'colour'"),
        ('name = "leeds"', 'name = "a/b"', "a folder can have"),
        ('name = "leeds"', "", "no 'name'"),
        ('weakest_policy = "opensafely"', 'weakest_policy = "mild"', "weakest_policy"),
        ('weakest_policy = "opensafely"', "weakest_policy = {rounding = 5}", "weakest_policy"),
        ('weakest_policy = "opensafely"', "weakest_policy = {threshold = -5}", "threshold"),
        ("[site]", "[site]\n[other]", "one section"),
        ("[site]", "[[site]]", "one section"),
        ("[site]", "[site", "TOML"),
    ],
)
def test_a_site_file_that_cannot_be_used(run: Run, old: str, new: str, why: str) -> None:
    done(run(*INIT))
    file = agree(run)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    refused(run("fit", str(file), "-o", "x"), why)
    assert not Path("x").exists()


def test_one_that_is_there_is_not_lost(run: Run) -> None:
    done(run(*INIT))
    file = agree(run)
    again = ("site", "study.toml", "york.csv", "--site", "york", "-o", str(file))
    refused(run(*again), "there already")
    assert 'name = "leeds"' in file.read_text()


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    for policy in (POLICIES["ons"], custom_policy(4, 3)):
        file = SiteFile('so "called"', Path("t.csv"), Path("s.toml"), "0" * 64, policy, 3, "nobody")
        path = tmp_path / f"{policy.name}.toml"
        file.save(path)
        found = SiteFile.load(path)
        assert (found.name, found.approved, found.most_rounds) == (file.name, file.approved, 3)
        assert (found.table, found.study) == (tmp_path / "t.csv", tmp_path / "s.toml")
        rule = found.weakest_policy
        assert (rule.threshold, rule.rounding) == (policy.threshold, policy.rounding)
        assert found.approve == "nobody"


# In Python, through a round, with a centre that asks for other things


def opened(run: Run) -> dict[str, Site]:
    done(run(*INIT))
    return {site: Site.load(agree(run, site)) for site in SITES}


def test_a_site_works_by_its_file(run: Run) -> None:
    sites = opened(run)
    study = Study.load("study.toml")
    federation = merge_sites(study, [site.fit() for site in sites.values()])
    replies = [site.reply(federation.broadcast) for site in sites.values()]
    federation, _ = federation.step(replies)
    assert len(sites["leeds"].assign(federation.model).labels) == 400
    assert sites["leeds"].check().problems == ()
    assert "SECRET" not in repr(sites)
    other = replace(study, name="other", policy=POLICIES["none"], outcomes=())
    for wrong in (
        replace(federation.broadcast, study_hash=other.hash),
        replace(federation.broadcast, number=10),
    ):
        with pytest.raises(DataError):
            sites["leeds"].reply(wrong)
    theirs = replace(federation.model, study=replace(study, name="renamed"))
    with pytest.raises(DataError, match="another study"):
        sites["leeds"].assign(theirs)


def test_assign_takes_a_site_file(run: Run) -> None:
    sites = opened(run)
    study = Study.load("study.toml")
    federation = merge_sites(study, [site.fit() for site in sites.values()])
    federation.model.save("model")
    done(run("assign", "model", "leeds-home/site.toml", "-o", "labels.csv"))
    assert Path("labels.csv").read_text().count("\n") == 401
    replace(federation.model, study=replace(study, name="renamed")).save("theirs")
    refused(run("assign", "theirs", "leeds-home/site.toml", "-o", "x.csv"), "another study")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    for content, error in ((b"", DataError), (b"\xff", FileError), (b"[study]", DataError)):
        path: Any = tmp_path / "site.toml"
        path.write_bytes(content)
        with pytest.raises(error, match=r"site\.toml"):
            Site.load(path)


def test_a_study_cannot_write_on_the_screen_that_approves_it(run: Run) -> None:
    """Attack: an outcome whose name moves the cursor, and shows another policy."""
    done(run(*INIT))
    text = Path("study.toml").read_text()
    for old in ('["died"]', '"lungs"', '"patient"'):
        moved = old.replace('"', '\\u001b[2J\\u009b1A"').replace("\\u001b[2J\\u009b1A", "", 1)
        Path("bad.toml").write_text(text.replace(old, moved))
        said = run("site", "bad.toml", "leeds.csv", "--site", "leeds", "-o", "site.toml")
        refused(said, "file 'bad.toml'", "control characters")
        assert said.err.rstrip("\n").isprintable()
    for name in ("le\x1beds", "le\x9beds", "l" * 81):
        said = run("site", "study.toml", "leeds.csv", "--site", name, "-o", "site.toml")
        refused(said, "site 'l")
        said = run("fit", "study.toml", "leeds.csv", "--site", name, "-o", "new")
        refused(said, "site 'l")
        assert said.err.rstrip("\n").isprintable()
    assert not Path("site.toml").exists()
    assert not Path("new").exists()
