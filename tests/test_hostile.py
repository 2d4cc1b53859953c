"""Files that have broken readers once, each refused in one line; `make fuzz` looks for more."""

from __future__ import annotations

import gzip
import io
import json
import struct
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedmerdel import (
    Broadcast,
    DataError,
    Federation,
    FileError,
    GlobalModel,
    OptionError,
    Reply,
    SiteSummary,
    Study,
    draft_study,
)
from fedmerdel.bundles import MOST_ENTRIES, pack
from fedmerdel.centre import federation as federation_module
from fedmerdel.model import certainty
from fedmerdel.model import report as model_report
from fedmerdel.records import memory, table_files
from fedmerdel.records.tables import open_readable, open_table
from fedmerdel.release import review_page
from fedmerdel.release.grid import read_grid
from fedmerdel.report.page import check_page_size
from fedmerdel.site.check import check_site
from fedmerdel.sums.arrays import plain_number, plain_numbers, plain_whole, plain_whole_numbers
from fedmerdel.sums.predictive import draw
from fedmerdel.sums.sums import Sums
from tests.command_line import INIT, Run
from tests.parcels import TABLES, Sent, sent
from tests.round_trips import play
from tests.site_tables import study
from tests.stored import refused


@cache
def travelled() -> Sent:
    return sent()


@pytest.fixture
def stepped(tmp_path: Path) -> Path:
    """The folder of a federation after a round."""
    play(travelled().federation, TABLES, 1).save(tmp_path / "centre")
    return tmp_path / "centre"


# Numbers and texts that are none


def spelt(parcel: Any, entry: str, fragment: str) -> dict[str, bytes]:
    """The files of a parcel, with an entry of its document spelt anyhow; a.b is b in a."""
    files = parcel.to_files()
    document = json.loads(files[parcel.DOCUMENT])
    *parents, last = entry.split(".")
    inner = document
    for parent in parents:
        inner = inner[parent]
    assert last in inner
    inner[last] = "HERE"
    text = json.dumps(document).replace('"HERE"', fragment)
    return {**files, parcel.DOCUMENT: text.encode()}


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        (SiteSummary, "disclosure.threshold"),
        (SiteSummary, "n_components"),
        (SiteSummary, "n_clusters"),
        (SiteSummary, "site"),
        (Broadcast, "n_clusters"),
        (Broadcast, "round"),
        (Broadcast, "uncut"),
        (Broadcast, "study_hash"),
        (GlobalModel, "prior"),
        (GlobalModel, "rows"),
        (GlobalModel, "elbo"),
        (GlobalModel, "n_sites"),
    ],
)
@pytest.mark.parametrize(
    "fragment",
    [
        *("Infinity", "NaN", "1e400", "1" + "0" * 24, "9" * 5000, '"\\ud800"', '"1"', "[[1]]"),
        *("true", "[true]", '["1"]', "[null]", "[1e18, -1]", '{"a": 1, "a": 1}', "[" * 999),
    ],
    ids=lambda fragment: fragment[:20],
)
def test_what_is_no_such_entry(kind: Any, entry: str, fragment: str) -> None:
    files = spelt(travelled().parcel(kind), entry, fragment)
    if (entry, fragment) in (("site", '"1"'), ("study_hash", '"1"')):
        return  # these are texts
    with refused((FileError, DataError), kind.NOUN):
        kind.from_bytes(pack(files))


@pytest.mark.parametrize("number", ["nan", "inf", "1e400", "-1e19", "1_000", "٣", "", "0x1", " 1"])
@pytest.mark.parametrize("sheet", ["counts.csv", "overlap.csv", "halves.csv", "outcomes.csv"])
def test_what_is_no_number_in_a_sheet(sheet: str, number: str) -> None:
    files = travelled().reply.to_files()
    lines = files[sheet].decode().split("\r\n")
    lines[1] = ",".join([*lines[1].split(",")[:-1], number])
    with refused(FileError, "reply", sheet):
        Reply.from_bytes(pack({**files, sheet: "\r\n".join(lines).encode()}))


def test_only_numbers_are_numbers() -> None:
    assert plain_numbers([1, 2.5]).tolist() == [1.0, 2.5]
    assert plain_whole_numbers([]).dtype == plain_whole_numbers([3]).dtype == np.int64
    assert (plain_number(3), plain_whole(3)) == (3.0, 3)
    for content in ("1", ["1"], [None], [[1], [2, 3]], {}, None, 3, [True], [{}]):
        with pytest.raises((ValueError, TypeError)):
            plain_numbers(content)
    for content in ([1.5], ["1"], [[1], [2, 3]], 3, None, [True]):
        with pytest.raises((ValueError, TypeError)):
            plain_whole_numbers(content)
    for content in ("1", True, None, [1], {}):
        with pytest.raises(ValueError, match="no number"):
            plain_number(content)
        with pytest.raises(ValueError, match="no whole number"):
            plain_whole(content)
    with pytest.raises(ValueError, match="no whole number"):
        plain_whole(1.0)


