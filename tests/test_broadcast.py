"""What the centre sends out, as files: the same to the last bit, or refused; no site's counts."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmerdel import (
    Broadcast,
    DataError,
    Federation,
    FileError,
    fit_site,
    merge_sites,
    reply_site,
)
from fedmerdel.study.policy import POLICIES
from tests.round_trips import play, replies_of
from tests.site_tables import frame_of, level_numbers, study
from tests.stored import content

PARTS = {"broadcast.json", "expectations.csv"}

TABLES: dict[str, Any] = {
    site: frame_of(level_numbers(300, seed), 1) for seed, site in enumerate(("hull", "leeds"))
}


def merged(**options: Any) -> Federation:
    agreed = study(**options)
    return merge_sites(agreed, [fit_site(agreed, t, site) for site, t in TABLES.items()])


@pytest.fixture(scope="module")
def federation() -> Federation:
    return play(merged(outcomes=("died",)), TABLES, 3)


@pytest.mark.parametrize("rounds", [0, 1, 3])
@pytest.mark.parametrize("selection", [False, True])
def test_it_is_read_back_to_the_last_bit(tmp_path: Path, rounds: int, selection: bool) -> None:
    first = merged(variable_selection=selection, prior=None)
    sent = play(first, TABLES, rounds).broadcast
    sent.save(tmp_path / "sent")
    found = Broadcast.load(tmp_path / "sent")
    assert found.hash == sent.hash
    assert found.study_hash == sent.study_hash == first.study.hash
    assert found.levels == sent.levels
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
    replies = [reply_site(first.study, b, TABLES["hull"], "hull").to_bytes() for b in (found, sent)]
    assert replies[0] == replies[1]


def test_a_centres_folder_holds_it_whole(federation: Federation, tmp_path: Path) -> None:
    federation.save(tmp_path / "centre")
    federation.broadcast.save(tmp_path / "alone")
    for name in PARTS:
        inside = (tmp_path / "centre" / "broadcast" / name).read_bytes()
        assert inside == (tmp_path / "alone" / name).read_bytes()
    assert {path.name for path in (tmp_path / "alone").iterdir()} == PARTS
    assert Broadcast.load(tmp_path / "centre").hash == federation.broadcast.hash


def test_odd_numbers_are_read_back_too(federation: Federation, tmp_path: Path) -> None:
    sent = federation.broadcast
    odd = sent.cuts.direction.copy()
    odd.flat[:6] = [-0.0, 5e-324, -1e18, 2.0**60, 1 / 3, 1e-5]
    cuts = sent.cuts._replace(direction=odd)
    changed = Broadcast(sent.study_hash, 7, sent.levels, sent.clusters, cuts, sent.uncut, sent.eps)
    changed.save(tmp_path / "odd")
    found = Broadcast.load(tmp_path / "odd")
    assert found.cuts.direction.tobytes() == odd.tobytes()
    assert found.hash == changed.hash != sent.hash


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_no_sites_counts_are_inside(policy: str, tmp_path: Path) -> None:
    """Nor names of sites; nor their sums, exact or rounded, nor anything of a row."""
    federation = play(merged(policy=POLICIES[policy], outcomes=("died",)), TABLES, 2)
    federation.broadcast.save(tmp_path / "sent")
    told = {path.name: path.read_text() for path in (tmp_path / "sent").iterdir()}
    everything = "".join(told.values())
    for word in ("hull", "leeds", "SECRET", "1960-", "evidence"):
        assert word not in everything
    numbers = [
        float(field)
        for line in told["expectations.csv"].splitlines()[1:]
        for field in line.split(",")[2:]
    ]
    counts = [s.sums for s in federation.summaries]
    for each in (*counts, federation.sums):
        for count in (*each.T, *each.S.ravel()):
            if count > 1:
                assert count not in numbers
    levels = {level for v in federation.study.codebook.variables for level in v.levels}
    lines = told["expectations.csv"].splitlines()[2:]
    assert {line.split(",")[1] for line in lines} == levels


def test_hashes_tell_everything_apart(federation: Federation) -> None:
    sent = federation.broadcast
    parts: dict[str, Any] = {
        "study_hash": sent.study_hash, "number": sent.number, "levels": sent.levels,
        "clusters": sent.clusters, "cuts": sent.cuts, "uncut": sent.uncut, "eps": sent.eps,
        "selected": sent.selected,
    }  # fmt: skip
    assert Broadcast(**parts).hash == sent.hash
    changes: dict[str, Any] = {
        "study_hash": study(seed=99).hash,
        "levels": (*sent.levels[1:], sent.levels[0]),
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
    "json cut": lambda folder: (folder / "broadcast.json").write_text('{"kind": '),
    "other kind": edited("broadcast.json", lambda c: c.update(kind="fedmerdel model")),
    "other version": edited("broadcast.json", lambda c: c.update(version=99)),
    "earlier version": edited("broadcast.json", lambda c: c.update(version=1)),
    "other round": edited("broadcast.json", lambda c: c.update(round=9)),
    "round of text": edited("broadcast.json", lambda c: c.update(round="SECRET")),
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
    "another study": edited("broadcast.json", lambda c: c.update(study_hash=study(seed=9).hash)),
    "a study inside": lambda folder: study().save(folder / "study.toml"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_refused_in_one_line(
    federation: Federation, tmp_path: Path, damage: Callable[[Path], Any]
) -> None:
    federation.broadcast.save(tmp_path / "sent")
    damage(tmp_path / "sent")
    with pytest.raises(FileError, match="sent") as caught:
        Broadcast.load(tmp_path / "sent")
    assert "\n" not in str(caught.value)
    assert "SECRET" not in str(caught.value)


MEMORY = ["broadcast", "asked", "federation.json", "asked/expectations.csv"]


@pytest.mark.parametrize("part", MEMORY)
def test_a_federation_without_its_memory_is_refused(
    federation: Federation, tmp_path: Path, part: str
) -> None:
    federation.save(tmp_path / "centre")
    target = tmp_path / "centre" / part
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    with pytest.raises(FileError) as caught:
        Federation.load(tmp_path / "centre")
    assert "\n" not in str(caught.value)


def test_only_an_earlier_broadcast_is_written_over(federation: Federation, tmp_path: Path) -> None:
    federation.broadcast.save(tmp_path / "sent")
    merged().broadcast.save(tmp_path / "sent")
    assert Broadcast.load(tmp_path / "sent").number == 1
    (tmp_path / "sent" / "mine.txt").write_text("kept")
    (tmp_path / "empty").mkdir()
    federation.broadcast.save(tmp_path / "empty")
    for place in ("sent", "sent/mine.txt"):
        with pytest.raises(FileError):
            federation.broadcast.save(tmp_path / place)
    assert (tmp_path / "sent" / "mine.txt").read_text() == "kept"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_broadcast_of_another_study_is_refused_at_the_site(federation: Federation) -> None:
    """By its hash, and by its levels: it carries no study that could stand in for the site's."""
    sent = federation.broadcast
    for other in (study(seed=7), study(outcomes=())):
        with pytest.raises(DataError, match="of another study than 's'") as caught:
            reply_site(other, sent, TABLES["hull"], "hull")
        assert "\n" not in str(caught.value)
    forged = dataclasses.replace(sent, levels=(*sent.levels[1:], sent.levels[0]))
    with pytest.raises(DataError, match="of another study than 's'"):
        reply_site(federation.study, forged, TABLES["hull"], "hull")


def saved(federation: Federation, folder: Path) -> dict[str, bytes]:
    """Every byte that is known of a federation, the centre's memory included."""
    federation.save(folder)
    return content(folder)


def test_neither_order_nor_threads_nor_a_folder_between_changes_a_bit(
    federation: Federation, tmp_path: Path
) -> None:
    """A federation goes on from its folder as it would have from memory."""
    plain = play(federation, TABLES, 3)
    told = saved(plain, tmp_path / "plain")
    for way in ("backwards", "threads", "disk"):
        found = federation
        for at in range(3):
            replies = replies_of(found, TABLES, n_jobs=3 if way == "threads" else None)
            found, _ = found.step(replies[::-1] if way == "backwards" else replies)
            if way == "disk":
                found.save(tmp_path / f"disk {at}")
                found = Federation.load(tmp_path / f"disk {at}")
        assert saved(found, tmp_path / way) == told, way
        assert found.record == plain.record
        assert found.broadcast.hash == plain.broadcast.hash
