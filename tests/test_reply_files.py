"""A reply on disk: halves beside the counts, and everything that no reply can hold is refused."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmerdel import FedMerDelError, Reply, SiteSummary, fit_site, merge_sites, reply_site
from fedmerdel.release.mechanism import MoveSums
from fedmerdel.release.reply import load_release
from fedmerdel.release.review import review_tables
from fedmerdel.study.policy import POLICIES
from fedmerdel.sums.halves import FirstHalves
from tests.round_trips import play
from tests.site_tables import frame_of, level_numbers, study
from tests.summaries import FILES, assert_same, content

REPLY_FILES = {*FILES, "reply.json", "outcomes.csv"} - {"summary.json"}

TABLE = frame_of(level_numbers(300, 0), 1)


def reply_under(policy: str, rounds: int = 1) -> Reply:
    agreed = study(policy=POLICIES[policy], outcomes=("died",))
    federation = merge_sites(agreed, [fit_site(agreed, TABLE, "leeds")])
    broadcast = play(federation, {"leeds": TABLE}, rounds).broadcast
    return reply_site(agreed, broadcast, TABLE, "leeds")


@pytest.fixture(scope="module")
def reply() -> Reply:
    return reply_under("none")


def moves_of(reply: Reply) -> MoveSums:
    assert reply.moves is not None
    return reply.moves


@pytest.mark.parametrize("policy", ["none", "opensafely"])
@pytest.mark.parametrize("packed", ["", ".zip"])
def test_a_reply_is_read_back_to_the_last_bit(policy: str, packed: str, tmp_path: Path) -> None:
    reply, target = reply_under(policy), tmp_path / f"leeds{packed}"
    reply.save(target)
    found = Reply.load(target)
    assert_same(found, reply)
    assert_same(load_release(target), reply)
    assert found.broadcast == reply.broadcast
    halves = {"halves.csv"} if policy == "none" else set()
    assert set(content(target)) == REPLY_FILES | halves
    if policy == "none":
        one, other = moves_of(found), moves_of(reply)
        assert one.cost.tobytes() == other.cost.tobytes()
        for a, b in zip(one.halves, other.halves, strict=True):
            assert a.tobytes() == b.tobytes()
    else:
        assert found.moves is None
    found.save(tmp_path / f"again{packed}")
    assert content(tmp_path / f"again{packed}") == content(target)


def test_a_one_shot_summary_is_no_reply(tmp_path: Path) -> None:
    agreed = study()
    fit_site(agreed, TABLE, "leeds").save(tmp_path / "leeds")
    found = load_release(tmp_path / "leeds")
    assert type(found) is SiteSummary
    assert found.moves is None
    assert set(content(tmp_path / "leeds")) == set(FILES)
    assert "This is a reply" not in (tmp_path / "leeds" / "README.txt").read_text()
    assert "reply to broadcast" not in dict(review_tables(found).facts)


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
    assert told["reply to broadcast"] == reply.broadcast


def test_a_cluster_without_rows_at_the_site_can_be_looked_at(tmp_path: Path) -> None:
    """Its shares are 0 over 0, and no line of the tables may say so."""
    agreed = study(policy=POLICIES["opensafely"])
    federation = merge_sites(agreed, [fit_site(agreed, TABLE, "leeds")])
    assert federation.n_clusters > 1
    alike = frame_of(np.zeros((60, 4), dtype=int))
    reply = reply_site(agreed, federation.broadcast, alike, "york")
    assert reply.sums.T.min() == 0
    seen = review_tables(reply)
    assert [size.rows for size in seen.sizes] == reply.sums.T.tolist()
    assert all(np.isfinite([each.lowest, each.highest]).all() for each in seen.contrasts)
    reply.save(tmp_path / "york")
    assert_same(Reply.load(tmp_path / "york"), reply)
    assert "described by 1 cluster" in (tmp_path / "york" / "README.txt").read_text()


# Numbers that no rows can have given.


def with_halves(reply: Reply, **parts: Any) -> dict[str, Any]:
    moves = moves_of(reply)
    return {"moves": moves._replace(halves=moves.halves._replace(**parts))}


def with_cost(reply: Reply, cost: Any) -> dict[str, Any]:
    return {"moves": moves_of(reply)._replace(cost=np.array(cost))}


def first_of(reply: Reply) -> FirstHalves:
    return moves_of(reply).halves


IMPOSSIBLE: dict[str, tuple[Callable[[Reply], dict[str, Any]], str]] = {
    "no name": (lambda r: {"broadcast": ""}, "what it replies to"),
    "cost above 0": (lambda r: with_cost(r, -moves_of(r).cost), "cost is above 0"),
    "cost not finite": (lambda r: with_cost(r, moves_of(r).cost * np.inf), "not finite"),
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
def test_impossible_replies_are_refused(
    reply: Reply, change: Callable[[Reply], dict[str, Any]], words: str
) -> None:
    assert reply.n_clusters > 1
    with pytest.raises(FedMerDelError, match=words) as caught:
        dataclasses.replace(reply, **change(reply))
    assert "\n" not in str(caught.value)
    assert "'leeds'" in str(caught.value)


def test_halves_and_small_counts_are_refused_under_a_policy() -> None:
    """Also where a site's own software has let them out."""
    safe = reply_under("opensafely")
    T, S = safe.sums.T, safe.sums.S
    moves = MoveSums(FirstHalves(T * 0.0, S * 0.0, T * 0.0), -700.0 * T)
    with pytest.raises(FedMerDelError, match="it tells of halves, which policy 'opensafely'"):
        dataclasses.replace(safe, moves=moves)
    small = safe.sums._replace(
        T=np.where(np.arange(safe.n_clusters) == safe.rest, 7.0, 0.0),
        S=S * 0,
        outcomes={"died": np.zeros((safe.n_clusters, 2))},
    )
    with pytest.raises(FedMerDelError, match="a count is under 10"):
        dataclasses.replace(safe, sums=small)
    nothing = small._replace(T=small.T * 0)
    with pytest.raises(FedMerDelError, match="none of its clusters"):
        dataclasses.replace(safe, sums=nothing)


# Files that were changed on the way.


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        document = json.loads((folder / "reply.json").read_text())
        change(document)
        (folder / "reply.json").write_text(json.dumps(document))

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
    "no reply": (edited(lambda d: d.update(broadcast=None)), "'broadcast'"),
    "to nothing": (edited(lambda d: d.update(broadcast="")), "what it replies to"),
    "a number": (edited(lambda d: d.update(broadcast=5)), "'broadcast'"),
    "no broadcast": (edited(lambda d: d.pop("broadcast")), "must have the entries"),
    "one more file": (lambda folder: (folder / "rows.csv").write_text("1"), "'rows.csv'"),
}


@pytest.mark.parametrize(("damage", "words"), DAMAGES.values(), ids=DAMAGES)
def test_changed_files_are_refused_in_one_line(
    reply: Reply, tmp_path: Path, damage: Callable[[Path], Any], words: str
) -> None:
    reply.save(tmp_path / "leeds")
    damage(tmp_path / "leeds")
    for load in (Reply.load, load_release):
        with pytest.raises(FedMerDelError, match=words) as caught:
            load(tmp_path / "leeds")
        assert "\n" not in str(caught.value)
        assert "SECRET" not in str(caught.value)
