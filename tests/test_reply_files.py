"""A reply on disk: halves beside the counts, and everything that no reply can hold is refused."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedmerdel.release.answer import Answer, Prospects

from fedmerdel import FedMerDelError, SiteSummary, fit_site, merge_sites, update_site
from fedmerdel.release.review import review_tables
from fedmerdel.study.policy import POLICIES
from fedmerdel.sums.cuts import FirstHalves
from tests.round_trips import play
from tests.site_tables import frame_of, level_numbers, study
from tests.summaries import FILES, assert_same, content

TABLE = frame_of(level_numbers(300, 0), 1)


def reply_under(policy: str, exchanges: int = 1) -> SiteSummary:
    agreed = study(policy=POLICIES[policy], outcomes=("died",))
    model = merge_sites(agreed, [fit_site(agreed, TABLE, "leeds")])
    return update_site(play(model, {"leeds": TABLE}, exchanges), TABLE, "leeds")


@pytest.fixture(scope="module")
def reply() -> SiteSummary:
    return reply_under("none")


def parts_of(reply: SiteSummary) -> tuple[Answer, Prospects]:
    assert reply.answer is not None
    assert reply.answer.prospects is not None
    return reply.answer, reply.answer.prospects


@pytest.mark.parametrize("policy", ["none", "opensafely"])
@pytest.mark.parametrize("packed", ["", ".zip"])
def test_a_reply_is_read_back_to_the_last_bit(policy: str, packed: str, tmp_path: Path) -> None:
    reply, target = reply_under(policy), tmp_path / f"leeds{packed}"
    reply.save(target)
    found = SiteSummary.load(target)
    assert_same(found, reply)
    assert found.answer is not None
    assert reply.answer is not None
    assert found.answer.broadcast == reply.answer.broadcast
    assert found.answer.evidence == reply.answer.evidence
    halves = {"halves.csv"} if policy == "none" else set()
    assert set(content(target)) == {*FILES, "outcomes.csv"} | halves
    if policy == "none":
        one, other = parts_of(found)[1], parts_of(reply)[1]
        assert one.cost.tobytes() == other.cost.tobytes()
        for a, b in zip(one.halves, other.halves, strict=True):
            assert a.tobytes() == b.tobytes()
    else:
        assert found.answer.prospects is None
    found.save(tmp_path / f"again{packed}")
    assert content(tmp_path / f"again{packed}") == content(target)


def test_a_one_shot_summary_is_no_reply(tmp_path: Path) -> None:
    agreed = study()
    fit_site(agreed, TABLE, "leeds").save(tmp_path / "leeds")
    found = SiteSummary.load(tmp_path / "leeds")
    assert found.answer is None
    assert set(content(tmp_path / "leeds")) == set(FILES)
    assert "This is a reply" not in (tmp_path / "leeds" / "README.txt").read_text()
    assert "reply to clusters" not in dict(review_tables(found).facts)


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_the_note_says_what_it_is_and_names_every_file(policy: str, tmp_path: Path) -> None:
    reply = reply_under(policy)
    reply.save(tmp_path / "leeds")
    note = (tmp_path / "leeds" / "README.txt").read_text()
    plain = " ".join(note.split())
    assert "This is a reply: the clusters are those that the coordinating centre has sent" in plain
    assert "an earlier release may be compared with this one" in plain
    for name in content(tmp_path / "leeds"):
        assert name == "README.txt" or f"\n{name}\n" in note
    assert ("Column cost" in plain) == (policy == "none")
    assert all(len(line) <= 88 for line in note.splitlines())
    told = dict(review_tables(reply).facts)
    assert reply.answer is not None
    assert told["reply to clusters"] == reply.answer.broadcast


def test_a_cluster_without_rows_at_the_site_can_be_looked_at(tmp_path: Path) -> None:
    """Its shares are 0 over 0, and no line of the tables may say so."""
    agreed = study(policy=POLICIES["opensafely"])
    model = merge_sites(agreed, [fit_site(agreed, TABLE, "leeds")])
    assert model.n_clusters > 1
    alike = frame_of(np.zeros((60, 4), dtype=int))
    reply = update_site(model, alike, "york")
    assert reply.sums.T.min() == 0
    seen = review_tables(reply)
    assert [size.rows for size in seen.sizes] == reply.sums.T.tolist()
    assert all(np.isfinite([each.lowest, each.highest]).all() for each in seen.contrasts)
    reply.save(tmp_path / "york")
    assert_same(SiteSummary.load(tmp_path / "york"), reply)
    assert "described by 1 cluster" in (tmp_path / "york" / "README.txt").read_text()


# Numbers that no rows can have given.


def with_halves(reply: SiteSummary, **parts: Any) -> Answer:
    answer, prospects = parts_of(reply)
    return answer._replace(prospects=prospects._replace(halves=prospects.halves._replace(**parts)))


def with_cost(reply: SiteSummary, cost: Any) -> Answer:
    answer, prospects = parts_of(reply)
    return answer._replace(prospects=prospects._replace(cost=np.array(cost)))


def first_of(reply: SiteSummary) -> FirstHalves:
    return parts_of(reply)[1].halves


IMPOSSIBLE: dict[str, tuple[Callable[[SiteSummary], Answer], str]] = {
    "no name": (lambda r: parts_of(r)[0]._replace(broadcast=""), "which clusters it answers"),
    "evidence": (lambda r: parts_of(r)[0]._replace(evidence=np.nan), "evidence is not finite"),
    "cost above 0": (lambda r: with_cost(r, -parts_of(r)[1].cost), "cost is above 0"),
    "cost not finite": (lambda r: with_cost(r, parts_of(r)[1].cost * np.inf), "not finite"),
    "cost of others": (lambda r: with_cost(r, [-1.0]), "cost has shape"),
    "negative half": (lambda r: with_halves(r, T=-first_of(r).T), "negative number"),
    "negative blur": (lambda r: with_halves(r, blur=-first_of(r).blur), "negative number"),
    "too many rows": (lambda r: with_halves(r, T=r.sums.T + 1), "more rows than its cluster"),
    "too many at a level": (
        lambda r: with_halves(r, S=r.sums.S + 1),
        "more rows than its cluster",
    ),
    "levels above rows": (lambda r: with_halves(r, T=first_of(r).T * 0.5), "the half's rows"),
    "halves of others": (lambda r: with_halves(r, S=first_of(r).S[:, 1:]), "has shape"),
}


@pytest.mark.parametrize(("change", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_answers_are_refused(
    reply: SiteSummary, change: Callable[[SiteSummary], Answer], words: str
) -> None:
    assert reply.n_clusters > 1
    with pytest.raises(FedMerDelError, match=words) as caught:
        dataclasses.replace(reply, answer=change(reply))
    assert "\n" not in str(caught.value)
    assert "'leeds'" in str(caught.value)


def test_halves_and_small_counts_are_refused_under_a_policy(reply: SiteSummary) -> None:
    """Also where a site's own software has let them out."""
    safe = reply_under("opensafely")
    assert safe.answer is not None
    halves = FirstHalves(*(part * 0.0 for part in (safe.sums.T, safe.sums.S,
                                                   safe.sums.T)))  # fmt: skip
    prospects = Prospects(halves, np.zeros(safe.n_clusters))
    with pytest.raises(FedMerDelError, match="it tells of halves, which policy 'opensafely'"):
        dataclasses.replace(safe, answer=safe.answer._replace(prospects=prospects))
    small = safe.sums._replace(T=np.where(np.arange(safe.n_clusters) == 0, 7.0, 0.0),
                                     S=safe.sums.S * 0)  # fmt: skip
    with pytest.raises(FedMerDelError, match="a count is under 10"):
        dataclasses.replace(safe, statistics=small, outcomes={})
    nothing = small._replace(T=small.T * 0)
    with pytest.raises(FedMerDelError, match="no rows"):
        dataclasses.replace(safe, statistics=nothing, outcomes={})


