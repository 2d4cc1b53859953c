"""Masked vectors: their sum is the sum, and alone they mean nothing."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2

from fedmerdel import DataError, OptionError
from fedmerdel.masking.centre_part import ENDED, centre_waits
from fedmerdel.masking.masks import checked_vector, digest, mask_key, masked, own_mask, total
from fedmerdel.masking.messages import Answer, Seed, run_seed
from fedmerdel.masking.site_state import site_waits
from fedmerdel.masking.spelling import read
from fedmerdel.masking.work import Agreement
from tests.masked import (
    AGREED,
    LISTED,
    MOST,
    NAMES,
    Run,
    begun,
    gathered,
    heads_of,
    masked_run,
    member,
    opened_run,
    random_of,
    taken,
    vectors,
)

CTX = digest(b"a test")


def keys_of(n_sites: int) -> tuple[dict[str, bytes], dict[str, bytes]]:
    secrets = {f"s{i}": random_of("secret", i)(32) for i in range(n_sites)}
    return secrets, {site: mask_key(secret) for site, secret in secrets.items()}


@given(st.integers(2, 6), st.integers(1, 12), st.data())
@settings(max_examples=40, deadline=None)
def test_masked_sums_are_sums(n_sites: int, length: int, data: st.DataObject) -> None:
    secrets, publics = keys_of(n_sites)
    numbers = st.integers(-(2**63), 2**63 - 1)
    plain = data.draw(arrays(np.int64, (n_sites, length), elements=numbers))
    seeds = [random_of("seed", i)(32) for i in range(n_sites)]
    sent = [
        masked(plain[i], seeds[i], secrets[f"s{i}"], f"s{i}", publics, CTX) for i in range(n_sites)
    ]
    with np.errstate(over="ignore"):
        expected = plain.sum(axis=0, dtype=np.int64)
    np.testing.assert_array_equal(total(sent, seeds, CTX), expected)


@pytest.mark.parametrize("opened", [False, True])
def test_one_masked_vector_is_uniform(opened: bool) -> None:
    """All 256 values of a byte are as frequent, also where the site's own mask was taken off."""
    secrets, publics = keys_of(3)
    seed, length = random_of("seed")(32), 20_000
    vector = np.full(length, 7)
    sent = np.frombuffer(masked(vector, seed, secrets["s0"], "s0", publics, CTX), dtype="<u8")
    if opened:
        sent = sent - own_mask(seed, CTX, length)
    times = np.bincount(sent.view(np.uint8), minlength=256)
    expected = length * 8 / 256
    statistic = float(((times - expected) ** 2 / expected).sum())
    assert chi2.ppf(0.001, 255) < statistic < chi2.ppf(0.999, 255)
    assert len(set(sent.tolist())) == length


def test_masks_of_another_ctx_are_others() -> None:
    """Both kinds: else the difference of two masked vectors would be that of what is under them."""
    secrets, publics = keys_of(3)
    seed, length, vector = random_of("seed")(32), 500, np.zeros(500, dtype=np.int64)
    own, shared = [], []
    for ctx in (CTX, digest(b"another")):
        own.append(own_mask(seed, ctx, length))
        sent = masked(vector, seed, secrets["s0"], "s0", publics, ctx)
        shared.append(np.frombuffer(sent, dtype="<u8") - own[-1])
    assert not (own[0] == own[1]).any()
    assert not (shared[0] == shared[1]).any()


def test_all_others_but_one_together_still_do_not_have_a_site() -> None:
    """They take off all that they can; two sites' masks are left, and the total of the two."""
    run = masked_run()
    plain, heads = vectors(), heads_of(run)
    answers = {n: read(Answer, run.sent[f"answer-000-00-{n}.json"], MOST) for n in NAMES}
    seeds = {n: run.sites[n].seed for n in NAMES}
    publics = {join.site: join.mask_key for join in run.centre.joins}
    ctx, victim, honest, liars = heads.heads[0].ctx, NAMES[0], NAMES[1], NAMES[2:]
    zeros = np.zeros(50, dtype=np.int64)
    left = {}
    for name in (victim, honest):
        values = np.frombuffer(answers[name].values, dtype="<u8") - own_mask(seeds[name], ctx, 50)
        for liar in liars:  # what a liar shares with this one, from the liar's own secret
            pair = {name: publics[name], liar: publics[liar]}
            of_liar = masked(zeros, bytes(32), run.sites[liar].secret, liar, pair, ctx)
            values = values + np.frombuffer(of_liar, dtype="<u8") - own_mask(bytes(32), ctx, 50)
        left[name] = values.view(np.int64)
    np.testing.assert_array_equal(left[victim] + left[honest], plain[victim] + plain[honest])
    for each in left.values():
        assert np.abs(each).min() > 10**12  # vectors are below 1,000


