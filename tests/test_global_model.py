"""The global model: all that is needed to use the clusters, and nothing of any one site."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmerdel import (
    DataError,
    Federation,
    FileError,
    GlobalModel,
    SiteSummary,
    Study,
    Sums,
    assign,
    merge_sites,
    score_samples,
)
from fedmerdel.bundles import pack
from fedmerdel.release.cells import with_missing
from fedmerdel.study.policy import POLICIES
from tests.federations import made_study, summary_of
from tests.outcome_cells import yes_no
from tests.parcels import TABLES, sent
from tests.round_trips import play
from tests.stored import assert_identical, content, refused

FIELDS = {
    "study", "sums", "prior", "rows", "selection_probability", "selected", "outcomes",
    "n_sites", "n_rounds", "elbo", "names", "site_shares", "checks", "membership",
}  # fmt: skip
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

# Such as no word of a study, and no other number, has.
SITES = ("Ørsted-Nørre", "kilmarnock_7731", "zwolle")
DISTINCT = 4217.0


# What it holds.


def distinct(study: Study, seed: int) -> list[SiteSummary]:
    """Three sites with the same two clusters, each number of which is like no other."""
    rng = np.random.default_rng(seed)
    n_levels = study.codebook.n_levels
    likely = [rng.dirichlet(np.full(L, 0.4), 2) * 0.98 + 0.02 / L for L in n_levels]
    found = []
    for site in SITES:
        T = rng.uniform(3000, 9000, 2)
        if site == sorted(SITES)[-1]:
            T[0] = DISTINCT
        parts = []
        for shares in likely:
            near = shares * rng.uniform(0.9, 1.1, shares.shape)
            parts.append(near / near.sum(axis=1, keepdims=True) * T[:, None])
        h = -rng.uniform(3, 9, 2)
        q = -h.sum()  # every row is in these two
        observed = T * rng.uniform(0.8, 0.95, 2)
        died = {"died": yes_no(observed * rng.uniform(0.1, 0.4, 2), observed)}
        sums = Sums(T, np.concatenate(parts, axis=1), h, np.array([[0, q], [q, 0]]))
        found.append(summary_of(study, site, sums, died))
    return found


def federation_of(**options: Any) -> Federation:
    study = made_study(np.array([2, 3, 2, 4]), outcomes=("died",), **options)
    federation = merge_sites(study, distinct(study, 3))
    assert (federation.site_rows > 0).all()
    return federation


def numbers_in(model: GlobalModel) -> np.ndarray:
    """Every number that is written in its files, but for those of the study."""
    files = model.to_files()
    del files["study.toml"]
    found: set[str] = set()
    json.loads(files.pop("model.json"), parse_float=found.add, parse_int=found.add)
    for sheet in files.values():
        found |= {cell for line in sheet.decode().split() for cell in line.split(",")}
    return np.array([float(each) for each in found if NUMBER.fullmatch(each)])


def numbers_of(summary: SiteSummary) -> np.ndarray:
    """Every number of a site that is neither 0 nor the like."""
    T, S, h, Q, outcomes = summary.sums
    parts = [T, S, h, Q, np.array([summary.n_rows])]
    for counts in outcomes.values():
        parts += [with_missing(T, counts), counts]
    every = np.concatenate([np.ravel(part) for part in parts])
    return every[np.abs(every) > 2]


def nearest(numbers: np.ndarray, wanted: np.ndarray) -> float:
    """How near any of these comes to any of the others, relative to its size."""
    return float((np.abs(numbers[:, None] - wanted) / np.abs(wanted)).min())


@pytest.mark.parametrize("prior", ["fixed", "learned"])
@pytest.mark.parametrize("site_shares", [False, True])
def test_no_sites_name_or_count_is_inside(site_shares: bool, prior: str) -> None:
    federation = federation_of(site_shares=site_shares, prior=prior)
    model = federation.model
    everything = [model.to_bytes(), *model.to_files().values(), pickle.dumps(model)]
    for site in SITES:
        spellings = (site.encode(), json.dumps(site).encode()[1:-1])
        inside = [spelling in data for data in everything for spelling in spellings]
        assert any(inside) == site_shares
        assert site not in repr(model)
    found = numbers_in(model)
    for summary in federation.summaries:
        assert nearest(found, numbers_of(summary)) > 1e-9
        assert not set(summary.sums.T.round()) & set(found)
    assert DISTINCT in numbers_of(federation.summaries[-1])
    assert DISTINCT not in found
    # What would be found, if it were there: the sums over all sites are.
    assert nearest(found, federation.sums.T) < 1e-12


def test_it_holds_these_fields_and_no_federation() -> None:
    federation = federation_of()
    model = federation.model
    assert {field.name for field in dataclasses.fields(GlobalModel)} == FIELDS
    model.describe()
    assert model.row_prior is not None
    assert set(vars(model)) <= FIELDS | {"row_prior", "profile"}
    for name in ("summaries", "groups", "lineage", "site_rows", "record", "sites", "broadcast"):
        assert hasattr(federation, name)
        assert not hasattr(model, name)
    assert model.site_shares == {}
    assert (model.n_sites, model.n_rounds, model.n_clusters) == (3, 0, 2)
    assert model.elbo == federation.lower_bound
    assert len(model.to_bytes()) < 20_000


def test_shares_are_there_where_the_study_says_so() -> None:
    federation = federation_of(site_shares=True)
    model = GlobalModel.from_bytes(federation.model.to_bytes())
    assert list(model.site_shares) == sorted(SITES)
    for site, shares in model.site_shares.items():
        rows = federation.site_rows[federation.sites.index(site)]
        np.testing.assert_array_equal(shares, rows / rows.sum())
    told, kept_back = federation.describe(), federation_of()
    assert model.describe() == told
    assert all(list(cluster.sites) == sorted(SITES) for cluster in told)
    # At the centre they are there in any case, and everything else is the same.
    assert kept_back.describe() == told
    assert kept_back.model.describe() == tuple(dataclasses.replace(each, sites={}) for each in told)


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_after_rounds_no_sites_name_is_inside_either(policy: str) -> None:
    federation = play(sent(policy=POLICIES[policy]).federation, TABLES, 2)
    model = federation.model
    assert model.n_rounds == 2
    assert model.elbo == federation.elbo
    for data in (model.to_bytes(), pickle.dumps(model), federation.broadcast.to_bytes()):
        for word in (*TABLES, "SECRET", "1960-"):
            assert word.encode() not in data
    if policy == "none":
        found = numbers_in(model)
        for summary in federation.summaries:
            assert nearest(found, numbers_of(summary)) > 1e-9


# Used at a site.


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "fixed": {"prior": "fixed"},
    "given": {"prior": 0.7},
    "selection": {"variable_selection": True},
    "policy": {"policy": POLICIES["opensafely"]},
    "missing": {"missing": "level"},
    "shares": {"site_shares": True},
}


@cache
def model_under(way: str) -> GlobalModel:
    return sent(**WAYS[way]).federation.model.named({0: "Well", 1: "Ill, and <old>"})


@pytest.fixture(params=WAYS)
def model(request: pytest.FixtureRequest) -> GlobalModel:
    return model_under(request.param)


@pytest.fixture(params=["bytes", "folder", "zip"])
def loaded(request: pytest.FixtureRequest, model: GlobalModel, tmp_path: Path) -> GlobalModel:
    if request.param == "bytes":
        return GlobalModel.from_bytes(model.to_bytes())
    target = tmp_path / ("sent.zip" if request.param == "zip" else "sent")
    model.save(target)
    return GlobalModel.load(target)


def test_a_loaded_model_does_all_that_the_first_one_does(
    model: GlobalModel, loaded: GlobalModel, tmp_path: Path
) -> None:
    assert_identical(loaded, model)
    for table in TABLES.values():
        found, expected = assign(loaded, table), assign(model, table)
        assert found.labels.tobytes() == expected.labels.tobytes()
        assert found.probabilities.tobytes() == expected.probabilities.tobytes()
        assert set(found.labels) == set(range(model.n_clusters))
        one, other = score_samples(loaded, table), score_samples(model, table)
        assert one.tobytes() == other.tobytes()
        assert np.isfinite(one).all()
    assert str(loaded.describe()) == str(model.describe())
    assert [cluster.name for cluster in loaded.describe()][:2] == ["Well", "Ill, and <old>"]
    pages = []
    for each in (loaded, model):
        each.report(tmp_path / "page.html", date="2026-02-03")
        pages.append((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert pages[0] == pages[1]
    assert "Ill, and &lt;old&gt;" in pages[0]
    assert not any(site in pages[0] for site in TABLES) or model.study.site_shares
    for one, other in zip(loaded.sample(50, 7), model.sample(50, 7), strict=True):
        assert one.tolist() == other.tolist()


def test_a_federation_is_taken_by_its_model() -> None:
    federation = sent().federation
    for work in (assign, score_samples):
        one, other = work(federation, TABLES["hull"]), work(federation.model, TABLES["hull"])
        assert_identical(one, other)


def test_the_part_of_a_centres_folder_is_the_model(tmp_path: Path) -> None:
    federation = sent().federation
    federation.save(tmp_path / "centre")
    whole, part = (GlobalModel.load(tmp_path / name) for name in ("centre", "centre/model"))
    for found in (whole, part):
        assert_identical(found, federation.model)
    federation.model.save(tmp_path / "alone")
    assert content(tmp_path / "alone") == content(tmp_path / "centre" / "model")


def test_naming_makes_another_model() -> None:
    model = sent().federation.model
    named = model.named({1: "Ill"})
    assert (model.names, named.names) == ((), ("", "Ill"))
    assert (named.name(0), named.name(1)) == ("cluster 0", "Ill")
    assert set(named.to_files()) - set(model.to_files()) == {"names.csv"}
    assert named.named({1: ""}).to_bytes() == model.to_bytes()


# What no model can be.


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, bytes]], Any]:
    def damage(files: dict[str, bytes]) -> None:
        document = json.loads(files["model.json"])
        change(document)
        files["model.json"] = json.dumps(document).encode()

    return damage


def replaced(name: str, old: str, new: str) -> Callable[[dict[str, bytes]], Any]:
    def damage(files: dict[str, bytes]) -> None:
        assert old.encode() in files[name]
        files[name] = files[name].replace(old.encode(), new.encode(), 1)

    return damage


def put(name: str, text: bytes) -> Callable[[dict[str, bytes]], Any]:
    return lambda files: files.update({name: text})


NAN, HUGE = float("nan"), 10**400
DAMAGES: dict[str, Callable[[dict[str, bytes]], Any]] = {
    "another study": replaced("study.toml", "seed = 0", "seed = 5"),
    "no study": put("study.toml", b"{"),
    "a study of before": replaced("study.toml", "format = 5", "format = 4"),
    "not text": put("sums.csv", b"\xff\xfe"),
    "no table": put("sums.csv", b'"'),
    "empty": put("sums.csv", b""),
    "a word": replaced("sums.csv", "(rows),,0", "(rows),,SECRET"),
    "another level": replaced("sums.csv", "mid", "SECRET"),
    "another order": replaced("sums.csv", "(entropy)", "(rows)"),
    "negative rows": replaced("sums.csv", "(rows),,0,", "(rows),,0,-"),
    "names of others": put("names.csv", b"cluster,name\n77,SECRET\n"),
    "names twice": put("names.csv", b"cluster,name\n0,SECRET\n1,SECRET\n"),
    "no names": put("names.csv", b"SECRET"),
    "no entry": edited(lambda d: d.pop("rows")),
    "no prior": edited(lambda d: d.update(prior=None)),
    "other hash": edited(lambda d: d.update(study_hash="0" * 64)),
    "no clusters": edited(lambda d: d.update(n_clusters=0)),
    "more clusters": edited(lambda d: d.update(n_clusters=3)),
    "very many clusters": edited(lambda d: d.update(n_clusters=10**6)),
    "clusters of text": edited(lambda d: d.update(n_clusters="SECRET")),
    "fewer rows": edited(lambda d: d["rows"].pop()),
    "rows below 0": edited(lambda d: d["rows"].append(-d["rows"].pop())),
    "rows unknown": edited(lambda d: d.update(rows=[NAN] * len(d["rows"]))),
    "rows infinite": edited(lambda d: d.update(rows=[float("inf")] * len(d["rows"]))),
    "elbo unknown": edited(lambda d: d.update(elbo=NAN)),
    "elbo huge": edited(lambda d: d.update(elbo=HUGE)),
    "elbo of text": edited(lambda d: d.update(elbo="SECRET")),
    "fewer components": edited(lambda d: d["prior"].update(n_components=1)),
    "no alpha": edited(lambda d: d["prior"].update(alpha=0)),
    "alpha unknown": edited(lambda d: d["prior"].update(alpha=NAN)),
    "strengths of others": edited(lambda d: d["prior"].update(strength=[1.0])),
    "variables of others": edited(lambda d: d.update(selected=["SECRET"])),
    "shares of variables": edited(lambda d: d["selection_probability"].pop()),
    "no outcomes": edited(lambda d: d.update(outcomes={})),
    "other outcomes": edited(lambda d: d["outcomes"].update(SECRET=d["outcomes"]["died"])),
    "fewer rates": edited(lambda d: d["outcomes"]["died"]["clusters"].pop()),
    "rates above 1": edited(lambda d: d["outcomes"]["died"]["all"].__setitem__(2, 1.5)),
    "a share above 1": edited(lambda d: d["outcomes"]["died"]["all"].__setitem__(0, 1.5)),
    "shares of a site": edited(lambda d: d["site_shares"].update(hull=[1.0])),
    "shares unknown": edited(lambda d: d["site_shares"].update(hull=[NAN] * len(d["rows"]))),
    "no sites": edited(lambda d: d.update(n_sites=0)),
    "rounds below 0": edited(lambda d: d.update(n_rounds=-1)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_refused_in_one_line(damage: Callable[[dict[str, bytes]], Any]) -> None:
    files = model_under("plain").to_files()
    damage(files)
    with pytest.raises((FileError, DataError), match=r"^model: ") as caught:
        GlobalModel.from_bytes(pack(files))
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    assert "SECRET" not in message


def test_the_sheet_for_people_is_not_read() -> None:
    """They may open it, and save it as their program likes; the numbers are in the other one."""
    model = model_under("plain")
    files = {**model.to_files(), "clusters.csv": b"variable;level\r\n"}
    assert_identical(GlobalModel.from_bytes(pack(files)), model)


def test_a_wrong_model_is_refused_with_its_place(tmp_path: Path) -> None:
    model_under("plain").save(tmp_path / "sent")
    (tmp_path / "sent" / "sums.csv").write_bytes(b"")
    with refused(FileError, str(tmp_path / "sent"), "sums.csv"):
        GlobalModel.load(tmp_path / "sent")
