"""A file is read once, whatever it holds and whatever is asked."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from pyarrow import csv, parquet

from fedmerdel.records import open_table
from tests.command_line import done


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that Arrow reads from here on."""
    read: list[str] = []
    for home, name in ((csv, "read_csv"), (csv, "open_csv"), (parquet, "ParquetFile")):
        original = getattr(home, name)

        def noting(source: Any, *rest: Any, original: Any = original, **options: Any) -> Any:
            read.append(str(getattr(source, "name", source)))
            return original(source, *rest, **options)

        monkeypatch.setattr(home, name, noting)
    return read


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "command",
    [
        "init TABLE -o NEW.toml --outcome died --row-id patient --exclude seen --exclude bmi",
        "check study.toml TABLE",
        "fit study.toml TABLE --site leeds -o NEW",
        "reply study.toml model TABLE --site leeds -o NEW",
        "assign model TABLE -o NEW.csv",
        "models TABLE --k 1-2 --exclude patient --exclude seen --exclude bmi",
    ],
    ids=lambda command: command.split(maxsplit=1)[0],
)
def test_every_command_reads_its_table_once(
    run_in_story, reads: list[str], command: str, suffix: str
) -> None:
    table = f"leeds{suffix}"  # with a column of dates
    new = f"{command.split(maxsplit=1)[0]}-{table}"
    done(run_in_story(*command.replace("TABLE", table).replace("NEW", new).split()))
    assert reads == [table]


@pytest.mark.parametrize(
    ("text", "n_rows"),
    [("sex\nf\n\nm\n", 3), ('\ufeff"sex, born"\r\nf\r\n\r\nm', 3), ("\n\nsex,born\nf,1\n\n", 1)],
)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_empty_lines_need_no_second_look(
    tmp_path: Path, reads: list[str], text: str, n_rows: int, suffix: str
) -> None:
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    assert open_table(path).n_rows == n_rows
    assert reads == [str(path)]