RECORDS: list[tuple[str, Any]] = [
    ("move", "shuffle"),
    ("move", None),
    ("move", []),
    ("gain", "much"),
    ("gain", True),
    ("gain", [1.0]),
    ("elbo", "high"),
    ("moved", None),
    ("moved", -0.5),
    ("moved", "0"),
    ("stale", [1]),
    ("stale", None),
    ("number", 1.5),
    ("n_clusters", 0),
    ("n_clusters", "2"),
]


@pytest.mark.parametrize(("name", "value"), RECORDS, ids=str)
def test_what_no_round_brought(stepped: Path, name: str, value: Any) -> None:
    content = json.loads((stepped / "federation.json").read_text())
    content["record"][0][name] = value
    (stepped / "federation.json").write_text(json.dumps(content))
    with refused(FileError, "federation.json", "damaged or was changed"):
        Federation.load(stepped)


@pytest.mark.parametrize(
    "sites",
    [
        ["hull"] * 10_000,
        ["leeds", "hull"],
        ["../sites/hull"],
        [".."],
        "hull",
        [["hull"]],
        [3],
        [""],
    ],
    ids=lambda sites: str(sites)[:30],
)
def test_sites_that_are_no_list_of_folders_are_not_looked_for(
    stepped: Path, sites: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads((stepped / "federation.json").read_text())
    (stepped / "federation.json").write_text(json.dumps({**content, "sites": sites}))
    monkeypatch.setattr("fedmerdel.centre.folder.load_release", None)
    with refused((FileError, DataError), "centre"):
        Federation.load(stepped)


@pytest.mark.parametrize("options", [{"alpha": 5e-324}, {"alpha": 1e300}, {"prior": 1e-300}])
def test_priors_that_no_sum_could_hold(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="from 1e-09 to 1e"):
        study(**options)


def test_clusters_have_a_number_that_memory_allows() -> None:
    assert study(max_clusters=2000).n_components == 2000
    with pytest.raises(OptionError, match=r"1 to 2,000: memory and time grow with the square"):
        study(max_clusters=2001)


# Sizes


def test_a_long_number_costs_no_more_than_others() -> None:
    """An array of texts would give every cell the room of the longest."""
    cells = ["1" * 10**5, *["1"] * 3000]
    names = [f"c{n}" for n in range(len(cells))]
    data = f"label,{','.join(names)}\nx,{','.join(cells)}\n".encode()
    tracemalloc.start()
    try:
        with refused(FileError, "sheet.csv", "a number too large"):
            read_grid("sheet.csv", data, ["label"], names)
        assert tracemalloc.get_traced_memory()[1] < 3 * 10**6
    finally:
        tracemalloc.stop()


def test_a_sheet_of_too_many_rows_is_not_kept() -> None:
    data = b"label,x\n" + b"a,1\n" * 300_000
    with refused(FileError, "sheet.csv", "too much"):
        read_grid("sheet.csv", data, ["label"], ["x"])


def test_a_directory_of_a_million_files_is_not_opened() -> None:
    """A zip's directory alone may fill the memory."""
    data = travelled().summary.to_bytes()
    at, end = data.index(b"PK\x01\x02"), data.rindex(b"PK\x05\x06")
    many = 100_000
    directory = data[at : at + 46 + len("summary.json")] * many
    last = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65_535, 65_535, len(directory), at, 0)
    assert end > at
    data = data[:at] + directory + last
    tracemalloc.start()
    try:
        with refused(FileError, "summary", "too many files"):
            SiteSummary.from_bytes(data)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()
    assert MOST_ENTRIES < many


def test_a_message_has_an_end() -> None:
    files = spelt(travelled().summary, "site", json.dumps("x/" * 10**6))
    with pytest.raises((FileError, DataError)) as caught:
        SiteSummary.from_bytes(pack(files))
    assert len(str(caught.value)) < 11_000


def test_every_file_of_a_parcel_is_text() -> None:
    files = {**travelled().summary.to_files(), "README.txt": b"\xff\xfe"}
    with refused(FileError, "README.txt", "not UTF-8 text"):
        SiteSummary.from_bytes(pack(files))


# Tables of rows


