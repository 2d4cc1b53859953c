"""Tables of rows, edited: Parquet with other types, names and sizes, and CSV like any sheet."""

from __future__ import annotations

import datetime
import gzip
import io
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from fuzz import nasty
from fuzz.noise import edit_bytes
from fuzz.sheets import edit_sheet

EDITS = (
    *("type", "type", "type", "type", "name", "twice", "wide", "no rows", "no columns", "footer"),
    *("footer", "pages", "bytes", "bytes", "nulls", "dictionary", "long", "order", "plain"),
)


def edit_table(data: bytes, suffix: str, rng: Random, other: bytes) -> tuple[bytes, str]:
    """Return a table as a file's bytes with one edit, and what it was."""
    if suffix == ".parquet":
        return edit_parquet(data, rng, other)
    if suffix == ".csv":
        return _edit_csv(data, rng, other)
    data, what = _edit_csv(gzip.decompress(data), rng, other)
    packed = gzip.compress(data, 1, mtime=0)
    if rng.random() < 0.4:
        packed, more = edit_bytes(packed, rng, other)
        what += f"; packed: {more}"
    return packed, what


def _edit_csv(data: bytes, rng: Random, other: bytes) -> tuple[bytes, str]:
    return edit_bytes(data, rng, other) if rng.random() < 0.3 else edit_sheet(data, rng)


def edit_parquet(data: bytes, rng: Random, other: bytes) -> tuple[bytes, str]:
    """Return a Parquet file with one edit, and what it was."""
    what = rng.choice(EDITS)
    table = parquet.read_table(io.BytesIO(data))
    if what == "bytes":
        return edit_bytes(data, rng, other)
    if what in ("footer", "pages"):
        # The footer tells of sizes, places and types; it ends 8 bytes before the end.
        size = int.from_bytes(data[-8:-4], "little")
        first, last = (len(data) - 8 - size, len(data)) if what == "footer" else (4, 400)
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            changed[rng.randrange(first, min(last, len(data)))] = rng.choice((0, 1, 127, 128, 255))
        return bytes(changed), f"parquet: {what}"
    table, told = _edited(table, what, rng)
    written = io.BytesIO()
    parquet.write_table(
        table,
        written,
        compression=rng.choice(("none", "snappy", "gzip", "zstd", "brotli", "lz4")),
        row_group_size=rng.choice((1, 7, 1000)) if table.nbytes < 10**5 else 10**5,
        use_dictionary=rng.random() < 0.7,
    )
    data = written.getvalue()
    if "\\x" in told:  # a mark that only bytes can hold
        data = data.replace(b"MARK", b"\xff\xfe\xed\xa0")
    return data, f"parquet: {what} {told}"


def _edited(table: Any, what: str, rng: Random) -> tuple[Any, str]:
    at = rng.randrange(table.num_columns)
    name, n_rows = table.column_names[at], len(table)
    if what == "type":
        values = rng.choice(_columns(n_rows, rng))
        return table.set_column(at, name, values), f"{name}: {values.type}"
    if what == "name":
        new = rng.choice((nasty.written(rng), "MARK\\x"))
        names = [new if j == at else each for j, each in enumerate(table.column_names)]
        return table.rename_columns([each.replace("\\x", "") for each in names]), repr(new)[:40]
    if what == "twice":
        return table.append_column(name, table.column(at)), name
    if what == "wide":
        n = rng.choice((100, 1500))
        more = {f"c{j}": table.column(at) for j in range(n)}
        return pa.table({**dict(zip(table.column_names, table.columns, strict=True)), **more}), ""
    if what == "no rows":
        return table.slice(0, 0), ""
    if what == "no columns":
        return table.select([]), ""
    if what == "nulls":
        return table.set_column(at, name, pa.nulls(n_rows, rng.choice((pa.null(), pa.int64())))), ""
    if what == "dictionary":
        labels = [f"{n}" for n in range(rng.choice((3, 300, 5000)))]
        numbers = pa.array([rng.randrange(len(labels)) for _ in range(n_rows)])
        return table.set_column(at, name, pa.DictionaryArray.from_arrays(numbers, labels)), ""
    if what == "long":
        n = rng.choice((1000, 300_000))
        return table.take([rng.randrange(n_rows)] * n), f"{n}"
    if what == "order":
        return table.select(table.column_names[::-1]), ""
    return table, ""


def _columns(n_rows: int, rng: Random) -> list[Any]:
    """Columns of every type that Parquet has."""
    big, now = 2**64 - 1, datetime.datetime(2020, 1, 1, 12)
    floats = [1.0, 0.0, float("nan"), float("inf"), -0.0, 1e300, 2.0**53, 5e-324]
    kinds: list[tuple[list[Any], Any]] = [
        ([big, 0], pa.uint64()),
        ([-(2**63), 2**63 - 1], pa.int64()),
        ([rng.choice(floats)], pa.float64()),
        ([0.0, 1.0, None], pa.float32()),
        ([0.0, 1.0], pa.float16()),
        ([b"\xff\xfe", b""], pa.binary()),
        ([b"1234", b"\xff\xff\xff\xff"], pa.binary(4)),
        ([[1], [], None], pa.list_(pa.int64())),
        ([{"a": 1}], pa.struct([("a", pa.int64())])),
        ([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        ([Decimal("1.50"), Decimal("-0.01")], pa.decimal128(10, 2)),
        ([Decimal(10) ** 50], pa.decimal256(60, 0)),
        ([datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], pa.date32()),
        ([now], pa.timestamp(rng.choice(("s", "ms", "us", "ns")), rng.choice((None, "UTC")))),
        ([2**62], pa.timestamp("us")),
        ([datetime.time(1, 2, 3)], pa.time64("us")),
        ([1, -1], pa.duration("s")),
        ([True, None, False], pa.bool_()),
        (["0", "1", ""], pa.string()),
        ([nasty.written(rng)], pa.large_string()),
        ([f"{n}" for n in range(n_rows)], pa.string()),
    ]
    found = []
    for values, kind in kinds:
        listed = (values * (n_rows // len(values) + 1))[:n_rows]
        found.append(pa.array(listed, kind))
    return found


def as_parquet(text: bytes) -> bytes:
    """Return a CSV as a Parquet file."""
    written = io.BytesIO()
    parquet.write_table(csv.read_csv(io.BytesIO(text)), written)
    return written.getvalue()
