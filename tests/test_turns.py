"""Turns by files: five sites with rows of their own, a centre, and a model at the end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedmerdel import (
    DataError,
    FedMerDel,
    GlobalModel,
    Promise,
    SigningKey,
    Study,
    Sums,
    draft_study,
    fit_site,
    simulate,
)
from fedmerdel.centre.federation import model_of_total
from fedmerdel.centre.summed import summed_up
from fedmerdel.errors import OptionError
from fedmerdel.keys import key_fingerprint
from fedmerdel.masking.work import History, Opened
from fedmerdel.site import turn_site
from fedmerdel.site.site_file import SiteFile
from fedmerdel.site.turn_site import SiteSums
from fedmerdel.study.priors import study_prior
from fedmerdel.summing.noise import discrete_noise
from fedmerdel.summing.question import Question
from fedmerdel.summing.tally import STEPS, Tally
from tests.command_line import Run, done, refused, words
from tests.toy_keys import key

NAMES = ("hull", "kent", "leeds", "wells", "york")
KEYS = {name: key(60 + i) for i, name in enumerate(NAMES)}
CENTRE = key(59)
ROUNDS = 1


@pytest.fixture(autouse=True)
def quick_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of the same distribution from a seed: opendp's takes a second a turn."""
    rng = np.random.default_rng(0)

    def drawn(scale: float, size: int) -> np.ndarray:
        return discrete_noise(scale, size, rng)

    monkeypatch.setattr(turn_site, "discrete_noise", drawn)


