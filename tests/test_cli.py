"""The command line, from a hospital's table to its labels."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from fedmerdel import Outcome, Study, draft_study
from tests.command_line import (
    INIT,
    NAMES,
    SITES,
    done,
    files,
    first_merge,
    hospital,
    refused,
    words,
)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("packed", ["", ".zip"])
def test_the_whole_story(run, tmp_path: Path, suffix: str, packed: str) -> None:
    out = done(run(*INIT))
    assert "4 variables" in out
    assert "opensafely" in out
    assert "Next: fedmerdel check study.toml" in out
    study = Study.load("study.toml")
    assert (study.name, study.outcomes, study.row_id) == ("lungs", (Outcome("died"),), "patient")

    before = files(tmp_path)
    out = done(run("check", "study.toml", f"leeds{suffix}"))
    assert "400 rows, 4 variables" in out
    assert "Nothing was written" in out
    assert "bmi" in out
    assert files(tmp_path) == before

    for site in SITES:
        target = f"out-{site}{packed}"
        out = done(run("fit", "study.toml", f"{site}{suffix}", "--site", site, "-o", target))
        assert f"Next: fedmerdel review {target}" in out
        out = done(run("review", target))
        assert "opensafely" in out
        assert "Smallest counts that are not 0" in out
        assert "smallest count that is not 0" in out
        assert site in out

    targets = [f"out-{site}{packed}" for site in SITES]
    out = done(run("merge", "study.toml", *targets, "-o", "centre"))
    assert "3 sites became 2 clusters" in " ".join(out.split())
    assert "centre stays here" in " ".join(out.split())
    assert "centre/model may be sent to the sites" in " ".join(out.split())
    assert "Next: fedmerdel describe centre" in out

    out = done(run("describe", "centre"))
    assert "Cluster 0: " in out
    assert "Cluster 1: " in out
    assert "diabetes=1" in out
    assert "conditions a row" in out
    assert "told as 0 stands for 0 to 9 rows: intervals allow for it" in " ".join(out.split())
    assert "died" in out
    assert "leeds" in out

    for labels in ("labels.csv", "labels.parquet"):
        done(run("assign", "centre/model", f"york{suffix}", "-o", labels))
        found = pd.read_csv(labels) if labels.endswith("csv") else pd.read_parquet(labels)
        assert list(found.columns) == ["patient", "cluster", "probability"]
        assert found["patient"].tolist() == [f"SECRET-1-{n}" for n in range(400)]
        assert found["probability"].between(0.5, 1).all()
    done(run("assign", "centre", f"york{suffix}", "-o", "again.csv"))
    assert Path("again.csv").read_bytes() == Path("labels.csv").read_bytes()
    assert not any(name.startswith(".") for name in files(tmp_path))


def test_a_study_from_a_data_dictionary(run, tmp_path: Path) -> None:
    rows = [f"{name},0|1,Has {name}" for name in NAMES]
    (tmp_path / "dictionary.csv").write_text("\n".join(["variable,levels,label", *rows]))
    done(run("init", "dictionary.csv", "-o", "study.toml"))
    study = Study.load("study.toml")
    assert (
        study.codebook
        == draft_study("leeds.csv", exclude=("died", "patient", "seen", "bmi")).codebook
    )
    assert study.label("stroke") == "Has stroke"
    done(run("fit", "study.toml", "leeds.csv", "--site", "leeds", "-o", "leeds"))
    done(run("merge", "study.toml", "leeds", "-o", "centre"))
    for folder in ("centre", "centre/model"):
        assert "Has diabetes=1" in words(run("describe", folder))


def test_names_with_brackets_are_shown_as_they_are(run, tmp_path: Path) -> None:
    table = hospital(300, 0.5, 0)[[*NAMES]].rename(columns={"stroke": "[/b]", "smoker": "[red]"})
    table.to_csv(tmp_path / "odd.csv", index=False)
    done(run("init", "odd.csv", "-o", "study.toml"))
    done(run("fit", "study.toml", "odd.csv", "--site", "[bold]", "-o", "odd"))
    assert "[red]" in done(run("review", "odd"))
    done(run("merge", "study.toml", "odd", "-o", "centre"))
    for folder in ("centre", "centre/model"):
        out = done(run("describe", folder))
        assert "[/b]=1" in out
        assert ("[bold] " in out) == (folder == "centre")


def test_an_empty_folder_is_written_into(run, tmp_path: Path) -> None:
    done(run(*INIT))
    for name in ("leeds", "centre"):
        (tmp_path / name).mkdir()
    done(run("fit", "study.toml", "leeds.csv", "--site", "leeds", "-o", "leeds"))
    done(run("merge", "study.toml", "leeds", "-o", "centre"))
    done(run("describe", "centre"))


def test_rare_outcomes_are_told_in_a_rehearsal(run, tmp_path: Path) -> None:
    done(run(*INIT))
    few = hospital(400, 0.5, 0).assign(died=["yes"] * 7 + ["no"] * 393)
    few.to_csv(tmp_path / "few.csv", index=False)
    out = " ".join(done(run("check", "study.toml", "few.csv")).split())
    assert "Outcome died: fewer than 8 rows are in one of its cells" in out
    assert "as 0 in every cluster" in out
    assert "Outcome" not in done(run("check", "study.toml", "leeds.csv"))


def test_a_fit_that_was_cut_short_is_one_note(run, monkeypatch: pytest.MonkeyPatch) -> None:
    done(run(*INIT))
    monkeypatch.setattr("fedmerdel.fitting.ascent.LEAST_PASSES", 1)
    monkeypatch.setattr("fedmerdel.fitting.ascent.MOST_WORK", 1)
    said = run("fit", "study.toml", "leeds.csv", "--site", "leeds", "-o", "leeds")
    assert said.code == 0
    assert said.err.startswith("note: site 'leeds': not converged after ")
    assert said.err.count("\n") == 1


def test_rows_may_be_told_apart_by_a_date(run, tmp_path: Path) -> None:
    done(run(*INIT))
    text = (tmp_path / "study.toml").read_text().replace('row_id = "patient"', 'row_id = "seen"')
    text = text.replace('policy = "opensafely"', 'policy = "none"')  # two people of one day
    (tmp_path / "study.toml").write_text(text)
    done(run("fit", "study.toml", "leeds.csv", "--site", "leeds", "-o", "leeds"))
    done(run("merge", "study.toml", "leeds", "-o", "centre"))
    for suffix in (".csv", ".parquet"):
        done(run("assign", "centre/model", f"leeds{suffix}", "-o", "labels.csv"))
        ids = pd.read_csv("labels.csv", dtype=str)["seen"]
        assert ids[31].startswith("2020-02-01")


@pytest.fixture
def sent(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site's folder, with a table and the model that the centre has sent, nothing else."""
    first_merge(run)
    done(run("report", "centre-0", "-o", "centre.html"))
    folder = tmp_path / "elsewhere"
    shutil.copytree("centre-0/model", folder / "model")
    shutil.copy("york.csv", folder)
    monkeypatch.chdir(folder)
    return folder