@pytest.mark.parametrize("head", [b"\xff\xfea,b", b"caf\xe9,b", b"a,\xed\xa0\x80"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_header_that_is_no_text(head: bytes, suffix: str, tmp_path: Path) -> None:
    data = head + b"\n1,2\n"
    (tmp_path / f"x{suffix}").write_bytes(gzip.compress(data) if suffix == ".csv.gz" else data)
    with refused(FileError, f"x{suffix}", "can't be read as CSV"):
        open_table(tmp_path / f"x{suffix}")


def write_parquet(path: Path, columns: dict[str, Any], mark: bytes, **options: Any) -> None:
    """Write a Parquet file with some bytes that no text has in place of MARK."""
    written = io.BytesIO()
    parquet.write_table(pa.table(columns), written, compression="none", **options)
    assert b"MARK" in written.getvalue()
    path.write_bytes(written.getvalue().replace(b"MARK", mark))


def test_parquet_with_text_that_is_none(tmp_path: Path) -> None:
    mark = b"\xff\xfe\xed\xa0"
    write_parquet(tmp_path / "name.parquet", {"MARK": [1, 2]}, mark)
    with refused(FileError, "name.parquet", "can't be read as Parquet"):
        open_table(tmp_path / "name.parquet")
    columns = {"bad": ["x", "MARK"], "a": [1, 2], "b": ["y", "z"]}
    write_parquet(tmp_path / "text.parquet", columns, mark)
    found = open_readable(tmp_path / "text.parquet")
    assert found.table.names == ("a", "b")  # the others can be used
    assert "not UTF-8" in found.unreadable["bad"]


def test_parquet_whose_numbers_point_nowhere(tmp_path: Path) -> None:
    """The pages of a column may tell of labels that its dictionary does not have."""
    labels = pa.array([f"l{n}" for n in range(4)] * 8).dictionary_encode()
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"v": labels, "w": labels}), path, compression="none")
    data = path.read_bytes()
    words = []
    for at in range(4, 200):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x0C]) + data[at + 1 :])
        try:
            assert open_readable(path).table.n_rows >= 0
        except (DataError, FileError) as error:
            words.append(str(error))
    assert any("damaged" in each for each in words)
    assert all(each.count("\n") == 0 for each in words)


