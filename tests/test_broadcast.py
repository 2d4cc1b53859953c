"""What the centre sends out, as files: the same to the last bit, or refused; no site's counts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmerdel import (
    Broadcast,
    FileError,
    GlobalModel,
    fit_site,
    merge_onto,
    merge_sites,
    update_site,
)
from fedmerdel.model.broadcast import PARTS
from fedmerdel.study.policy import POLICIES
from tests.round_trips import play, replies_of
from tests.site_tables import frame_of, level_numbers, study

TABLES: dict[str, Any] = {
    site: frame_of(level_numbers(300, seed), 1) for seed, site in enumerate(("hull", "leeds"))
}


def merged(**options: Any) -> GlobalModel:
    agreed = study(**options)
    return merge_sites(agreed, [fit_site(agreed, t, site) for site, t in TABLES.items()])


@pytest.fixture(scope="module")
def model() -> GlobalModel:
    return play(merged(outcomes=("died",)), TABLES, 3)


@pytest.mark.parametrize("exchanges", [0, 1, 3])
@pytest.mark.parametrize("selection", [False, True])
def test_it_is_read_back_to_the_last_bit(tmp_path: Path, exchanges: int, selection: bool) -> None:
    first = merged(variable_selection=selection, prior=None)
    sent = play(first, TABLES, exchanges).broadcast
    sent.save(tmp_path / "sent")
    found = Broadcast.load(tmp_path / "sent")
    assert found.hash == sent.hash
    assert found.study == sent.study
    assert (found.number, found.selected) == (sent.number, sent.selected)
    assert (found.selected is not None) == selection
    pairs = zip(
        (*found.clusters, *found.cuts, found.uncut, found.eps),
        (*sent.clusters, *sent.cuts, sent.uncut, sent.eps),
        strict=True,
    )
    for one, other in pairs:
        assert one.tobytes() == other.tobytes()
        assert one.dtype == other.dtype
    assert repr(found.prior) == repr(sent.prior)
    replies = [summary_files(update_site(b, TABLES["hull"], "hull")) for b in (found, sent)]
    assert replies[0] == replies[1]


def test_a_models_folder_holds_it_whole(model: GlobalModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    model.broadcast.save(tmp_path / "alone")
    for name in PARTS:
        inside = (tmp_path / "model" / "broadcast" / name).read_bytes()
        assert inside == (tmp_path / "alone" / name).read_bytes()
    assert {path.name for path in (tmp_path / "alone").iterdir()} == PARTS
    assert Broadcast.load(tmp_path / "model").hash == model.broadcast.hash


def test_odd_numbers_are_read_back_too(model: GlobalModel, tmp_path: Path) -> None:
    sent = model.broadcast
    odd = sent.cuts.direction.copy()
    odd.flat[:6] = [-0.0, 5e-324, -1e308, 2.0**60, 1 / 3, 1e-5]
    changed = Broadcast(
        sent.study, 7, sent.clusters, sent.cuts._replace(direction=odd), sent.uncut, sent.eps
    )
    changed.save(tmp_path / "odd")
    found = Broadcast.load(tmp_path / "odd")
    assert found.cuts.direction.tobytes() == odd.tobytes()
    assert found.hash == changed.hash != sent.hash


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_no_sites_counts_are_inside(policy: str, tmp_path: Path) -> None:
    """Nor names of sites; nor their sums, exact or rounded, nor anything of a row."""
    model = play(merged(policy=POLICIES[policy], outcomes=("died",)), TABLES, 2)
    model.broadcast.save(tmp_path / "sent")
    told = {path.name: path.read_text() for path in (tmp_path / "sent").iterdir()}
    everything = "".join(told.values())
    for word in ("hull", "leeds", "SECRET", "1960-", "evidence"):
        assert word not in everything
    numbers = [
        float(field)
        for line in told["expectations.csv"].splitlines()[1:]
        for field in line.split(",")[2:]
    ]
    counts = [s.sums for s in model.summaries]
    for each in (*counts, model.sums):
        for count in (*each.T, *each.S.ravel()):
            if count > 1:
                assert count not in numbers
    levels = {level for v in model.study.codebook.variables for level in v.levels}
    lines = told["expectations.csv"].splitlines()[2:]
    assert {line.split(",")[1] for line in lines} == levels


def test_hashes_tell_everything_apart(model: GlobalModel) -> None:
    sent = model.broadcast
    parts: dict[str, Any] = {
        "study": sent.study, "number": sent.number, "clusters": sent.clusters,
        "cuts": sent.cuts, "uncut": sent.uncut, "eps": sent.eps, "selected": sent.selected,
    }  # fmt: skip
    assert Broadcast(**parts).hash == sent.hash
    changes: dict[str, Any] = {
        "study": study(seed=99),
        "number": sent.number + 1,
        "clusters": sent.clusters._replace(log_weights=sent.clusters.log_weights + 1e-15),
        "cuts": sent.cuts._replace(offset=np.nextafter(sent.cuts.offset, 9)),
        "uncut": ~sent.uncut,
        "eps": sent.eps * 2,
        "selected": ("a",),
    }
    hashes = {Broadcast(**{**parts, name: value}).hash for name, value in changes.items()}
    assert len(hashes | {sent.hash}) == len(changes) + 1


def edited(file: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        content = json.loads((folder / file).read_text())
        change(content)
        (folder / file).write_text(json.dumps(content))

    return damage


def replaced(file: str, old: str, new: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new, 1))

    return damage


def last_digit(folder: Path) -> None:
    """Change one number by its last digit: too little for anyone to see."""
    lines = (folder / "expectations.csv").read_text().splitlines()
    fields = lines[3].split(",")
    fields[3] = repr(float(np.nextafter(float(fields[3]), 9)))
    lines[3] = ",".join(fields)
    (folder / "expectations.csv").write_text("\r\n".join(lines) + "\r\n")


def cut_short(folder: Path) -> None:
    text = (folder / "expectations.csv").read_bytes()
    (folder / "expectations.csv").write_bytes(text[: len(text) // 2])


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "no json": lambda folder: (folder / "broadcast.json").unlink(),
    "no sheet": lambda folder: (folder / "expectations.csv").unlink(),
    "no study": lambda folder: (folder / "study.toml").unlink(),
    "json cut": lambda folder: (folder / "broadcast.json").write_text('{"kind": '),
    "other kind": edited("broadcast.json", lambda c: c.update(kind="fedmerdel model")),
    "other version": edited("broadcast.json", lambda c: c.update(version=99)),
    "other exchange": edited("broadcast.json", lambda c: c.update(exchange=9)),
    "exchange of text": edited("broadcast.json", lambda c: c.update(exchange="SECRET")),
    "fewer clusters": edited("broadcast.json", lambda c: c.update(n_clusters=1)),
    "cuts changed": edited("broadcast.json", lambda c: c.update(uncut=[0, 1, 2, 3])),
    "no such cut": edited("broadcast.json", lambda c: c.update(uncut=[77])),
    "selection": edited("broadcast.json", lambda c: c.update(selected=["a"])),
    "no hash": edited("broadcast.json", lambda c: c.pop("hash")),
    "last digit": last_digit,
    "cut short": cut_short,
    "not finite": replaced("expectations.csv", "(weights),,0", "(weights),,inf"),
    "another level": replaced("expectations.csv", "mid", "SECRET"),
    "not text": lambda folder: (folder / "expectations.csv").write_bytes(b"\xff\xfe\x00"),
    "another study": replaced("study.toml", 'name = "s"', 'name = "t"'),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_refused_in_one_line(
    model: GlobalModel, tmp_path: Path, damage: Callable[[Path], Any]
) -> None:
    model.broadcast.save(tmp_path / "sent")
    damage(tmp_path / "sent")
    with pytest.raises(FileError, match="sent") as caught:
        Broadcast.load(tmp_path / "sent")
    assert "\n" not in str(caught.value)
    assert "SECRET" not in str(caught.value)


PARTS_OF_A_MODEL = ["broadcast", "asked", "exchanges.json", "asked/expectations.csv"]


@pytest.mark.parametrize("part", PARTS_OF_A_MODEL)
def test_a_model_without_its_memory_is_refused(
    model: GlobalModel, tmp_path: Path, part: str
) -> None:
    model.save(tmp_path / "model")
    target = tmp_path / "model" / part
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    with pytest.raises(FileError) as caught:
        GlobalModel.load(tmp_path / "model")
    assert "\n" not in str(caught.value)


def test_only_an_earlier_broadcast_is_written_over(model: GlobalModel, tmp_path: Path) -> None:
    model.broadcast.save(tmp_path / "sent")
    merged().broadcast.save(tmp_path / "sent")
    assert Broadcast.load(tmp_path / "sent").number == 1
    (tmp_path / "sent" / "mine.txt").write_text("kept")
    (tmp_path / "empty").mkdir()
    model.broadcast.save(tmp_path / "empty")
    for place in ("sent", "sent/mine.txt"):
        with pytest.raises(FileError):
            model.broadcast.save(tmp_path / place)
    assert (tmp_path / "sent" / "mine.txt").read_text() == "kept"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def saved(model: GlobalModel, folder: Path) -> dict[str, bytes]:
    """Every byte that is known of a model, the centre's memory included."""
    model.save(folder)
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_neither_order_nor_threads_nor_a_folder_between_changes_a_bit(
    model: GlobalModel, tmp_path: Path
) -> None:
    """A model goes on from its folder as it would have from memory."""
    plain = play(model, TABLES, 3)
    told = saved(plain, tmp_path / "plain")
    for way in ("backwards", "threads", "disk"):
        found = model
        for at in range(3):
            replies = replies_of(found, TABLES, n_jobs=3 if way == "threads" else None)
            found = merge_onto(found, replies[::-1] if way == "backwards" else replies)
            if way == "disk":
                found.save(tmp_path / f"disk {at}")
                found = GlobalModel.load(tmp_path / f"disk {at}")
        assert saved(found, tmp_path / way) == told, way
        assert found.record == plain.record
        assert found.broadcast.hash == plain.broadcast.hash
