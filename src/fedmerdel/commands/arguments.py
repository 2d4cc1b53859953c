"""Arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study's TOML file.")]
StudyOrSite = Annotated[
    Path, typer.Argument(metavar="STUDY", help="The study's TOML file, or the site's own.")
]
SomeTable = Annotated[
    Path | None,
    typer.Argument(metavar="TABLE", help="CSV or Parquet file of rows; the site's file says it."),
]
SiteName = Annotated[
    str | None, typer.Option("--site", help="Name of this site; the site's file says it.")
]
RowsChanged = Annotated[
    bool,
    typer.Option(
        "--rows-changed",
        help="Release although rows were added or withdrawn since the last release.",
    ),
]
TableFile = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV or Parquet file of rows.")]
TableOrSite = Annotated[
    Path, typer.Argument(metavar="TABLE", help="CSV or Parquet file; or the site's own file.")
]
Output = Annotated[Path, typer.Option("-o", "--output", help="Folder, or .zip, to write.")]
CentreFolder = Annotated[Path, typer.Argument(metavar="CENTRE", help="The centre's folder.")]
ModelFolder = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Folder of a model, or of a centre.")
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Write over what is there, and lose what it has.")
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="Your secret key, if the study lists keys."),
]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads; the result is the same.")]
