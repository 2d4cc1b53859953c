"""Real files of every kind that the program reads, small, made once."""

from __future__ import annotations

import gzip
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pyarrow import csv

from fedmerdel import (
    Broadcast,
    Federation,
    FedMerDel,
    GlobalModel,
    MerDel,
    Outcome,
    SigningKey,
    Site,
    Variable,
    draft_study,
    fit_site,
    merge_sites,
    reply_site,
    validate_site,
)
from fedmerdel.errors import FedMerDelWarning
from fedmerdel.parcels import Parcel
from fedmerdel.site.assign import assign
from fedmerdel.site.labels_file import write_labels
from fedmerdel.site.site_file import SiteFile
from fedmerdel.study.policy import policy_named
from fedmerdel.study.promise import Promise
from fedmerdel.study.study import Study
from fuzz.tables import as_parquet

SITES = ("hull", "leeds", "york")

KEYS = {
    owner: SigningKey(Ed25519PrivateKey.from_private_bytes(sha256(owner.encode()).digest()))
    for owner in ("centre", *SITES)
}
"""The same in every run, so that cases are."""

SHOPS: dict[str, dict[str, Any]] = {
    "exact": {"policy": policy_named("none"), "site_shares": True, "checks": True},
    "rounded": {
        "policy": policy_named("opensafely"),
        "variable_selection": True,
        "row_id": "id",
        "checks": True,
        "check_pairs": ("age", "asthma"),
    },
    "signed": {
        "policy": policy_named("none"),
        "missing": "level",
        "centre_key": KEYS["centre"].public,
        "site_keys": {site: KEYS[site].public for site in SITES},
    },
}
"""Three studies: one tells all there is, one little, and in one all that is sent is signed."""

DICTIONARY = (
    b"variable,levels,label\nasthma,0|1,Asthma\nsex,f;m,\nage,18-49|50-69|70+,Age in bands\n"
    b"smoker,TRUE|FALSE,\n"
)


