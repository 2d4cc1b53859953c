"""What went wrong in exchanges once: dust, forgotten options, damaged memory, one cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from fedmerdel import (
    DataError,
    FileError,
    GlobalModel,
    OptionError,
    assign,
    merge_onto,
    merge_sites,
    policy_named,
    update_site,
)
from fedmerdel.commands.screen import screen, show_exchange
from tests.round_trips import made, play, replies_of, small_sites


@pytest.mark.parametrize("seed", [1, 3])
def test_a_gain_of_rounding_splits_nothing(seed: int) -> None:
    """Long after convergence the true number of clusters is still there, and no dust."""
    federation = small_sites(seed)
    model = federation.begun(np.where(federation.labels == 3, 2, federation.labels))
    model = play(model, federation.tables, 25)
    assert model.n_clusters == 4
    assert model.sums.T.min() > 1


def test_replies_are_not_taken_for_first_summaries() -> None:
    federation = made(0, 400)
    model = federation.begun(federation.labels)
    replies = replies_of(model, federation.tables)
    with pytest.raises(DataError, match="'s00': its summary is a reply to a model"):
        merge_sites(federation.study, replies)


def test_a_gain_is_told_only_where_elbos_compare() -> None:
    federation = made(0, 800)
    model = play(federation.begun(federation.labels), federation.tables, 2)
    assert model.record[-1].gain is not None
    late = {**federation.tables, "zz": federation.tables["s00"][:80]}
    later = merge_onto(model, replies_of(model, late))
    assert later.record[-1].gain is None
    with screen.capture() as shown:
        show_exchange(later)
    assert "a row)" not in shown.get()
    assert "would change little" not in shown.get()


def test_from_one_cluster_splits_find_the_others() -> None:
    """One cluster says nothing of how clusters differ: its prior is the one to begin with."""
    found = []
    for seed in range(3):
        federation = small_sites(seed)
        model = play(federation.begun(np.zeros(1500, dtype=np.int64)), federation.tables, 25)
        labels = np.empty(1500, dtype=np.int64)
        for b, (site, X) in enumerate(federation.tables.items()):
            labels[b::15] = assign(model, X, site).labels
        found.append(adjusted_rand_score(federation.labels, labels))
    assert np.mean(found) > 0.8


def test_rows_of_a_dropped_cluster_are_not_made_up() -> None:
    federation = made(2, 1200, 2, 2, policy=policy_named("opensafely"))
    model = federation.begun(federation.labels)
    # One cluster that no row is given to, at no site.
    sent = model.round_state.clusters
    weights = np.append(sent.log_weights[:-1], -1e6)
    course = model.round_state._replace(sent=sent._replace(log_weights=weights))
    after = play(replace(model, next_round=course), federation.tables)
    assert after.n_clusters == 1
    told = sum(summary.sums.T.sum() for summary in after.summaries)
    assert after.sums.T.sum() == pytest.approx(told)


def test_wrong_types_are_one_clear_line() -> None:
    federation = made(0, 400)
    X = federation.tables["s00"]
    for wrong in ("x", federation.study, None):
        with pytest.raises(OptionError, match=r"^model: give a GlobalModel or a Broadcast"):
            update_site(wrong, X, "s00")  # type: ignore[arg-type]
        with pytest.raises(OptionError, match=r"^model: give a GlobalModel"):
            merge_onto(wrong, [])  # type: ignore[arg-type]


def edited(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Change one entry of the centre's memory."""

    def do(folder: Path) -> None:
        file = folder / "exchanges.json"
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


def no_exchanges(folder: Path) -> None:
    file = folder / "model.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**content, "exchanges": 0}), encoding="utf-8")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "past of numbers": edited("read", lambda _: [[1, 2]]),
    "half a past": edited("read", lambda past: past[1:]),
    "misshapen past": edited("reached", lambda past: [{**p, "log_weights": [0.0]} for p in past]),
    "short ages": edited("age", lambda age: age[1:]),
    "long ages": edited("age", lambda age: [*age, 3]),
    "other ages": edited("age", lambda age: [-1 if a >= 0 else 0 for a in age]),
    "parents that are not there": edited("parents", lambda parents: [99 for _ in parents]),
    "negative parents": edited("parents", lambda parents: [-1 for _ in parents]),
    "divergence as text": edited("divergence", lambda _: "x"),
    "ELBO as text": edited("record", lambda record: [{**step, "elbo": "x"} for step in record]),
    "record cut": edited("record", lambda record: record[:-1]),
    "a billion clusters": number_of_clusters,
    "what was asked": other_asked,
    "no exchanges": no_exchanges,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_memory_is_refused_in_one_line(damage: str, tmp_path: Path) -> None:
    federation = made(1, 400)
    model = play(federation.begun(federation.labels), federation.tables)
    while len(model.round_state.past.read) < 2:  # a move forgets the past
        model = play(model, federation.tables)
    model.save(tmp_path / "model")
    assert GlobalModel.load(tmp_path / "model").record == model.record
    DAMAGES[damage](tmp_path / "model")
    with pytest.raises((FileError, DataError)) as error:
        GlobalModel.load(tmp_path / "model")
    assert "\n" not in str(error.value)
