"""What a user does with each kind of file: commands, or a few calls from Python.

An accepted hostile file may break what comes next, so every use goes on as a user would.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import csv
from typer.main import get_command

from fedmerdel import (
    Broadcast,
    Federation,
    FedMerDel,
    GlobalModel,
    MerDel,
    SigningKey,
    Validation,
    admit,
    draft_study,
    score_samples,
)
from fedmerdel.cli import app
from fedmerdel.model.names_file import read_names
from fedmerdel.parcels import Parcel
from fedmerdel.release.reply import load_release, release_from_bytes
from fedmerdel.study.study import Study

COMMAND = get_command(app)
"""The command line, made once: that takes longer than most cases."""

Use = str | Callable[[Path, Path, Path], Any]
"""Commands, parted by "; ", in which IT is the hostile file, W the folder of real ones, and OUT
a place to write to; or a function of these three."""


class Kind(NamedTuple):
    """A kind of file.

    Attributes
    ----------
    seeds : tuple of str
        Real ones, by their names in a workshop.
    uses : tuple of Use
        What to do with one; each case takes one of them.
    """

    seeds: tuple[str, ...]
    uses: tuple[Use, ...]


def run(use: Use, it: Path, shop: Path, out: Path) -> None:
    """Use a hostile file; whatever goes wrong is raised."""
    if not isinstance(use, str):
        use(it, shop, out)
        return
    for command in use.split("; "):
        words = command.replace("IT", str(it)).replace("OUT", str(out)).replace("W/", f"{shop}/")
        COMMAND.main(args=[*words.split(" "), *_key(command, shop)], standalone_mode=False)


def _key(command: str, shop: Path) -> list[str]:
    """Return what a command needs besides where the study lists keys."""
    name, *rest = command.split(" ")
    owner = rest[rest.index("--site") + 1] if "--site" in rest else "centre"
    at_centre = name in ("merge", "step", "name")
    needed = (at_centre or "--site" in rest) and "--key" not in rest
    return ["--key", f"{shop}/{owner}.key"] if needed and _centre_key(shop) else []


def _centre_key(shop: Path) -> SigningKey | None:
    key = shop / "centre.key"
    return SigningKey.load(key) if key.exists() else None


def _round_trip(it: Path, shop: Path, out: Path) -> None:
    study = Study.load(it)
    again = Study.from_bytes(study.to_text().encode())
    assert again.hash == study.hash
    study.save(out)


def _admitted(it: Path, shop: Path, out: Path) -> None:
    study = Study.load(shop / "study.toml")
    arrived = admit(study, it.read_bytes()) if it.is_file() else load_release(it)
    assert _same(arrived)
    last = Federation.load(shop / "centre")
    if arrived.site in last.sites and len(last.sites) > 1:
        last = last.remove(arrived.site)
    Federation.load(_saved(last.add(arrived), shop, out)).describe()


def _stepped(it: Path, shop: Path, out: Path) -> None:
    reply = release_from_bytes(it.read_bytes()) if it.is_file() else load_release(it)
    assert _same(reply)
    last = Federation.load(shop / "centre")
    following, _ = last.step([reply, *(load_release(shop / f"{s}-1") for s in ("york", "hull"))])
    back = Federation.load(_saved(following, shop, out))
    back.model.describe()
    back.remove(back.sites[0]).describe()


def _replied(it: Path, shop: Path, out: Path) -> None:
    sent = Broadcast.from_bytes(it.read_bytes()) if it.is_file() else Broadcast.load(it)
    assert _same(sent)
    run("reply W/study.toml IT W/leeds.csv --site leeds -o OUT", it, shop, out)


def _modelled(it: Path, shop: Path, out: Path) -> None:
    model = GlobalModel.from_bytes(it.read_bytes()) if it.is_file() else GlobalModel.load(it)
    assert _same(model)
    model.sample(20, random_state=0)
    model.named({0: "x"}).save(out)
    score_samples(GlobalModel.load(out), shop / "leeds.csv")


def _validated(it: Path, shop: Path, out: Path) -> None:
    found = Validation.from_bytes(it.read_bytes()) if it.is_file() else Validation.load(it)
    assert _same(found)
    told = [*found.gains.values(), found.shift, found.adjusted_rand]
    assert "nan" not in str([*told, found.carried, found.shares.tolist()])
    found.save(out)


def _named(it: Path, shop: Path, out: Path) -> None:
    shutil.copytree(shop / "model", out)
    run("name OUT IT", it, shop, out)
    GlobalModel.load(out).named(read_names(it))


def _estimated(kind: type[Any]) -> Use:
    def use(it: Path, shop: Path, out: Path) -> None:
        model = kind.load(it)
        rows = csv.read_csv(shop / "leeds.csv").slice(0, 9)
        names = getattr(model, "feature_names_in_", rows.column_names[: model.n_features_in_])
        rows = rows.select([name for name in names if name in rows.column_names])
        model.predict_proba(rows)
        model.predict(rows)
        model.score_samples(rows)
        model.report(out.with_suffix(".html"), date="today")
        if kind is MerDel:
            model.credible_intervals()
            model.intervals(rows)
            model.sample(5)
        model.save(out)
        kind.load(out)

    use.__name__ = f"load a {kind.__name__}"
    return use


def _drafted(it: Path, shop: Path, out: Path) -> None:
    study = draft_study(it, missing="level")
    assert Study.from_bytes(study.to_text().encode()) == study


def _same(parcel: Parcel) -> bool:
    """Whether it comes back as it is, to the last byte."""
    return type(parcel).from_bytes(parcel.to_bytes()).to_bytes() == parcel.to_bytes()


def _saved(federation: Federation, shop: Path, out: Path) -> Path:
    federation.save(out, key=_centre_key(shop))
    return out


TABLE_USES: tuple[Use, ...] = (
    "init IT -o OUT.toml; check OUT.toml W/leeds.csv",
    "init IT -o OUT.toml --outcome died --exclude id; fit OUT.toml IT --site leeds -o OUT",
    "check W/study.toml IT",
    "check W/study.toml IT",
    "fit W/study.toml IT --site leeds -o OUT; review OUT",
    "assign W/centre/model IT -o OUT.csv",
    "assign W/centre/model IT -o OUT.parquet",
    "reply W/study.toml W/broadcast IT --site leeds -o OUT; review OUT",
    "validate W/model IT --site leeds -o OUT; review OUT",
    _drafted,
)

RELEASE_USES: tuple[Use, ...] = ("review IT", "review IT --html OUT.html")

CENTRE_USES: tuple[Use, ...] = (
    "describe IT",
    "describe IT",
    "report IT -o OUT.html",
    "name IT --set 0=Odd; describe IT",
    "describe IT/model",
    "assign IT W/leeds.csv -o OUT.csv",
    "reply W/study.toml IT W/leeds.csv --site leeds -o OUT",
)

KINDS: dict[str, Kind] = {
    "study": Kind(
        ("study.toml",),
        (
            "check IT W/leeds.csv",
            "fit IT W/leeds.csv --site leeds -o OUT; review OUT",
            "merge IT W/leeds W/york -o OUT",
            "reply IT W/centre W/leeds.csv --site leeds -o OUT",
            _round_trip,
            _round_trip,
        ),
    ),
    "dictionary": Kind(
        ("dictionary.csv",), ("init IT -o OUT.toml; check OUT.toml W/leeds.csv", _drafted)
    ),
    "summary": Kind(
        ("leeds", "york"),
        (
            *RELEASE_USES,
            "merge W/study.toml IT W/hull -o OUT; describe OUT; report OUT -o OUT.html",
            "merge W/study.toml W/hull IT -o OUT --search greedy; "
            "assign OUT W/leeds.csv -o OUT.csv",
            "merge W/study.toml IT -o OUT --search tree; name OUT --set 0=Odd; describe OUT",
            "merge W/study.toml IT W/hull -o OUT; reply W/study.toml OUT W/hull.csv --site hull "
            "-o OUT-1; step OUT OUT-1 -o OUT-2; describe OUT-2",
            "fit W/study.toml W/leeds.csv --site leeds -o IT",
            _admitted,
            _admitted,
        ),
    ),
    "reply": Kind(
        ("leeds-1",),
        (
            *RELEASE_USES,
            "step W/centre IT W/york-1 -o OUT; describe OUT; report OUT -o OUT.html",
            "step W/centre IT -o OUT; describe OUT/model; assign OUT W/leeds.csv -o OUT.csv",
            "step W/centre IT W/york-1 W/hull-1 -o OUT; reply W/study.toml OUT W/leeds.csv "
            "--site leeds -o OUT-1; step OUT OUT-1 -o OUT-2; describe OUT-2",
            "reply W/study.toml W/centre W/leeds.csv --site leeds -o IT",
            _stepped,
            _stepped,
        ),
    ),
    "broadcast": Kind(
        ("broadcast",),
        (
            "reply W/study.toml IT W/leeds.csv --site leeds -o OUT; review OUT",
            "reply W/study.toml IT W/leeds.parquet --site leeds -o OUT; step W/centre OUT -o OUT-1",
            _replied,
        ),
    ),
    "validation": Kind(
        ("elsewhere",),
        ("review IT", "validate W/model W/hull.csv --site hull -o IT", _validated, _validated),
    ),
    "model": Kind(
        ("model",),
        (
            "validate IT W/leeds.csv --site leeds -o OUT; review OUT",
            "describe IT",
            "report IT -o OUT.html",
            "assign IT W/leeds.csv -o OUT.csv",
            "name IT --set 0=Odd; describe IT",
            _modelled,
            _modelled,
        ),
    ),
    "federation": Kind(
        ("centre",),
        (
            *CENTRE_USES,
            "step IT W/leeds-1 W/york-1 -o OUT; describe OUT",
            "merge W/study.toml W/leeds W/york W/hull -o IT",
            "merge W/study.toml W/leeds -o IT --replace",
        ),
    ),
    "federation, a round later": Kind(
        ("centre-1",),
        (
            *CENTRE_USES,
            "reply W/study.toml IT W/leeds.csv --site leeds -o OUT; step IT OUT -o OUT-1; "
            "describe OUT-1",
            "step W/centre W/leeds-1 W/york-1 -o IT",
        ),
    ),
    "site": Kind(
        ("site",),
        (
            "check IT/site.toml",
            "ledger IT/site.toml",
            "fit IT/site.toml -o OUT --rows-changed; ledger IT/site.toml",
            "reply IT/site.toml W/broadcast -o OUT; ledger IT/site.toml",
            "assign W/model IT/site.toml -o OUT.csv",
            "validate W/model IT/site.toml -o OUT; ledger IT/site.toml",
            "site IT/study.toml IT/leeds.csv --site leeds -o OUT.toml; check OUT.toml",
        ),
    ),
    "key": Kind(
        ("leeds.key",),
        (
            "key IT --show",
            "fit W/study.toml W/leeds.csv --site leeds -o OUT --key IT",
            "key IT",
        ),
    ),
    "names": Kind(("names.csv",), (_named,)),
    "estimator": Kind(("merdel.json",), (_estimated(MerDel),)),
    "federated estimator": Kind(("fedmerdel.json",), (_estimated(FedMerDel),)),
    "labels": Kind(("labels.csv", "labels.parquet"), ("assign W/model W/leeds.csv -o IT",)),
    "page": Kind(("page.html",), ("report W/model -o IT", "review W/leeds --html IT")),
    "CSV table": Kind(("leeds.csv",), TABLE_USES),
    "CSV table, packed": Kind(("leeds.csv.gz",), TABLE_USES),
    "Parquet table": Kind(("leeds.parquet",), TABLE_USES),
}