@contextmanager
def workplace() -> Iterator[Workshop]:
    """Make a workshop in a folder that is gone at the end, in memory where the system has that."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        (Path(place) / "shop").mkdir()
        yield Workshop(Path(place) / "shop", Path(place) / "case")


class Workshop:
    """A folder of real files, and the objects that some of them were written from.

    Parameters
    ----------
    folder : Path
        Where to make them; it must be there, and empty.
    bench : Path
        Where one after the other is broken.
    """

    def __init__(self, folder: Path, bench: Path) -> None:
        self.folder, self.bench = folder, bench
        self.parcels: dict[tuple[str, str], Parcel] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FedMerDelWarning)  # of small tables
            for name, options in SHOPS.items():
                (folder / name).mkdir()
                self._make(folder / name, name, options)
        self.trees = {
            (shop, kind): _tree(folder / shop / kind)
            for shop in SHOPS
            for kind in sorted(each.name for each in (folder / shop).iterdir())
        }
        self.files = sorted(
            (content for tree in self.trees.values() for content in tree.values()), key=len
        )[:200]

    def _make(self, folder: Path, shop: str, options: dict[str, Any]) -> None:
        tables = {}
        for site in SITES:
            tables[site] = folder / f"{site}.csv"
            tables[site].write_bytes(_rows(site))
        text = tables["leeds"].read_bytes()
        (folder / "leeds.csv.gz").write_bytes(gzip.compress(text, mtime=0))
        (folder / "leeds.parquet").write_bytes(as_parquet(text))
        (folder / "dictionary.csv").write_bytes(DICTIONARY)
        study = _study(tables["leeds"], options)
        study.save(folder / "study.toml")
        keys = KEYS if study.site_keys else {}
        for owner, key in keys.items():
            key.save(folder / f"{owner}.key")
        fits = [fit_site(study, path, site) for site, path in tables.items()]
        fits = [fit.signed(keys[fit.site]) if keys else fit for fit in fits]
        first = merge_sites(study, fits).named({0: "Stroke, or so"})
        first.save(folder / "centre", key=keys.get("centre"))
        sent = Broadcast.load(folder / "centre")
        replies = [reply_site(study, sent, path, site) for site, path in tables.items()]
        replies = [reply.signed(keys[reply.site]) if keys else reply for reply in replies]
        second, _ = first.step(replies[:2])
        second.save(folder / "centre-1", key=keys.get("centre"))
        (folder / "names.csv").write_bytes(b"cluster,name\n0,Stroke\n1,=x\n")
        self._send(folder, shop, first, replies)
        self._site(folder, study)
        self._estimators(folder, tables["leeds"])

    def _site(self, folder: Path, study: Study) -> None:
        """Make the folder of a site whose own file decides, from which a fit has left."""
        home = folder / "site"
        home.mkdir()
        for name in ("study.toml", "leeds.csv"):
            (home / name).write_bytes((folder / name).read_bytes())
        key = Path("leeds.key") if study.site_keys else None
        if key is not None:
            KEYS["leeds"].save(home / key)
        SiteFile(
            "leeds", Path("leeds.csv"), Path("study.toml"), study.hash, study.policy,
            study.rounds, key=key,
        ).save(home / "site.toml")  # fmt: skip
        Site.load(home / "site.toml").fit()

    def _send(self, folder: Path, shop: str, first: Federation, replies: list[Any]) -> None:
        named = {
            **{summary.site: summary for summary in first.summaries},
            **{f"{reply.site}-1": reply for reply in replies},
            "model": GlobalModel.load(folder / "centre"),
            "broadcast": Broadcast.load(folder / "centre"),
        }
        checked = validate_site(named["model"], folder / "hull.csv", "hull")
        key = KEYS["hull"] if first.study.site_keys else None
        named["elsewhere"] = checked if key is None else checked.signed(key)
        for name, parcel in named.items():
            parcel.save(folder / name)
            self.parcels[shop, name] = parcel
        assigned = assign(named["model"], folder / "leeds.csv")
        for suffix in (".csv", ".parquet"):
            write_labels(folder / f"labels{suffix}", assigned, None, None)
        first.report(folder / "page.html", date="today")

    def _estimators(self, folder: Path, table: Path) -> None:
        rows = csv.read_csv(table).select(["asthma", "sex", "age"])
        MerDel(3, random_state=0).fit(rows).save(folder / "merdel.json")
        sites = [n % 2 for n in range(len(rows))]
        FedMerDel(3, random_state=0).fit(rows, groups=sites).save(folder / "fedmerdel.json")


def _rows(site: str) -> bytes:
    """Return a table of two kinds of people, with entries missing."""
    rng = random.Random(site)
    lines = ["asthma,sex,age,smoker,died,stay,days,ward,unit,id"]
    for n in range(90):
        ill = rng.random() < 0.5
        cells = [
            str(int(rng.random() < (0.85 if ill else 0.1))),
            rng.choice("fm"),
            rng.choices(("18-49", "50-69", "70+"), (1, 2, 9) if ill else (9, 2, 1))[0],
            "true" if rng.random() < (0.8 if ill else 0.2) else "false",
            rng.choice(("yes", "no")),
            f"{rng.expovariate(0.1 if ill else 0.3):.1f}",
            str(rng.randrange(400)),
            rng.choice(("a", "b")),
            rng.choice(("c", "d")),
        ]
        cells = ["" if rng.random() < 0.05 else cell for cell in cells]
        lines.append(",".join([*cells, f"p{n}"]))
    return ("\n".join(lines) + "\n").encode()


OUTCOMES = (
    Outcome("stay", range=(0, 30), strata=(Variable.from_values("ward", ["a", "b"]),)),
    Outcome("days", event="died", ends=(90, 365)),
)
UNIT = Variable.from_values("unit", ["c", "d"])


def _study(table: Path, options: dict[str, Any]) -> Study:
    """Return a study of all that a study may ask for; a guide where no variables are selected."""
    beside = ["died", "stay", "days", "ward", "unit", "id"]
    guide = None if options.get("variable_selection") else {"smoker": 0.5}
    drafted = draft_study(table, name="fuzz", exclude=beside, guide=guide)
    return Study(
        "fuzz", drafted.codebook, outcomes=OUTCOMES, covariates=(UNIT,), max_clusters=4, seed=1,
        rounds=9, promise=Promise(trusts_centre=True), labels={"age": "Age band"}, **options,
    )  # fmt: skip


def _tree(path: Path) -> dict[str, bytes]:
    if path.is_file():
        return {"": path.read_bytes()}
    files = sorted(each for each in path.rglob("*") if each.is_file())
    return {each.relative_to(path).as_posix(): each.read_bytes() for each in files}