@pytest.fixture
def roster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a study, and a folder with file, key and table for each site."""
    monkeypatch.chdir(tmp_path)
    table = simulate(600, 8, 2, beta=(1.0, 2.0), random_state=1)
    rows = pd.DataFrame(table.X, columns=[f"v{j}" for j in range(8)])
    rng = np.random.default_rng(1)
    rows["died"] = (rng.random(600) < np.array([0.1, 0.6])[table.labels]).astype(int)
    study = replace(
        draft_study(rows, name="turns", outcomes=["died"]),
        promise=Promise("sums"),
        rounds=ROUNDS,
        centre_key=CENTRE.public,
        site_keys={name: each.public for name, each in KEYS.items()},
    )
    study.save("study.toml")
    CENTRE.save("centre.pem")
    for b, name in enumerate(NAMES):
        home = Path(name)
        home.mkdir()
        KEYS[name].save(home / "key.pem")
        rows[b :: len(NAMES)].to_csv(home / "rows.csv", index=False)
        site_file(study, name).save(home / "site.toml")
    for folder in ("out", "in"):
        Path(folder).mkdir()
    return tmp_path


def site_file(study: Study, name: str, **changed: object) -> SiteFile:
    heard = {n: key_fingerprint(k.public) for n, k in KEYS.items() if n != name}
    fields = {
        "name": name,
        "table": Path("rows.csv"),
        "study": Path("../study.toml"),
        "approved": study.hash,
        "weakest_policy": study.policy,
        "most_rounds": study.rounds,
        "approve": "nobody",
        "key": Path("key.pem"),
        "confirmed": heard,
        **changed,
    }
    return SiteFile(**fields)  # type: ignore[arg-type]


def at_site(run: Run, name: str) -> str:
    return done(run("turn", f"{name}/site.toml", "in", "out"))


def at_centre(run: Run) -> str:
    return words(run("turn", "study.toml", "out", "in", "--keep", "centre", "--key", "centre.pem"))


def taken(run: Run, stop: Callable[[str], bool] = lambda said: False) -> str:
    """Let all take turns, until all is told."""
    for _ in range(2 * ROUNDS + 6):
        for name in NAMES:
            at_site(run, name)
        said = at_centre(run)
        if "All is told" in said or stop(said):
            return said
    raise AssertionError(said)


def test_turns_lead_to_a_model_also_when_files_were_lost(roster: Path, run: Run) -> None:
    taken(run, stop=lambda said: "So far" in said)
    before = {path.name: path.read_bytes() for path in Path("in").iterdir()}
    shutil.rmtree("in")
    Path("in").mkdir()
    at_centre(run)
    after = {path.name: path.read_bytes() for path in Path("in").iterdir()}
    assert after
    assert after.items() <= before.items()
    taken(run)
    model = GlobalModel.load("centre/model")
    assert not np.any(model.rows % model.study.policy.step)
    assert len(model.outcome_rates("died")) == model.n_clusters
    assert abs(model.rows.sum() - 600) < 30
    # One opening of all rows, then the rounds; the same turn again adds nothing.
    lines = Path("hull/ledger.jsonl").read_text().splitlines()
    assert len(lines) == 1 + ROUNDS
    assert "All is told" in at_site(run, "hull")
    assert Path("hull/ledger.jsonl").read_text().splitlines() == lines


def test_a_run_that_ends_early_has_the_model_of_its_rounds(roster: Path) -> None:
    """Outcomes are counted in the last round: before, nothing is known of them."""
    study = Study.load("study.toml")
    T, S = np.array([400.0, 200.0]), np.tile([[300.0, 100.0], [50.0, 150.0]], 8)
    state = Sums(T, S, np.zeros(2))
    total = summed_up(study, state, study_prior(study, 20))
    model = model_of_total(study, total, 5, 1)
    assert model.rows.tolist() == [400.0, 200.0]
    assert all(rate.low == 0 and rate.high == 1 for rate in model.outcome_rates("died"))


def test_what_needs_a_site_file_key_or_folder_is_refused(roster: Path, run: Run) -> None:
    study = Study.load("study.toml")
    site_file(study, "hull", key=None).save("hull/no-key.toml")
    refused(run("turn", "hull/no-key.toml", "in", "out"), "secret key")
    refused(run("turn", "study.toml", "out", "in"), "--keep")
    refused(run("turn", "hull/site.toml", "nowhere", "out"), "make it first")
    refused(run("turn", "hull/site.toml", "in", "out", "--end"), "centre's")
    with pytest.raises(DataError, match="no site's own counts"):
        fit_site(study, pd.read_csv("hull/rows.csv"), "hull")


def test_approving_a_study_of_sums_says_what_comes_next(roster: Path, run: Run) -> None:
    said = words(
        run(*("site", "study.toml", "hull/rows.csv", "--site", "hull", "--key", "hull/key.pem"),
            *("-o", "hull/new.toml"))
    )  # fmt: skip
    assert "Ring up other sites" in said
    assert "fedmerdel turn hull/new.toml" in said


def test_a_fingerprint_that_is_not_the_listed_keys_stops_the_site(roster: Path, run: Run) -> None:
    study = Study.load("study.toml")
    wrong = {"york": key_fingerprint(SigningKey.new().public)}
    site_file(study, "hull", confirmed=wrong).save("hull/wrong.toml")
    refused(run("turn", "hull/wrong.toml", "in", "out"), "fingerprint")
    # Keys that nobody has confirmed don't count towards the least number of sites.
    few = {"york": key_fingerprint(KEYS["york"].public)}
    Path("hull/site.toml").unlink()
    site_file(study, "hull", confirmed=few).save("hull/site.toml")
    for name in NAMES:
        at_site(run, name)
    at_centre(run)
    refused(run("turn", "hull/site.toml", "in", "out"), "confirmed here")
    assert not Path("hull/ledger.jsonl").exists()


def history(work: SiteSums) -> tuple[History, Question]:
    """What a site has seen after round 0 of 600 rows, and what it then makes of it."""
    first = work.question(History())
    assert first is not None
    cells = Question.from_bytes(first).cells
    numbers = np.zeros((1, cells.width))
    numbers[0, 0] = 600.0
    tally = Tally(numbers, np.zeros((0, 0)), np.zeros(1), np.zeros(0), np.zeros((1, 1)))
    seen = History((Opened(first, tally.to_vector()),), b"12345678")
    own = work.question(seen)
    assert own is not None
    return seen, Question.from_bytes(own)


def test_a_centre_that_chooses_clusters_gets_no_answer(roster: Path) -> None:
    """One cluster that holds a single pattern would count the people who have it."""
    work = SiteSums(SiteFile.load("hull/site.toml"))
    _, own = history(work)
    pattern = own.clusters.log_levels.copy()
    pattern[0] = np.where(np.arange(pattern.shape[1]) % 2, 0.0, -300.0)
    chosen = own._replace(clusters=own.clusters._replace(log_levels=pattern))
    assert work.agrees(own.to_bytes(), own.to_bytes())
    assert not work.agrees(own.to_bytes(), chosen.to_bytes())


def test_a_site_with_more_than_half_of_all_rows_stops(roster: Path) -> None:
    work = SiteSums(SiteFile.load("hull/site.toml"))
    seen, _ = history(work)
    work.check_totals(seen)
    few = seen.openings[0].totals.copy()
    few[0] = 200 * STEPS
    with pytest.raises(DataError, match="more than half"):
        work.check_totals(seen._replace(openings=(seen.openings[0]._replace(totals=few),)))


def test_every_answer_has_noise_of_its_own_and_the_share_of_one_site(roster: Path) -> None:
    work = SiteSums(SiteFile.load("hull/site.toml"))
    seen, own = history(work)
    asked = own.to_bytes()
    answers = np.array([work.answer(asked, seen, 5) for _ in range(12)])
    spread = np.sqrt(answers.var(axis=0, ddof=1).mean()) / STEPS
    assert spread == pytest.approx(2.0 / np.sqrt(5), rel=0.05)


def test_a_table_that_changes_before_the_mask_is_opened_tells_nothing(roster: Path) -> None:
    work = SiteSums(SiteFile.load("hull/site.toml"))
    with open("hull/rows.csv", "a") as table:
        table.write("1,1,1,1,1,1,1,1,1\n")
    with pytest.raises(DataError, match="changed meanwhile"):
        work.charge(b"\x01" * 32, 0)
    assert not Path("hull/ledger.jsonl").exists()


def test_a_second_study_of_the_table_starts_no_second_count(roster: Path) -> None:
    """A renamed study resets nothing: what left about a table is counted for the table."""
    SiteSums(SiteFile.load("hull/site.toml")).charge(b"\x01" * 32, 0)
    again = replace(Study.load("study.toml"), name="turns, renamed")
    again.save("again.toml")
    SiteFile(**{**vars(site_file(again, "hull")), "study": Path("../again.toml")}).save(
        "hull/again.toml"
    )
    work = SiteSums(SiteFile.load("hull/again.toml"))
    with pytest.raises(DataError, match="a first release of this table left"):
        work.answer(work.question(History()) or b"", History(), 5)


def test_in_one_process_epsilon_is_asked_for_and_rounds_are_not() -> None:
    table = simulate(400, 10, 2, random_state=1)
    site = np.arange(400) % 5
    with pytest.raises(OptionError, match="epsilon"):
        FedMerDel(promise="dp").fit(table.X, groups=site)
    with pytest.raises(OptionError, match="leave it out"):
        FedMerDel(promise="dp", epsilon=1.0, delta=1e-6, rounds=4).fit(table.X, groups=site)
