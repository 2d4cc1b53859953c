"""Arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study's TOML file.")]
TableFile = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV or Parquet file of rows.")]
ModelFolder = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Folder of a model, or of a centre.")
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Write over what is there, and lose what it has.")
]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads; the result is the same.")]