def test_a_run_to_its_end() -> None:
    run = begun()
    for _ in range(3):
        run = opened_run(run)
    run = taken(run)
    assert run.centre.stage == ENDED
    plain = sum(vectors().values())
    for history in (run.centre.history, *(run.sites[name].history for name in NAMES)):
        assert len(history.openings) == 3
        for opening, opened in enumerate(history.openings):
            np.testing.assert_array_equal(opened.totals, plain * (1 + opening))
        assert history.seed == run_seed(heads_of(run).heads)
    for name in NAMES:
        state, work = run.sites[name], run.works[name]
        assert (state.secret, state.seed, state.nonce) == (b"", b"", b"")
        assert [opening for _, opening in work.charged] == [0, 1, 2]
        assert len({ctx for ctx, _ in work.charged}) == 3
        assert [len(history.openings) for history in work.looked_at] == [1, 2, 3]


def test_another_run_is_other_bytes() -> None:
    """Nothing that a site sends is a function of its vector and the question alone."""
    runs = [masked_run(taken(masked_run(begun(words=word)))) for word in ("one", "other")]
    for what in ("join", "answer-000-00", "seed-000-00"):
        sent = [run.sent[f"{what}-york.json"] for run in runs]
        assert sent[0] != sent[1]
    values = [read(Answer, run.sent["answer-000-00-york.json"], MOST).values for run in runs]
    same = np.frombuffer(values[0], "<u8") == np.frombuffer(values[1], "<u8")
    assert not same.any()


def test_the_seed_of_a_run_hangs_on_every_nonce() -> None:
    heads = heads_of(masked_run()).heads
    for i, head in enumerate(heads):
        other = (*heads[:i], head._replace(nonce=bytes(32)), *heads[i + 1 :])
        assert run_seed(other) != run_seed(heads)


def test_nothing_secret_is_sent_before_its_time() -> None:
    run = masked_run()
    for name in NAMES:
        state = run.sites[name]
        sent = b"".join(run.sent.values())
        for secret in (state.secret, state.seed):
            assert base64.b64encode(secret) not in sent
            assert secret not in sent


def test_the_centre_says_who_is_waited_for() -> None:
    run = begun()
    assert "5 of 5 sites to answer question 0: hull, kent" in centre_waits(run.centre)
    run = gathered(taken(run, NAMES[:3]))
    assert "2 of 5 sites to answer question 0: wells, york." in centre_waits(run.centre)
    assert site_waits(run.sites["york"]).endswith("for the centre's roster and first question.")
    assert "all have answered question 0" in site_waits(run.sites["hull"])


@pytest.mark.parametrize("least", [0, 2, -5])
def test_sums_over_few_sites_are_no_agreement(least: int) -> None:
    with pytest.raises(OptionError, match=r"^least: of a sum over fewer than 3"):
        AGREED._replace(least=least).check()


def test_a_study_with_few_keys_is_no_agreement() -> None:
    few = {name: LISTED[name] for name in NAMES[:4]}
    with pytest.raises(OptionError, match="keys of 4 sites, and sums need 5"):
        Agreement("s", "sums", few).check()


def test_a_member_has_its_own_key() -> None:
    with pytest.raises(DataError, match="does not list this key"):
        member("york")._replace(site="hull").check(AGREED)


@pytest.mark.parametrize(
    "vector",
    [np.zeros(5), np.zeros((2, 2), dtype=np.int64), np.zeros(0, dtype=np.int64), [1, 2]],
)
def test_an_answer_is_one_vector_of_whole_numbers(vector: Any) -> None:
    with pytest.raises(DataError, match=r"^an answer"):
        checked_vector(vector)


def test_a_seed_is_told_with_what_it_is_for() -> None:
    run: Run = opened_run()
    seed = read(Seed, run.sent["seed-000-00-york.json"], MOST)
    assert seed.ctx == heads_of(run).heads[0].ctx
    assert seed.seed == run.sites["york"].seed
