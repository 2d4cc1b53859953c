"""The ledger of a site: written before anything leaves, never a line less, and it refuses."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerdel import Broadcast, DataError, Federation, FileError, Site, Study, merge_sites
from fedmerdel.site import ledger as module
from fedmerdel.site import own_site
from fedmerdel.site.ledger import FILE, Entry, Ledger, check_release, table_digest
from fedmerdel.swap import take_lock
from tests.command_line import INIT, SITES, Run, agree, done, refused, words

FIRST = Entry(
    "2026-01-01T00:00:00+00:00",
    "summary",
    "lungs",
    "a" * 64,
    0,
    "",
    "opensafely",
    "t.csv",
    "d" * 64,
    400,
    "e" * 64,
)


def reply_of(number: int, **more: object) -> Entry:
    fields = {"what": "reply", "round": number, "broadcast": f"b{number}", "release": f"r{number}"}
    return replace(FIRST, **{**fields, **more})  # type: ignore[arg-type]


@pytest.fixture
def begun(run: Run) -> tuple[Run, Federation]:
    """Three sites with files of their own that have sent their first release."""
    done(run(*INIT))
    for site in SITES:
        done(run("fit", str(agree(run, site)), "-o", f"{site}-0"))
    done(run("merge", "study.toml", *(f"{site}-0" for site in SITES), "-o", "centre-0"))
    return run, Federation.load("centre-0")


def lines(site: str = "leeds") -> list[bytes]:
    return Path(f"{site}-home", FILE).read_bytes().splitlines()


# What it says


def test_what_left_is_written_down(begun: tuple[Run, Federation]) -> None:
    run, _ = begun
    (line,) = lines()
    found = json.loads(line)
    assert (found["what"], found["study"], found["round"]) == ("summary", "lungs", 0)
    assert found["study_hash"] == Study.load("study.toml").hash
    assert found["table_digest"] == hashlib.sha256(Path("leeds.csv").read_bytes()).hexdigest()
    assert found["rows"] == 400
    done(run("reply", "leeds-home/site.toml", "centre-0", "-o", "leeds-1"))
    assert len(lines()) == 2
    out = words(run("ledger", "leeds-home/site.toml"))
    assert "2 releases, of these 1 reply" in out
    assert "agrees to 9 at most" in out
    assert "SECRET" not in Path("leeds-home", FILE).read_text()
    assert "Nothing has left yet" in words(run("ledger", str(agree_again(run))))


def agree_again(run: Run) -> Path:
    Path("empty").mkdir()
    done(run("site", "study.toml", "leeds.csv", "--site", "leeds", "-o", "empty/site.toml"))
    return Path("empty/site.toml")


def test_the_same_release_may_be_made_again(begun: tuple[Run, Federation]) -> None:
    run, _ = begun
    for output in ("again", "leeds-0"):
        done(run("fit", "leeds-home/site.toml", "-o", output))
    assert Path("again/counts.csv").read_bytes() == Path("leeds-0/counts.csv").read_bytes()
    for output in ("leeds-1", "leeds-1-again"):
        done(run("reply", "leeds-home/site.toml", "centre-0", "-o", output))
    assert len(lines()) == 2


# What it refuses


def test_no_more_rounds_than_agreed(begun: tuple[Run, Federation]) -> None:
    """Attack: a centre that asks again and again, each time with other clusters."""
    run, federation = begun
    site = Site.load("leeds-home/site.toml")
    sent = federation.broadcast
    for number in range(1, 10):
        eps = sent.eps * (1 + number / 1000)
        assert site.reply(replace(sent, number=number, eps=eps)).n_clusters == sent.n_clusters
        # One round has one broadcast, for ever.
        with pytest.raises(DataError, match=f"round {number} of this study had its reply"):
            site.reply(replace(sent, number=number, eps=eps * 2))
    with pytest.raises(DataError, match="9 rounds"):
        site.reply(replace(sent, number=10))
    assert len(lines()) == 10
    # A study of another name resets nothing: the rows are the same.
    renamed = replace(Study.load("study.toml"), name="renamed")
    renamed.save("renamed.toml")
    text = Path("leeds-home/site.toml").read_text()
    text = text.replace("study.toml", "renamed.toml").replace(site.study.hash, renamed.hash)
    Path("leeds-home/site.toml").write_text(text)
    site = Site.load("leeds-home/site.toml")
    with pytest.raises(DataError, match=r"9 replies about this table left.*site agrees to 9"):
        site.reply(replace(sent, study_hash=renamed.hash))
    with pytest.raises(DataError, match=r"first release of this table left.*'lungs'"):
        site.fit()
    refused(run("fit", "leeds-home/site.toml", "-o", "x"), "a second, in other clusters")
    assert not Path("x").exists()
    assert len(lines()) == 10


def test_rows_that_changed_need_a_yes(begun: tuple[Run, Federation]) -> None:
    run, _ = begun
    table = pd.read_csv("leeds.csv")
    table.drop(index=[3, 5]).to_csv("leeds.csv", index=False)
    for command in (("fit",), ("reply",)):
        sent = ("centre-0",) if command == ("reply",) else ()
        said = run(*command, "leeds-home/site.toml", *sent, "-o", "x")
        refused(said, "it had 400 rows and has 398", "2 at least", "say --rows-changed")
        assert not Path("x").exists()
    done(run("reply", "leeds-home/site.toml", "centre-0", "-o", "x", "--rows-changed"))
    assert [json.loads(line)["rows_changed"] for line in lines()] == [False, True]
    # What was said yes to is the table now; and what left before may be made again, as it was.
    done(run("fit", "leeds-home/site.toml", "-o", "y"))
    table.to_csv("leeds.csv", index=False)
    done(run("fit", "leeds-home/site.toml", "-o", "z"))
    assert Path("z/counts.csv").read_bytes() == Path("leeds-0/counts.csv").read_bytes()
    refused(run("reply", "leeds-home/site.toml", "centre-0", "-o", "w"), "--rows-changed")


def test_nothing_is_made_before_it_is_known_to_be_allowed(
    begun: tuple[Run, Federation], monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_late(*_: object, **__: object) -> None:
        raise AssertionError

    _, federation = begun
    site = Site.load("leeds-home/site.toml")
    monkeypatch.setattr(own_site, "prepare_reply", too_late)
    with pytest.raises(DataError, match="10"):
        site.reply(replace(federation.broadcast, number=10))
    pd.read_csv("leeds.csv").head(300).to_csv("leeds.csv", index=False)
    with pytest.raises(DataError, match="100 at least"):
        site.reply(federation.broadcast)


@given(st.lists(st.integers(1, 6), max_size=12), st.integers(0, 5), st.integers(0, 5))
def test_the_number_of_replies_is_never_above_either_limit(
    numbers: list[int], study_rounds: int, most_rounds: int
) -> None:
    past: list[Entry] = [FIRST]
    for at, number in enumerate(numbers):
        new = reply_of(number, study_hash=f"study {at % 2}", broadcast=f"b{at}")
        try:
            check_release(past, new, study_rounds, most_rounds)
        except DataError:
            continue
        past.append(new)
    replies = past[1:]
    assert len(replies) <= most_rounds
    for study in ("study 0", "study 1"):
        assert sum(each.study_hash == study for each in replies) <= study_rounds
    assert len({(each.study_hash, each.round) for each in replies}) == len(replies)


# Safe against crashes and hands


def test_it_is_on_the_disk_before_anything_leaves(
    begun: tuple[Run, Federation], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = begun

    def full(_: int) -> None:
        raise OSError

    monkeypatch.setattr(module.os, "fsync", full)
    refused(run("reply", "leeds-home/site.toml", "centre-0", "-o", "x"), "nothing may leave")
    assert not Path("x").exists()


@pytest.mark.parametrize("kept", [1, 40, -2])
def test_a_line_that_a_crash_cut_off_is_no_entry(tmp_path: Path, kept: int) -> None:
    ledger = Ledger(tmp_path)
    for entry in (FIRST, reply_of(1)):
        ledger.add(entry, 9, 9)
    content = ledger.path.read_bytes()
    ledger.add(reply_of(2), 9, 9)
    rest = ledger.path.read_bytes()[len(content) :]
    ledger.path.write_bytes(content + rest[:kept])
    assert ledger.entries() == (FIRST, reply_of(1))
    ledger.add(reply_of(2), 9, 9)
    assert ledger.entries() == (FIRST, reply_of(1), reply_of(2))
    assert ledger.path.read_bytes() == content + rest


def test_a_line_that_lacks_its_end_alone_is_an_entry(tmp_path: Path) -> None:
    """Seen: an editor took the last newline away, and with it what had left."""
    ledger = Ledger(tmp_path)
    for entry in (FIRST, reply_of(1)):
        ledger.add(entry, 9, 9)
    content = ledger.path.read_bytes()
    ledger.path.write_bytes(content[:-1])
    assert ledger.entries() == (FIRST, reply_of(1))
    with pytest.raises(DataError, match="1 reply about this table left already"):
        ledger.add(reply_of(2), 9, 1)
    ledger.add(reply_of(2), 9, 9)
    assert ledger.path.read_bytes().startswith(content)
    assert ledger.entries() == (FIRST, reply_of(1), reply_of(2))
    # One that follows from other lines is none that a crash has cut off.
    last = content.splitlines()[1]
    ledger.path.write_bytes(last)
    with pytest.raises(FileError, match="line 1 is damaged"):
        ledger.entries()


@pytest.mark.parametrize("text", [b"precious", b"a\nb", b"{}", b'{"at" : "1'])
def test_what_is_no_ledger_is_not_cut_off(tmp_path: Path, text: bytes) -> None:
    ledger = Ledger(tmp_path)
    ledger.path.write_bytes(text)
    for use in (ledger.entries, lambda: ledger.add(FIRST, 9, 9)):
        with pytest.raises(FileError, match="line 1 is damaged"):
            use()
    assert ledger.path.read_bytes() == text


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """Seen: a link to another file had this emptied, and written to."""
    ledger, other = Ledger(tmp_path), tmp_path / "other"
    ledger.path.symlink_to(other)
    for there in (False, True):
        if there:
            other.write_bytes(b"precious")
        for use in (ledger.entries, lambda: ledger.add(FIRST, 9, 9)):
            with pytest.raises(FileError, match="is a link"):
                use()
        assert other.exists() == there
    assert other.read_bytes() == b"precious"


def test_a_link_to_a_sites_file_leads_to_its_ledger(begun: tuple[Run, Federation]) -> None:
    """Seen: a link in another folder began a new ledger there."""
    run, _ = begun
    Path("lnk").mkdir()
    Path("lnk/site.toml").symlink_to(Path("leeds-home/site.toml").resolve())
    site = Site.load("lnk/site.toml")
    assert site.ledger is not None
    assert [entry.what for entry in site.ledger.entries()] == ["summary"]
    assert site.table.samefile("leeds.csv")
    assert "1 release," in words(run("ledger", "lnk/site.toml"))
    done(run("reply", "lnk/site.toml", "centre-0", "-o", "leeds-1"))
    assert not Path("lnk", FILE).exists()
    assert len(lines()) == 2


def test_a_table_that_changes_while_it_is_read(
    begun: tuple[Run, Federation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: rows of another table left under the digest of the first."""
    _, federation = begun
    site = Site.load("leeds-home/site.toml")
    real = own_site.open_site_table

    def swapped(source: Path) -> object:
        source.write_bytes(Path("york.csv").read_bytes())
        return real(source)

    monkeypatch.setattr(own_site, "open_site_table", swapped)
    with pytest.raises(DataError, match=r"'leeds\.csv' changed while it was read"):
        site.reply(federation.broadcast)
    assert len(lines()) == 1


