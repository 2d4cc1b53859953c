"""Attacks on a site by a centre that lies or reads on: each was once seen to work.

Lying sites are in test_lies, forged parcels in the tests of signatures, kills in test_kills.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from fedmerdel import (
    Account,
    Broadcast,
    Codebook,
    DataError,
    Outcome,
    Policy,
    SiteFile,
    Study,
    Sums,
    Validation,
    Variable,
    fit_site,
    merge_sites,
    policy_named,
    reply_site,
    validate_site,
)
from fedmerdel.masking.centre_part import begin_run, centre_turn
from fedmerdel.masking.site_part import join_run
from fedmerdel.masking.site_state import MASKED
from fedmerdel.masking.spelling import spelt
from fedmerdel.release.cells import all_cells
from fedmerdel.release.mechanism import People
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.site.check import check_site
from fedmerdel.site.turn_site import SiteSums
from fedmerdel.study.promise import COUNTS, Promise
from fedmerdel.summing.question import Question
from fedmerdel.summing.work import agreement_of
from fedmerdel.sums.expectations import Expectations
from tests.masked import LISTED, NAMES, Run, ask_of, at_site, member, opened_run, random_of
from tests.site_tables import CODEBOOK, frame_of, level_numbers, study
from tests.toy_keys import key

SEX = Variable("sex", ("F", "M"), "text")

STRANGER = key(200)

POLICIES = ("opensafely", "ons", "datashield")


def clusters_of(number: int, seed: int) -> Expectations:
    """Clusters as a centre might make them up, some of which few rows are in."""
    rng = np.random.default_rng(seed)
    levels = [
        np.log(rng.dirichlet(np.full(end - start, 0.5), number))
        for start, end in pairwise(CODEBOOK.level_offsets)
    ]
    return Expectations(np.log(rng.dirichlet(np.full(number, 0.5))), np.hstack(levels))


def asked(broadcast: Broadcast, clusters: Expectations, number: int) -> Broadcast:
    K = clusters.n_clusters
    cuts = broadcast.cuts._replace(offset=np.zeros(K), direction=np.zeros_like(clusters.log_levels))
    return replace(broadcast, clusters=clusters, cuts=cuts, uncut=np.ones(K, bool), number=number)


@pytest.mark.parametrize("name", POLICIES)
def test_a_fit_and_replies_do_not_tell_a_withheld_group(name: str) -> None:
    """Attack: rows told by the fit less rows told by a reply were the withheld ones, exactly."""
    agreed = study(policy=policy_named(name), outcomes=("died",))
    silent = 0
    for seed in range(6):
        table = frame_of(level_numbers(250 + 7 * seed, seed), seed)
        first = fit_site(agreed, table, "york")
        sent = merge_sites(agreed, [first]).broadcast
        releases = [first]
        for number in range(1, 5):
            broadcast = asked(sent, clusters_of(2 + number, 10 * seed + number), number)
            releases.append(reply_site(agreed, broadcast, table, "york"))
        totals = [each.sums.total() for each in releases]
        for total in totals[1:]:
            np.testing.assert_array_equal(total.T, totals[0].T)
            np.testing.assert_array_equal(total.S, totals[0].S)
            np.testing.assert_array_equal(total.outcomes["died"], totals[0].outcomes["died"])
        silent += sum(int((each.sums.T == 0).sum()) for each in releases)
    assert silent > 5  # there were small groups, and something was hidden


def test_a_broadcast_cannot_set_policy_columns_or_outcomes() -> None:
    """Attack: a study inside the broadcast, with policy none and another outcome."""
    agreed = study(policy=policy_named("opensafely"))
    table = frame_of(level_numbers(300, 1))
    federation = merge_sites(agreed, [fit_site(agreed, table, "york")])
    weak = replace(agreed, policy=policy_named("none"), outcomes=("died",))
    theirs = replace(federation.broadcast, study_hash=weak.hash)
    with pytest.raises(DataError, match="another study"):
        reply_site(agreed, theirs, table, "york")
    told = reply_site(agreed, federation.broadcast, table, "york")
    assert not told.sums.outcomes
    assert told.moves is None
    assert "study.toml" not in federation.broadcast.to_files()


def test_one_patient_more_is_seen_only_by_the_step_of_rounding() -> None:
    """Attack: the sum of T moved by one with each patient where a policy rounds."""
    agreed = study(policy=policy_named("opensafely"))
    X = level_numbers(303, 2)
    told = [fit_site(agreed, frame_of(X[:n]), "york").n_rows for n in range(298, 303)]
    assert told == [300.0] * 5


def test_a_reply_whose_totals_differ_is_refused_at_the_centre() -> None:
    """A lie: more rows in a round than the site had at first."""
    agreed = study(policy=policy_named("ons"))
    tables = {site: frame_of(level_numbers(400, seed)) for seed, site in enumerate("ab")}
    federation = merge_sites(agreed, [fit_site(agreed, t, site) for site, t in tables.items()])
    honest = [reply_site(agreed, federation.broadcast, t, site) for site, t in tables.items()]
    assert federation.step(honest)[0].sites == ("a", "b")
    more = frame_of(np.concatenate([level_numbers(400, 0), level_numbers(50, 9)]))
    lie = reply_site(agreed, federation.broadcast, more, "a")
    with pytest.raises(DataError, match="don't sum to those that it sent before"):
        federation.step([lie, honest[1]])
    # One whose rows have changed is taken out, and joins anew.
    without = federation.remove("a")
    anew = [
        reply_site(agreed, without.broadcast, t, s) for s, t in (("a", more), ("b", tables["b"]))
    ]
    assert without.step(anew)[0].sites == ("a", "b")


HIV = Codebook((*CODEBOOK.variables, Variable("hiv", ("no", "yes"), "text")))


def with_hiv(X: np.ndarray, n_rows: int) -> pd.DataFrame:
    """A table of which so many rows have the rarest of diseases."""
    return frame_of(X).assign(hiv=np.where(np.arange(len(X)) < n_rows, "yes", "no"))


@pytest.mark.parametrize("name", POLICIES)
def test_the_account_follows_from_the_released_counts(name: str) -> None:
    """Attack: the bound of the cost told no row at a level from one, by the learned prior."""
    agreed = replace(study(policy=policy_named(name)), codebook=HIV)
    for n_rows in (0, 1):
        table = with_hiv(level_numbers(400, 3), n_rows)
        first = fit_site(agreed, table, "york")
        told = merge_sites(agreed, [first]).broadcast
        for released in (first, reply_site(agreed, told, table, "york")):
            cells = all_cells(released.sums, HIV.level_offsets)
            account = Account(
                *(agreed.policy.name, agreed.policy.threshold, agreed.policy.rounding),
                smallest=agreed.policy.smallest,
                n_cells=cells.size,
                n_zero=int((cells == 0).sum()),
                smallest_cell=float(cells[cells > 0].min()),
            )
            assert released.account == account
            document = json.loads(released.to_files()[released.DOCUMENT])
            assert set(document["disclosure"]) == set(account.to_dict())


@pytest.mark.parametrize("name", POLICIES[:2])
def test_a_reply_does_not_count_rows_at_a_hidden_level(name: str) -> None:
    """Attack: where all told a level as 0, each row with it cost the evidence 108 nats."""
    agreed = replace(study(policy=policy_named(name)), codebook=HIV)
    tables = {site: with_hiv(level_numbers(400, seed), 0) for seed, site in enumerate("abc")}
    federation = merge_sites(agreed, [fit_site(agreed, t, site) for site, t in tables.items()])
    replies = [
        reply_site(agreed, federation.broadcast, with_hiv(level_numbers(400, 0), n_rows), "a")
        for n_rows in (0, 1, 3, 7)
    ]
    files = [each.to_files() for each in replies]
    assert all(each == files[0] for each in files[1:])


def squares_told(found: Validation) -> np.ndarray:
    """Steps in which the squares of three sums were told, that the spreads are made of."""
    step = 2 * 5.0 * found.policy.smallest
    nearest = np.maximum(np.abs(found.nats) - step / 2, 0.0) / found.scored
    steps = found.scored * (found.spread[:3] ** 2 + nearest**2) / (25.0 * found.policy.smallest)
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)
    return np.asarray(steps)


@pytest.mark.parametrize("name", POLICIES)
def test_a_validation_does_not_count_rows_at_a_hidden_level(name: str) -> None:
    """Attack: where all told a level as 0, each row with it cost the log-scores 10 to 100 nats."""
    agreed = replace(study(policy=policy_named(name)), codebook=HIV)
    tables = {site: with_hiv(level_numbers(400, seed), 0) for seed, site in enumerate("abc")}
    model = merge_sites(agreed, [fit_site(agreed, t, site) for site, t in tables.items()]).model
    many = Sums(*(1e12 * each for each in (model.sums.T, model.sums.S, model.sums.h)))
    model = replace(model, sums=many)  # 28 nats a row more
    smallest = agreed.policy.smallest
    rows = level_numbers(1000, 5)
    none, *others = (
        (n, validate_site(model, with_hiv(rows, n), "new")) for n in (0, 1, 3, 7) if n < smallest
    )
    assert len(others) == (3 if smallest > 7 else 1)
    for n, found in others:
        # As far as one row fewer than the smallest count may move a sum: one step, or none.
        steps = (found.nats - none[1].nats) / (2 * 5.0 * smallest)
        assert np.abs(steps).max() <= 1
        assert np.abs(squares_told(found) - squares_told(none[1])).max() <= 1 + 1e-9
        if n <= 3 and name != "datashield":
            assert found.to_files() == none[1].to_files()
        shown = [v.to_files() for v in (found, none[1])]
        assert all(shown[0][name] == shown[1][name] for name in shown[0] if name != "scores.csv")


def test_a_table_with_a_row_a_visit_is_refused() -> None:
    """Attack: twelve rows of one person passed for twelve people, and for a cluster."""
    agreed = replace(study(policy=policy_named("opensafely")), row_id="person")
    once = frame_of(level_numbers(300, 1)).assign(person=np.arange(300))
    visits = pd.concat([once] * 2)
    first = fit_site(agreed, once, "york")
    sent = merge_sites(agreed, [first]).broadcast
    for work in (
        lambda: fit_site(agreed, visits, "york"),
        lambda: reply_site(agreed, sent, visits, "york"),
        lambda: validate_site(merge_sites(agreed, [first]).model, visits, "york"),
    ):
        with pytest.raises(DataError, match="row_id 'person' is there more than once"):
            work()
    assert any("more than once" in problem for problem in check_site(agreed, visits).problems)
    assert fit_site(replace(agreed, policy=policy_named("none")), visits, "york").n_rows == 600


@pytest.mark.parametrize("name", POLICIES[:2])
def test_a_trusted_centre_could_count_a_small_group_by_chosen_clusters(name: str) -> None:
    """Not stopped: a cluster shares all rows but a group's by rho; where rounding turns tells them.

    This is why a study says that it trusts its centre, before it has rounds under a policy. One
    cluster holds whoever has all of some levels, which is too small to be told. Of most others
    one has a share of rho, the other the rest of it. Counted with and without the first cluster.
    """
    agreed = study(policy=policy_named(name))
    table = frame_of(level_numbers(400, 5, missing=0.0))
    sent = merge_sites(agreed, [fit_site(agreed, table, "york")]).broadcast
    a_group = table[["a", "b", "c", "d"]].value_counts()
    pattern = next(at for at, n in a_group.items() if 2 <= n <= 6 and at[0] == 1)
    other = 0  # the first level of the first variable, which they don't have
    chosen = np.zeros(CODEBOOK.level_offsets[-1])
    for start, variable, value in zip(
        CODEBOOK.level_offsets[:-1], CODEBOOK.variables, pattern, strict=True
    ):
        chosen[start : start + len(variable.levels)] = -1e3
        chosen[start + list(variable.values).index(value)] = 0.0

    def told(rho: float, apart: bool) -> float:
        weights = np.log([rho, 1 - rho, np.exp(30.0) if apart else 1e-300])
        levels = np.vstack([np.zeros((2, len(chosen))), chosen])
        levels[0, other] = 30.0  # some people whose cluster it surely is: else it is not told
        reply = reply_site(agreed, asked(sent, Expectations(weights, levels), 1), table, "york")
        return float(reply.sums.T[0])

    def edge(low: float, high: float, apart: bool) -> tuple[float, float]:
        """Where rounding first turns: the share, and how many rows have it then."""
        before = told(low, apart)
        for _ in range(14):
            middle = (low + high) / 2
            low, high = (middle, high) if told(middle, apart) == before else (low, middle)
        return low, before + agreed.policy.step / 2

    def rows(apart: bool) -> float:
        """Rows that are shared, from two places where rounding turns."""
        (rho, one), (more, two) = edge(0.1, 0.2, apart), edge(0.4, 0.5, apart)
        return (two - one) / (more - rho)

    assert round(rows(False) - rows(True)) == a_group[pattern]


@pytest.mark.parametrize("name", POLICIES)
def test_without_trust_in_the_centre_a_site_counts_in_no_chosen_clusters(name: str) -> None:
    """Attack: the one above, on a study that does not say that it trusts the centre."""
    agreed = study(policy=policy_named(name), promise=COUNTS, rounds=0)
    table = frame_of(level_numbers(400, 5))
    sent = merge_sites(agreed, [fit_site(agreed, table, "york")]).broadcast
    chosen = asked(sent, clusters_of(3, 0), 1)
    with pytest.raises(DataError, match="round 1, and the study 's' agrees on 0 rounds"):
        reply_site(agreed, chosen, table, "york")
    with pytest.raises(DataError, match=r"^rounds: "):
        replace(agreed, rounds=1)
    # The centre's own version of the study is another one.
    theirs = replace(agreed, rounds=1, promise=Promise(trusts_centre=True))
    with pytest.raises(DataError, match="another study"):
        reply_site(agreed, replace(chosen, study_hash=theirs.hash), table, "york")
    text = agreed.to_text().replace("rounds = 0", "rounds = 1")
    with pytest.raises(DataError, match="rounds: a centre that chooses"):
        Study.from_bytes(text.encode())


def test_under_sums_a_site_answers_no_chosen_clusters(tmp_path: Path) -> None:
    """Attack: the same as a question of sums. A site finds the question itself, and compares."""
    run = opened_run(run_of_sums(tmp_path))
    york = run.works["york"]
    left = len(york.ledger.entries())
    assert left == 1  # what follows from the study was answered
    ask = ask_of(run, 1)
    asked_now = Question.from_bytes(ask.question)
    K = asked_now.clusters.n_clusters
    chosen = asked_now._replace(clusters=clusters_of(K, 1)).to_bytes()
    with pytest.raises(DataError, match=r"not the one that follows .* nothing was answered"):
        at_site(run, "york", spelt(ask._replace(question=chosen)))
    assert len(york.ledger.entries()) == left
    assert at_site(run, "york", spelt(ask)).state.stage == MASKED


def run_of_sums(folder: Path) -> Run:
    """Five sites with tables, and a centre that has asked its first question."""
    agreed = study(
        policy=policy_named("ons"),
        promise=Promise("sums"),
        centre_key=STRANGER.public,
        site_keys=LISTED,
    )
    agreement, works, sites, sent = agreement_of(agreed), {}, {}, {}
    agreed.save(folder / "study.toml")
    for seed, name in enumerate(NAMES):
        home = folder / name
        home.mkdir()
        frame_of(level_numbers(100, seed)).to_csv(home / "rows.csv", index=False)
        file = SiteFile(name, home / "rows.csv", folder / "study.toml", agreed.hash, agreed.policy)
        replace(file, most_rounds=agreed.rounds).save(home / "site.toml")
        works[name] = SiteSums(SiteFile.load(home / "site.toml"))
        turn = join_run(agreement, member(name), random=random_of(name))
        sites[name] = turn.state
        sent.update(turn.messages)
    begun = centre_turn(begin_run(agreement, NAMES).state, sent, agreement, works["york"])
    return Run(begun.state, sites, works, sent | begun.messages, agreement)


def test_two_tables_of_one_column_could_be_subtracted() -> None:
    """Attack: women by cluster less women who did not fall are those who did, though hidden.

    Each table alone is safe. Counted in one study they prove a small group, so it is refused.
    """
    table = frame_of(level_numbers(100, 3))
    table["sex"] = ["F"] * 40 + ["M"] * 60
    table["fell"] = [0] * 35 + [1] * 5 + [0] * 60
    alone = {"policy": policy_named("opensafely"), "max_clusters": 1}
    covariate, stratum = {"covariates": (SEX,)}, {"outcomes": (Outcome("fell", strata=(SEX,)),)}
    women = fit_site(study(**alone, **covariate), table, "york").sums.outcomes["(covariates)"][0, 0]
    fell = fit_site(study(**alone, **stratum), table, "york").sums.outcomes["fell"][0]
    assert fell[1] == 0  # hidden
    least, most = (women - 2) - (fell[0] + 2), (women + 2) - (fell[0] - 2)
    assert 1 <= least <= 5 <= most  # what a reader would know of them
    both = {**covariate, **stratum}
    with pytest.raises(DataError, match="column 'sex' would be counted in two tables"):
        study(**alone, **both)
    timed = (Outcome("died"), Outcome("days", event="died", ends=(30.0,)))
    with pytest.raises(DataError, match="column 'died' would be counted in two tables"):
        study(**alone, outcomes=timed)
    variable = (Outcome("died", strata=(Variable("a", ("0", "1"), "integer"),)),)
    with pytest.raises(DataError, match="column 'a' would be counted in two tables"):
        study(**alone, outcomes=variable)
    assert study(policy=policy_named("none"), **both).tables  # nothing is hidden there


@pytest.mark.parametrize("name", POLICIES)
def test_a_number_of_few_values_does_not_count_people(name: str) -> None:
    """Attack: of a number that is 0, 1 or 2, low less half of middle were the people at 0.

    Cells of parts are no groups, so each was large enough; but solved for the groups they told
    that three people had never fallen. A range of width 2 does it with any whole number.
    """
    agreed = study(
        policy=policy_named(name), max_clusters=1, outcomes=(Outcome("falls", range=(0, 2)),)
    )
    smallest = agreed.policy.smallest
    for few in range(1, smallest):
        table = frame_of(level_numbers(143, 3))
        table["falls"] = [0] * few + [1] * 40 + [2] * (103 - few)
        low, middle, _ = fit_site(agreed, table, "york").sums.outcomes["falls"][0]
        assert low % smallest == middle % smallest == 0
        # A cell is known to half a step either way: so is low less half of middle, and more.
        away = smallest / 2 * (1 + 1 / 2)
        least, most = low - middle / 2 - away, low - middle / 2 + away
        assert least < few < most
        assert least <= 0 or most >= smallest


def proven_small(values: np.ndarray, people: np.ndarray, policy: Policy, parts: bool) -> np.ndarray:
    """Whether a reader who knows the values of a number knows each small group to be one."""
    cells = np.array([(1 - values) ** 2, 2 * values * (1 - values), values**2])
    T, nothing = np.array([people.sum()]), np.zeros((1, 0))
    sums = Sums(T, nothing, np.zeros(1), np.zeros((1, 1)), {"y": (cells @ people)[None]})
    behind = sums._replace(outcomes={"y": np.append((cells >= 0.1) @ people, 0.0)[None]})
    counted = People(behind, T, sums, behind, frozenset({"y"} if parts else ()))
    found = mechanism_for(policy).protect(sums, lambda: counted, np.array([0])).sums
    told, half = found.outcomes["y"][0], (policy.smallest if parts else policy.step) / 2
    known = [(np.ones_like(values), found.T[0] - policy.step / 2, found.T[0] + policy.step / 2)]
    for at in np.flatnonzero(told):
        if at != told.argmax():  # which has what the others lose
            raised = not parts and told[at] == policy.smallest
            least = policy.threshold if raised else told[at] - half
            known.append((cells[at], least, told[at] + half))
    lines = np.array([sign * line for line, _, _ in known for sign in (1, -1)])
    limits = [sign * end for _, low, high in known for sign, end in ((1, high), (-1, low))]
    proven = []
    for group in np.flatnonzero((people > 0) & (people < policy.smallest)):
        asked = np.eye(len(values))[group]
        least, most = (linprog(sign * asked, lines, limits).fun for sign in (1, -1))
        if least is not None:
            proven.append(least > 1e-6 and -most < policy.smallest - 1e-6)
    return np.array(proven)


def test_hardly_ever_do_cells_of_parts_prove_a_small_group() -> None:
    """Steps of the smallest count hide the people at each value; those of the policy do not."""
    proven: dict[bool, list[bool]] = {True: [], False: []}
    for seed in range(250):
        rng = np.random.default_rng(seed)
        policy = policy_named(POLICIES[seed % 3])
        values = rng.choice(np.arange(5), 3, replace=False) / 4
        people = rng.choice([1.0, 3.0, 5.0, 12.0, 26.0, 40.0, 90.0], 3)
        if people.sum() > 2 * policy.smallest:
            for parts, found in proven.items():
                found.extend(proven_small(values, people, policy, parts))
    assert len(proven[True]) > 150
    assert np.mean(proven[False]) > 0.03
    assert np.mean(proven[True]) < 0.01