def test_texts_of_parquet_keep_no_accidental_order(tmp_path: Path) -> None:
    """They are read as numbered labels, and the numbers are an accident."""
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"v": ["z", "a", "m", "a", "z", "m"] * 5}), path)
    assert draft_study(path).codebook.variables[0].levels == ("a", "m", "z")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_table_that_needs_more_memory_than_there_is(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, text = tmp_path / f"x{suffix}", b"a,b,c\n" + b"0,1,2\n" * 300_000
    if suffix == ".parquet":
        part = pa.table({"v": pa.array([0, 1] * 50_000, pa.int64())})
        with parquet.ParquetWriter(path, part.schema) as writer:
            for _ in range(5):
                writer.write_table(part)
    else:
        path.write_bytes(gzip.compress(text, 1) if suffix == ".csv.gz" else text)
    assert open_table(path).n_rows >= 300_000
    monkeypatch.setattr(memory, "free_memory", lambda: 10**6)
    monkeypatch.setattr(table_files, "free_memory", lambda: 10**6)
    with refused(FileError, f"x{suffix}", "memory", "use a larger machine"):
        open_table(path)


def test_memory_that_is_used_up_while_a_table_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.csv").write_bytes(b"a,b\n1,2\n")

    def none_left(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("pyarrow.csv.read_csv", none_left)
    with refused(FileError, "x.csv", "more memory than there is"):
        open_table(tmp_path / "x.csv")


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_memory_is_what_the_system_and_a_limit_leave() -> None:
    code = (
        "import resource; from fedmerdel.records.memory import free_memory as f; a = f();"
        "n = 2**33; resource.setrlimit(resource.RLIMIT_AS, (n, n)); b = f(); print(a, b)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    free, limited = map(int, told.stdout.split())
    assert 10**8 < free
    assert 0 < limited < min(free + 10**9, 2**33)


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any, **__: Any) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", nothing)
    monkeypatch.setattr(memory.os, "sysconf", nothing)
    assert memory.free_memory() is None
    memory.check_memory(10**30, "x")


@pytest.mark.parametrize("line", [b"c," * 600_000, b"x" * 1_100_000])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_header_without_an_end(line: bytes, suffix: str, tmp_path: Path) -> None:
    data = line + b"\n1\n"
    (tmp_path / f"x{suffix}").write_bytes(gzip.compress(data) if suffix == ".csv.gz" else data)
    with refused(FileError, f"x{suffix}", "first line is too long"):
        open_table(tmp_path / f"x{suffix}")


def test_a_million_zeros_behind_a_packed_table(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n") + gzip.compress(b"1,2\n3,4\n")
    for tail, fits in ((b"", True), (b"\0" * 5000, True), (b"\0" * 2**21, False), (b"x", False)):
        (tmp_path / "x.csv.gz").write_bytes(whole + tail)
        if fits:
            assert open_table(tmp_path / "x.csv.gz").n_rows == 2
        else:
            with refused(FileError, "x.csv.gz", "can't be read as CSV"):
                open_table(tmp_path / "x.csv.gz")
    (tmp_path / "x.csv.gz").write_bytes(whole[:-9])
    with refused(FileError, "x.csv.gz", "can't be read as CSV"):
        open_table(tmp_path / "x.csv.gz")


def test_a_table_whose_columns_have_the_names_of_a_dictionary(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"variable,levels\n" + b"a,0|1\n" * 100_001)
    with refused(DataError, "x.csv", "a row for each variable", "100,001"):
        draft_study(tmp_path / "x.csv")


def test_not_all_of_many_columns_are_listed(tmp_path: Path) -> None:
    names = ",".join(f"c{n}" for n in range(300))
    (tmp_path / "x.csv").write_text(f"{names}\n" + (",".join(["0.5"] * 300) + "\n") * 5)
    with refused(DataError, "these 300 columns", "'c99'", "and 200 more"):
        draft_study(tmp_path / "x.csv")


def test_rows_are_never_quoted_whatever_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"a,b\nSECRET,\xff\n")
    try:
        found = check_site(Study("s", study().codebook), tmp_path / "x.csv")
        said = " ".join(found.problems)
    except (DataError, FileError) as error:
        said = str(error)
    assert "SECRET" not in said


# The command line


def test_too_little_memory_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("fedmerdel.commands.site.draft_study", none_left)
    said = run("init", "leeds.csv", "-o", "study.toml")
    assert said.code == 2
    assert said.err.startswith("error: there is not enough memory for this")
    assert said.err.count("\n") == 1


def test_a_screen_that_has_not_all_characters(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", screen)
    said = run(*INIT[:3], "caf\udce9-ł.toml", *INIT[4:])
    shown = screen.buffer.getvalue()  # type: ignore[attr-defined]
    assert said.code == 0, said.err
    assert rb"caf\udce9-\u0142.toml" in shown


def widened(model: GlobalModel, n_clusters: int) -> GlobalModel:
    """The same with many copies of its clusters."""
    T, S, h, *_ = model.sums
    at = np.arange(n_clusters) % len(T)
    rates = {
        name: each._replace(clusters=tuple(each.clusters[k] for k in at))
        for name, each in model.outcomes.items()
    }
    return replace(
        model,
        sums=Sums(T[at], S[at], h[at]),
        rows=model.rows[at],
        prior=model.prior._replace(n_components=n_clusters),
        outcomes=rates,
        names=(),
    )


def test_a_model_of_many_clusters_makes_no_page(tmp_path: Path, run: Run) -> None:
    """Seen: 3.6 MB of a model with 10,000 clusters took 9.5 GB."""
    widened(travelled().federation.model, 2000).save("wide")
    said = run("report", "wide", "-o", "page.html")
    assert said.code == 2
    assert said.err.startswith("error: 2,000 clusters by ")
    assert said.err.count("\n") == 1
    assert not Path("page.html").exists()
    assert len(GlobalModel.load("wide").describe()) == 2000


def test_a_page_has_an_end_in_clusters_levels_and_both() -> None:
    for shape in ((500, 800), (20, 20_000)):
        check_page_size(*shape)
    for shape in ((501, 2), (1, 20_001), (500, 801)):
        with pytest.raises(DataError, match=f"^{shape[0]} clusters by {shape[1]:,} levels"):
            check_page_size(*shape)


def test_a_wide_federation_and_release_make_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (federation_module, model_report, review_page):
        monkeypatch.setattr(f"{module.__name__}.check_page_size", too_wide)
    for module, work in ((federation_module, "doubts_of"), (model_report, "describe")):
        monkeypatch.setattr(module, work, None)
    monkeypatch.setattr(review_page, "review_tables", None)
    federation = travelled().federation
    for write in (
        federation.report,
        federation.model.report,
        partial(review_page.write_review, federation.summaries[0]),
    ):
        with pytest.raises(DataError, match="too wide"):
            write(tmp_path / "page.html")


def too_wide(*_: int) -> None:
    raise DataError("too wide")


def test_drawn_rows_are_held_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model = travelled().federation.model
    K, P = model.n_clusters, len(model.study.codebook.names)
    drawn: list[int] = []

    def noted(*arguments: Any) -> Any:
        drawn.append(arguments[2])
        return draw(*arguments)

    monkeypatch.setattr(certainty, "draw", noted)
    whole, parts = (
        certainty.expected_certainty(model.sums, model.prior, model.row_prior, model.rows[None])
        for at_once in (certainty.AT_ONCE, 999 * max(K, P))
        if monkeypatch.setattr(certainty, "AT_ONCE", at_once) is None
    )
    assert drawn == [20_000, *[999] * 20, 20]
    # Two samples of 20,000: five standard errors.
    assert parts.sure == pytest.approx(whole.sure, abs=5 * 0.5 * np.sqrt(2 / 20_000))
    assert parts.given.sum(axis=1) == pytest.approx(1)
