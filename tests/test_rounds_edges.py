"""What went wrong in rounds once: dust, forgotten options, damaged memory, one cluster."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from fedmerdel import (
    DataError,
    Federation,
    FileError,
    OptionError,
    assign,
    merge_sites,
    policy_named,
    reply_site,
)
from fedmerdel.commands.screen import screen, show_round
from tests.round_trips import made, play, replies_of, small_sites


@pytest.mark.parametrize("seed", [1, 3])
def test_a_gain_of_rounding_splits_nothing(seed: int) -> None:
    """Long after convergence the true number of clusters is still there, and no dust."""
    sites = small_sites(seed, 5)
    coarse = sites.begun(np.where(sites.labels == 3, 2, sites.labels))
    found = play(coarse, sites.tables, 20)
    assert found.n_clusters == 4
    assert found.sums.T.min() > 1
    assert [each.move for each in found.record if each.move] == ["split"]


def test_replies_are_not_taken_for_first_summaries() -> None:
    sites = made(0, 400)
    replies = replies_of(sites.begun(sites.labels), sites.tables)
    with pytest.raises(DataError, match="'s00': this is a reply to a broadcast"):
        merge_sites(sites.study, replies)


def test_a_gain_is_told_only_where_elbos_compare() -> None:
    sites = made(0, 800)
    federation = play(sites.begun(sites.labels), sites.tables, 2)
    assert federation.record[-1].gain is not None
    late = {**sites.tables, "zz": sites.tables["s00"][:80]}
    later, brought = federation.step(replies_of(federation, late))
    assert brought.gain is None
    with screen.capture() as shown:
        show_round(later)
    assert "a row)" not in shown.get()
    assert "would change little" not in shown.get()


def test_from_one_cluster_splits_find_the_others() -> None:
    """One cluster says nothing of how clusters differ: its prior is the one to begin with."""
    found = []
    for seed in range(3):
        sites = small_sites(seed, 5)
        everything = sites.begun(np.zeros(1500, dtype=np.int64))
        model = play(everything, sites.tables, 12).model
        labels = np.empty(1500, dtype=np.int64)
        for b, X in enumerate(sites.tables.values()):
            labels[b::5] = assign(model, X).labels
        found.append(adjusted_rand_score(sites.labels, labels))
    assert np.mean(found) > 0.8


def test_rows_of_a_dropped_cluster_are_not_made_up() -> None:
    sites = made(2, 1200, 2, 2, policy=policy_named("opensafely"))
    federation = sites.begun(sites.labels)
    # One cluster that no row is given to, at no site.
    sent = federation.round_state.clusters
    weights = np.append(sent.log_weights[:-1], -1e6)
    state = federation.round_state._replace(clusters=sent._replace(log_weights=weights))
    after = play(replace(federation, next_round=state), sites.tables)
    assert after.n_clusters == 1
    told = sum(summary.sums.T.sum() for summary in after.summaries)
    assert after.sums.T.sum() == pytest.approx(told)


def test_wrong_types_are_one_clear_line() -> None:
    sites = made(0, 400)
    federation, X = sites.begun(sites.labels), sites.tables["s00"]
    wrong: Any
    for wrong in ("x", sites.study, None, federation, federation.model):
        with pytest.raises(OptionError, match=r"^broadcast: give a Broadcast") as caught:
            reply_site(sites.study, wrong, X, "s00")
        assert "\n" not in str(caught.value)
    for wrong in (3, None, ["x"], [federation.broadcast], [federation.model]):
        with pytest.raises(OptionError, match=r"^summaries: give a list of SiteSummary") as caught:
            federation.step(wrong)
        assert "\n" not in str(caught.value)


def edited(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Change one entry of the centre's memory."""

    def do(folder: Path) -> None:
        file = folder / "federation.json"
        content = json.loads(file.read_text(encoding="utf-8"))
        content[name] = change(content[name])
        file.write_text(json.dumps(content), encoding="utf-8")

    return do


def number_of_clusters(folder: Path) -> None:
    file = folder / "broadcast" / "broadcast.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**content, "n_clusters": 10**9}), encoding="utf-8")


def other_asked(folder: Path) -> None:
    for file in (folder / "broadcast").iterdir():
        (folder / "asked" / file.name).write_bytes(file.read_bytes())


def nothing_asked(folder: Path) -> None:
    shutil.rmtree(folder / "asked")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "past of numbers": edited("read", lambda _: [[1, 2]]),
    "half a past": edited("read", lambda past: past[1:]),
    "misshapen past": edited("reached", lambda past: [{**p, "log_weights": [0.0]} for p in past]),
    "short ages": edited("age", lambda age: age[1:]),
    "long ages": edited("age", lambda age: [*age, 3]),
    "other ages": edited("age", lambda age: [-1 if a >= 0 else 0 for a in age]),
    "parents that are not there": edited("parents", lambda parents: [99 for _ in parents]),
    "negative parents": edited("parents", lambda parents: [-1 for _ in parents]),
    "ELBO as text": edited("record", lambda record: [{**each, "elbo": "x"} for each in record]),
    "record cut": edited("record", lambda record: record[:-1]),
    "a billion clusters": number_of_clusters,
    "what was asked": other_asked,
    "nothing asked": nothing_asked,
    "no rounds": edited("record", lambda _: []),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_memory_is_refused_in_one_line(damage: str, tmp_path: Path) -> None:
    sites = made(1, 400)
    federation = play(sites.begun(sites.labels), sites.tables)
    while len(federation.round_state.past.read) < 2:  # a move forgets the past
        federation = play(federation, sites.tables)
    federation.save(tmp_path / "centre")
    assert Federation.load(tmp_path / "centre").record == federation.record
    DAMAGES[damage](tmp_path / "centre")
    with pytest.raises((FileError, DataError)) as error:
        Federation.load(tmp_path / "centre")
    assert "\n" not in str(error.value)