def test_a_model_alone_tells_of_clusters_and_not_of_sites(run, sent: Path) -> None:
    at_the_centre = words(run("describe", "../centre-0"))
    out = words(run("describe", "model"))
    assert all(site in at_the_centre for site in SITES)
    assert not any(site in out for site in SITES)
    assert "at sites" in at_the_centre
    assert "at sites" not in out
    for text in ("Cluster 0: ", "Cluster 1: ", "died", "diabetes=1", "2 clusters of 1,200 rows"):
        assert text in at_the_centre
        assert text in out
    done(run("report", "model", "-o", "model.html"))
    pages = [Path(name).read_text(encoding="utf-8") for name in ("../centre.html", "model.html")]
    assert all(site in pages[0] for site in SITES)
    assert not any(site in pages[1] for site in SITES)
    done(run("name", "model", "--set", "1=Ill"))
    assert "Ill (cluster 1): " in words(run("describe", "model"))


def test_a_model_alone_is_enough_to_assign(run, sent: Path) -> None:
    assert "400 rows assigned" in words(run("assign", "model", "york.csv", "-o", "labels.csv"))
    found = pd.read_csv("labels.csv")
    assert found["patient"].tolist() == [f"SECRET-1-{n}" for n in range(400)]
    # Sites differ in how frequent the clusters are, and each finds its own weights.
    shares = {}
    for site in SITES:
        done(run("assign", "model", f"../{site}.csv", "-o", "labels.csv"))
        shares[site] = (pd.read_csv("labels.csv")["cluster"] == 0).mean()
    by_share = sorted(SITES, key=lambda site: SITES[site])
    assert sorted(shares, key=lambda site: shares[site]) in (by_share, by_share[::-1])
    # A model is no broadcast, and no centre.
    reply = ("reply", "../study.toml", "model", "york.csv", "--site", "york", "-o", "york")
    refused(run(*reply), "broadcast 'model'")
    refused(run("step", "model", "../york-0", "-o", "next"), "federation.json")


def test_a_study_may_say_that_sites_see_each_others_shares(run, tmp_path: Path) -> None:
    done(run(*INIT))
    text = (tmp_path / "study.toml").read_text()
    assert text.count("site_shares = false") == 1
    (tmp_path / "study.toml").write_text(text.replace("site_shares = false", "site_shares = true"))
    for site in ("leeds", "york"):
        done(run("fit", "study.toml", f"{site}.csv", "--site", site, "-o", site))
    done(run("merge", "study.toml", "leeds", "york", "-o", "centre"))
    for folder in ("centre", "centre/model"):
        out = words(run("describe", folder))
        assert "at sites" in out
        assert "leeds" in out
        assert "york" in out
