"""A guide on the command line: drafted, described, and not needed of new rows."""

from __future__ import annotations

import pandas as pd
import pytest

from fedmerdel import Study
from tests.command_line import INIT, SITES, Run, done, refused, words

GUIDED = (*INIT[:4], "--guide", "died=0.5", *INIT[6:])
"""As the tests' study is drafted, with a guide in place of an outcome."""


def test_the_story_with_a_guide(run: Run) -> None:
    done(run(*GUIDED))
    study = Study.load("study.toml")
    assert [(each.name, each.guide) for each in study.codebook.guides] == [("died", 0.5)]
    assert study.outcomes == ()
    for site in SITES:
        done(run("fit", "study.toml", f"{site}.csv", "--site", site, "-o", site))
    done(run("merge", "study.toml", *SITES, "-o", "centre"))
    said = words(run("describe", "centre"))
    assert "diabetes" in said.partition("tell the clusters apart: ")[2].partition("Cluster 0")[0]
    assert said.partition("Cluster 0")[2].count("died (guide) ") == 2
    assert "Helped to find the clusters: died (weight 0.5)." in said
    assert "no validation of them" in said
    done(run("report", "centre", "-o", "page.html"))
    pd.read_csv("york.csv").drop(columns="died").to_csv("new.csv", index=False)
    done(run("assign", "centre/model", "new.csv", "-o", "labels.csv"))
    assert len(pd.read_csv("labels.csv")) == 400


@pytest.mark.parametrize("given", ["died", "died=", "died=much", "=0.5x"])
def test_what_is_no_guide_is_refused(run: Run, given: str) -> None:
    refused(run(*GUIDED[:4], "--guide", given, *GUIDED[6:]), "--guide: give the name of a column")


@pytest.mark.parametrize(
    ("given", "why"),
    [("died=2", "give a weight above 0, and 1 at most"), ("deid=0.5", "there is no variable")],
)
def test_guides_that_no_study_takes(run: Run, given: str, why: str) -> None:
    refused(run(*GUIDED[:4], "--guide", given, *GUIDED[6:]), why)