def test_a_second_site_file_for_a_table_is_warned_of(run: Run) -> None:
    done(run(*INIT))
    beside = ("site", "study.toml", "leeds.csv", "--site", "leeds", "-o")
    Path("other").mkdir()
    assert "Warning" not in words(run(*beside, "site.toml"))
    done(run("fit", "site.toml", "-o", "leeds-0"))
    assert "this table has releases in the ledger of" in words(run(*beside, "other/site.toml"))
    assert "Warning" not in words(run(*beside, "again.toml"))  # the same ledger
    Path(FILE).write_text("damaged")
    assert "Warning" not in words(run(*beside, "other/again.toml"))


def test_a_changed_line_is_noticed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for entry in (FIRST, reply_of(1), reply_of(2)):
        ledger.add(entry, 9, 9)
    content = ledger.path.read_bytes().splitlines(keepends=True)
    changed = content[1].replace(b'"round": 1', b'"round": 7')
    for wrong in (
        [content[0], changed, content[2]],
        [content[0], content[2]],
        [content[1], content[2]],
        [content[0], content[2], content[1]],
        [content[0], b"{}\n", content[1]],
        [content[0], b"[" * 100_000 + b"\n"],
        [content[0], b"\n", content[1]],
        [content[0].replace(b'"rows": 400', b'"rows": "400"'), *content[1:]],
    ):
        ledger.path.write_bytes(b"".join(wrong))
        with pytest.raises(FileError, match="damaged, or lines before it were changed"):
            ledger.entries()
        with pytest.raises(FileError, match="damaged"):
            ledger.add(reply_of(3), 9, 9)
        assert ledger.path.read_bytes() == b"".join(wrong)


def test_two_at_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with ledger.path.open("ab") as other:
        assert take_lock(other)
        with pytest.raises(FileError, match="in use"):
            ledger.add(FIRST, 9, 9)
    ledger.add(FIRST, 9, 9)
    assert ledger.entries() == (FIRST,)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(FileError, match="no plain file"):
        Ledger(tmp_path).entries()
    with pytest.raises(FileError, match="no plain file"):
        table_digest(tmp_path / FILE)
    with pytest.raises(FileError, match="does not exist"):
        table_digest(tmp_path / "nowhere")


def test_a_first_reply_needs_no_fit_before(begun: tuple[Run, Federation]) -> None:
    """A site that comes late replies to what is sent out."""
    run, federation = begun
    Path("late").mkdir()
    done(run("site", "study.toml", "york.csv", "--site", "late", "-o", "late/site.toml"))
    site = Site.load("late/site.toml")
    sent = Broadcast.from_bytes(federation.broadcast.to_bytes())
    found, _ = federation.step([site.reply(sent)])
    assert "late" in found.sites
    assert merge_sites(federation.study, [site.fit()]).sites == ("late",)