# Files that were changed on the way.


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        document = json.loads((folder / "summary.json").read_text())
        change(document)
        (folder / "summary.json").write_text(json.dumps(document))

    return damage


def first_number(file: str, new: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        lines = (folder / file).read_bytes().decode().split("\r\n")
        fields = lines[1].split(",")
        fields[2] = new
        (folder / file).write_bytes("\r\n".join([lines[0], ",".join(fields), *lines[2:]]).encode())

    return damage


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "halves lost": (lambda folder: (folder / "halves.csv").unlink(), "overlap.csv"),
    "no table": (lambda folder: (folder / "halves.csv").write_text('"'), "halves.csv"),
    "empty": (lambda folder: (folder / "halves.csv").write_text(""), "halves.csv"),
    "a word": (first_number("halves.csv", "SECRET"), "halves.csv"),
    "another number": (first_number("halves.csv", "12"), "halves.csv"),
    "infinite": (first_number("halves.csv", "1e999"), "halves.csv"),
    "cost above 0": (first_number("overlap.csv", "12"), "cost is above 0"),
    "not an answer": (edited(lambda d: d.update(answers=None, evidence=None)), "not whole"),
    "no evidence": (edited(lambda d: d.update(evidence=None)), "not whole"),
    "evidence of text": (edited(lambda d: d.update(evidence="SECRET")), "'evidence'"),
    "evidence true": (edited(lambda d: d.update(evidence=True)), "'evidence'"),
    "a number": (edited(lambda d: d.update(answers=5)), "'answers'"),
    "no answers": (edited(lambda d: d.pop("answers")), "must have the entries"),
    "one more file": (lambda folder: (folder / "rows.csv").write_text("1"), "'rows.csv'"),
}


@pytest.mark.parametrize(("damage", "words"), DAMAGES.values(), ids=DAMAGES)
def test_changed_files_are_refused_in_one_line(
    reply: SiteSummary, tmp_path: Path, damage: Callable[[Path], Any], words: str
) -> None:
    reply.save(tmp_path / "leeds")
    damage(tmp_path / "leeds")
    with pytest.raises(FedMerDelError, match=words) as caught:
        SiteSummary.load(tmp_path / "leeds")
    assert "\n" not in str(caught.value)
    assert "SECRET" not in str(caught.value)
