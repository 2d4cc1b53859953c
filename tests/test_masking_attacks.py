"""One test for each attack on masked sums: what is refused, and that nothing new leaves."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel import DataError
from fedmerdel.masking.centre_part import (
    ASKING,
    OPENING,
    begin_run,
    centre_turn,
    ended,
    missing,
    without,
)
from fedmerdel.masking.masks import digest
from fedmerdel.masking.messages import (
    Answer,
    Ask,
    Head,
    Heads,
    Join,
    Seed,
    context,
    ctx_of,
    signed_head,
    signed_join,
)
from fedmerdel.masking.site_part import join_run
from fedmerdel.masking.site_state import JOINED, MASKED, OPENED, site_messages
from fedmerdel.masking.spelling import read, spelt
from tests.masked import (
    AGREED,
    KEYS,
    LISTED,
    MOST,
    NAMES,
    Run,
    Toy,
    ask_of,
    at_site,
    begun,
    gathered,
    heads_of,
    masked_run,
    member,
    no_randomness,
    opened_run,
    random_of,
    taken,
    vectors,
)
from tests.toy_keys import key

STRANGER = key(200)


def refuses(run: Run, message: bytes, match: str, site: str = "york", **changed: Any) -> None:
    """A site refuses a message, and has charged nothing for it."""
    before = len(run.works[site].charged)
    with pytest.raises(DataError, match=match):
        at_site(run, site, message, **changed)
    assert len(run.works[site].charged) == before


def changed_ask(run: Run, **fields: Any) -> bytes:
    opening = run.centre.ask.opening if run.centre.ask else 0
    return spelt(ask_of(run, opening)._replace(**fields))


# The question


class Trusting(Toy):
    """Answers whatever is asked: so that only the protocol stands in the way."""

    def agrees(self, own: bytes, sent: bytes) -> bool:
        return True


def trusting(run: Run) -> Run:
    return run._replace(works={name: Trusting(each.vector) for name, each in run.works.items()})


def test_a_question_that_does_not_follow_is_not_answered() -> None:
    refuses(begun(), changed_ask(begun(), question=b"count york"), "not the one that follows")
    run = opened_run()
    refuses(run, changed_ask(run, question=b"count york"), "not the one that follows")


def test_another_question_for_others_opens_nothing() -> None:
    """The others are asked for what they can't fill, so that the sum would be one site's."""
    run = trusting(begun())
    other = changed_ask(run, question=b"clusters that nobody fills")
    sites, sent = dict(run.sites), dict(run.sent)
    for name in NAMES:
        turn = at_site(run, name, run.sent["ask-000-00.json"] if name == "york" else other)
        sites[name] = turn.state
        sent.update(turn.messages)
    run = run._replace(sites=sites, sent=sent)
    assert "site 'hull' has answered something else" in waiting(run)
    refuses(run, forged_heads(run), "site 'hull' has answered something else")


def waiting(run: Run) -> str:
    return centre_turn(run.centre, run.sent, run.agreed, run.works["york"]).waiting


def forged_heads(run: Run, **others: Head) -> bytes:
    """What a centre could send that looks at nothing."""
    answers = {n: s.answer for n, s in run.sites.items() if s.answer is not None}
    heads = tuple(others.get(name) or answers[name].head for name in sorted(answers))
    return spelt(Heads(run.sites["york"].opening, run.sites["york"].attempt, heads))


def test_two_questions_in_one_opening() -> None:
    run = trusting(taken(begun(), ["york"]))
    refuses(run, changed_ask(run, question=b"another"), "answered already")
    refuses(run, changed_ask(run, question=b"another", attempt=1), "an opening has one")
    run = trusting(taken(opened_run(), ["york"]))
    refuses(run, changed_ask(run, question=b"another"), "out of order")
    refuses(run, changed_ask(run, question=b"another", attempt=1), "out of order")


def test_a_site_refuses_by_its_own_reckoning() -> None:
    """The callbacks stop a site before anything leaves: its share of the rows, its budget."""

    class Most(Toy):
        def check_totals(self, history: Any) -> None:
            raise DataError("most rows are this site's own")

    class Spent(Toy):
        def charge(self, ctx: bytes, opening: int) -> None:
            raise DataError("the budget is spent")

    run = opened_run()
    refuses(run, run.sent["ask-001-00.json"], "most rows", work=Most(vectors()["york"]))
    run = masked_run()
    refuses(run, run.sent["heads-000-00.json"], "budget is spent", work=Spent(vectors()["york"]))


# The spelling


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"opening":0', b'"opening":"0"'),
        (b'"opening":0', b'"opening":0.0'),
        (b'"opening":0', b'"opening":false'),
        (b'"opening":0', b'"opening": 0'),
        (b'"opening":0', b'"opening":-0'),
        (b'"opening":0,"attempt":0', b'"attempt":0,"opening":0'),
        (b'"opening":0', b'"opening":0,"opening":0'),
        (b'"opening":0', b'"opening":0,"more":0'),
        (b'"attempt":0,', b""),
        (b'"version":1', b'"version":2'),
        (b'"york"', b'"y\\u006frk"'),
        (b"}\n", b"}"),
        (b"}\n", b"}\n\n"),
        (b"}\n", b"}\n{}"),
        (b'{"kind"', b'\xef\xbb\xbf{"kind"'),
        (b"=", b""),
    ],
)
def test_a_message_has_one_spelling(old: bytes, new: bytes) -> None:
    run = begun()
    message = run.sent["ask-000-00.json"]
    assert old in message
    refuses(run, message.replace(old, new), "it is no ask as this software writes it")


def test_a_bit_to_spare_in_base64_is_another_spelling() -> None:
    run = begun()
    message, join = run.sent["ask-000-00.json"], run.sites["york"].join
    spare = spelt(join)[:-3].rsplit(b'"', 1)[1]  # the signature: 86 characters and ==
    other = {b"A": b"B", b"Q": b"R", b"g": b"h", b"w": b"x"}[spare[-3:-2]]
    changed = message.replace(spare, spare[:-3] + other + b"==")
    assert changed != message
    refuses(run, changed, "it is no ask")


@cache
def at_the_second(name: str) -> Run:
    """Sites wait for this message of the second opening."""
    return opened_run() if name.startswith("ask") else masked_run(opened_run())


@given(st.sampled_from(["ask-001-00", "heads-001-00"]), st.data())
@settings(max_examples=60, deadline=None)
def test_no_byte_of_a_message_can_be_changed(name: str, data: st.DataObject) -> None:
    """Each is signed by a site, or follows from what is; whatever arrives is refused in a line."""
    run = at_the_second(name)
    message = bytearray(run.sent[f"{name}.json"])
    at = data.draw(st.integers(0, len(message) - 1))
    message[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != message[at]))
    refuses(run, bytes(message), r"\w")


@pytest.mark.parametrize("junk", [b"\x00", b"[", b'{"a":', b"{", b"9", b'"', b"\xff", b" "])
def test_ten_megabytes_of_junk(junk: bytes) -> None:
    content = junk * (10**7 // len(junk))
    run = begun()
    refuses(run, content, "it is no ask")
    head = b'{"kind":"fedmerdel masked sums: heads","version":1'
    refuses(run, head + content, "it is no heads")
    late = run._replace(sent={**run.sent, "answer-000-00-york.json": content})
    assert "'answer-000-00-york.json' was not taken: it is no answer" in waiting(late)


def test_another_kind_of_message_is_refused() -> None:
    run = begun()
    for kind in ("join-york.json", "join-hull.json"):
        refuses(run, run.sent[kind], "it is no ask")


# The roster


def with_joins(run: Run, joins: list[Join], **fields: Any) -> bytes:
    return changed_ask(run, joins=tuple(sorted(joins, key=lambda join: join.site)), **fields)


def test_a_made_up_site_is_refused() -> None:
    """Keys come from the study: whoever is not listed there is nobody, whatever the roster has."""
    run = begun()
    joins = [join for join in ask_of(run).joins if join.site == "york"]
    for i in range(4):
        join = Join(AGREED.study, f"made-up-{i}", 1, random_of(i)(32), random_of("c", i)(32))
        joins.append(signed_join(join, key(60 + i)))
    refuses(run, with_joins(run, joins), "whose key the study does not list")


def test_a_made_up_key_for_a_listed_site_is_refused() -> None:
    run = begun()
    joins = [signed_join(j, STRANGER) if j.site == "hull" else j for j in ask_of(run).joins]
    refuses(run, with_joins(run, joins), "site 'hull': this is not signed with the key")


def test_unconfirmed_keys_do_not_count() -> None:
    """The study itself may list keys of the centre's own: only compared fingerprints count."""
    run = begun()
    message = run.sent["ask-000-00.json"]
    few = member("york", [LISTED[name] for name in NAMES[:3]])
    refuses(run, message, "of 5 sites in the roster 4 have keys that were confirmed", member=few)
    strangers = member("york", [STRANGER.public, *(LISTED[name] for name in NAMES[:3])])
    refuses(run, message, "of 5 sites in the roster 4 have keys", member=strangers)
    enough = member("york", [LISTED[name] for name in NAMES[:4]])  # and its own
    assert at_site(run, "york", message, member=enough).state.stage == MASKED


def test_a_small_roster_is_refused() -> None:
    run = begun()
    joins = [join for join in ask_of(run).joins if join.site != "hull"]
    refuses(run, with_joins(run, joins), "of 4 sites in the roster 4 .* sums need 5")


def test_a_roster_with_something_twice_is_refused() -> None:
    run = begun()
    joins = {join.site: join for join in ask_of(run).joins}
    york, hull = joins["york"], joins["hull"]
    refuses(run, with_joins(run, [*joins.values(), hull]), "has something twice")
    copied = signed_join(hull._replace(mask_key=york.mask_key), KEYS["hull"])
    others = [join for join in joins.values() if join.site != "hull"]
    refuses(run, with_joins(run, [*others, copied]), "has something twice")
    copied = signed_join(hull._replace(commitment=york.commitment), KEYS["hull"])
    refuses(run, with_joins(run, [*others, copied]), "has something twice")
    refuses(run, changed_ask(run, joins=tuple(reversed(joins.values()))), "not in order")


def test_a_first_question_has_nothing_before_it() -> None:
    run, later = begun(), ask_of(opened_run(), 1)
    refuses(run, changed_ask(run, answers=later.answers), "no first question")
    refuses(run, changed_ask(run, seeds=later.seeds), "no first question")
    refuses(run, changed_ask(run, attempt=100), "no first question")


def test_own_join_must_be_as_it_was() -> None:
    """Also one that the site has signed itself, in another run."""
    run, other = begun(), begun(words="another run")
    others = [join for join in ask_of(run).joins if join.site != "york"]
    refuses(run, with_joins(run, [*others, other.sites["york"].join]), "has joined with")


def test_a_mask_key_that_hides_nothing_is_refused() -> None:
    run = begun()
    hull, *others = ask_of(run).joins
    weak = signed_join(hull._replace(mask_key=bytes(32)), KEYS["hull"])
    refuses(run, with_joins(run, [weak, *others]), "site 'hull': its mask key hides nothing")


@pytest.mark.parametrize("field", ["mask_key", "commitment", "number"])
def test_a_join_that_was_changed_is_refused(field: str) -> None:
    run = begun()
    joins = [
        join._replace(**{field: 9 if field == "number" else random_of("x")(32)})
        if join.site == "hull"
        else join
        for join in ask_of(run).joins
    ]
    refuses(run, with_joins(run, joins), "site 'hull': this is not signed")


# Replays


def test_a_message_of_another_study_is_refused() -> None:
    other = AGREED._replace(study="t" * 64)
    elsewhere = masked_run(begun(agreed=other))
    run = begun()
    refuses(run, elsewhere.sent["ask-000-00.json"], "this is asked for another study")
    joined = elsewhere.sites["hull"].join
    joins = [j if j.site != "hull" else joined for j in ask_of(run).joins]
    refuses(run, with_joins(run, joins), "site 'hull' has joined for another study")
    refuses(masked_run(), elsewhere.sent["heads-000-00.json"], "answered something else")


@pytest.mark.parametrize("agreed", [AGREED, AGREED._replace(promise="another")])
def test_heads_of_another_run_or_promise_are_refused(agreed: Any) -> None:
    run, other = masked_run(), masked_run(begun(agreed=agreed, words="other"))
    refuses(run, other.sent["heads-000-00.json"], "answered something else")
    theirs = other.sites["hull"].answer
    assert theirs is not None
    refuses(run, forged_heads(run, hull=theirs.head), "site 'hull' has answered something else")


def test_heads_of_another_opening_are_refused() -> None:
    run = masked_run(opened_run())
    refuses(run, run.sent["heads-000-00.json"], "not of what was answered last")
    earlier = heads_of(run).heads[0]
    refuses(run, forged_heads(run, hull=earlier), "site 'hull' has answered something else")


def test_the_centre_refuses_what_is_replayed() -> None:
    run, other = taken(opened_run()), taken(begun(words="other"))
    old = {"answer-001-00-hull.json": run.sent["answer-000-00-hull.json"]}
    assert "site 'hull' has answered something else" in waiting(run._replace(sent=run.sent | old))
    fresh = begun()
    theirs = {"answer-000-00-hull.json": other.sent["answer-000-00-hull.json"]}
    assert "answered something else" in waiting(fresh._replace(sent=fresh.sent | theirs))
    foreign = {"answer-000-00-hull.json": taken(fresh).sent["answer-000-00-kent.json"]}
    assert "it is not of site 'hull'" in waiting(fresh._replace(sent=fresh.sent | foreign))


def test_the_centre_refuses_what_was_changed_on_its_way() -> None:
    run = begun()
    answer = read(Answer, taken(run).sent["answer-000-00-hull.json"], MOST)
    changed = spelt(answer._replace(values=answer.values[:-8]))
    sent = run.sent | {"answer-000-00-hull.json": changed}
    assert "site 'hull': its numbers were changed" in waiting(run._replace(sent=sent))
    joining = begin_run(AGREED).state
    forged = spelt(signed_join(run.sites["hull"].join, STRANGER))
    found = centre_turn(joining, {"join-hull.json": forged}, AGREED, run.works["york"])
    assert "site 'hull': this is not signed with the key" in found.waiting
    assert found.state.joins == ()


def test_numbers_of_messages_rise() -> None:
    """A site whose state was put back from an older copy signs a number again, and is noticed."""
    run = masked_run(opened_run())
    last = run.sites["hull"].answer
    assert last is not None
    for number in (last.head.number - 1, 0):
        older = signed_head(last.head._replace(number=number), KEYS["hull"])
        refuses(run, forged_heads(run, hull=older), "site 'hull': its message is older")


# Openings


def test_a_mask_is_opened_for_one_ctx_only() -> None:
    """After that every other roster, attempt, question and transcript of it is refused."""
    run = trusting(taken(masked_run()))
    assert run.sites["york"].stage == OPENED
    refuses(run, changed_ask(run, attempt=1), "out of order")
    refuses(run, changed_ask(run, question=b"another"), "out of order")
    refuses(run, changed_ask(run, opening=0, attempt=99), "out of order")
    refuses(run, changed_ask(run, opening=2), "out of order")
    heads = heads_of(run)
    refuses(run, spelt(heads._replace(attempt=1)), "not of what was answered last")
    refuses(run, spelt(heads._replace(heads=heads.heads[:4])), "not of what was answered last")


def test_a_seed_asked_for_before_all_heads_are_there() -> None:
    run = masked_run()
    heads = heads_of(run)
    for few in (heads.heads[:4], heads.heads[1:], (), (*heads.heads[:3], heads.heads[4])):
        refuses(run, spelt(heads._replace(heads=few)), "not those of the whole roster")
    twice = (heads.heads[0], *heads.heads[:3], heads.heads[4])
    refuses(run, spelt(heads._replace(heads=twice)), "not those of the whole roster")
    refuses(begun(), run.sent["heads-000-00.json"], "not of what was answered last")


@pytest.mark.parametrize("field", ["masked", "seed", "nonce", "ctx", "number", "signature"])
def test_a_centre_that_equivocates_heads(field: str) -> None:
    """No head can be shown as another than its site has signed, to one site or to all."""
    run = masked_run()
    hull = heads_of(run).heads[0]
    other = hull._replace(**{field: 99 if field == "number" else random_of("x")(32)})
    refuses(run, forged_heads(run, hull=other), "site 'hull'")


def test_own_head_must_be_as_it_was() -> None:
    """Another head that the site itself has signed would do, but for this."""
    run = masked_run()
    own = heads_of(run).heads[-1]
    other = signed_head(own._replace(masked=bytes(32)), KEYS["york"])
    refuses(run, forged_heads(run, york=other), "have not what was answered here")


def test_two_answers_of_a_colluder_do_not_part_the_others() -> None:
    """It signs two; each site opens for what it was shown, but the next question shows which."""
    run = masked_run()
    hull = heads_of(run).heads[0]
    second = signed_head(hull._replace(masked=digest(b"other values"), number=9), KEYS["hull"])
    told = at_site(run, "york", forged_heads(run, hull=second))
    run = gathered(taken(run, NAMES[:4])._replace(sites={**run.sites, "york": told.state}))
    run = gathered(run._replace(sent=run.sent | told.messages))
    assert "ask-001-00.json" in run.sent
    refuses(run, run.sent["ask-001-00.json"], "not of what the roster stood by", site="york")


def test_swapped_masks_are_refused() -> None:
    """The numbers of two sites, or their seeds, one for the other."""
    run = opened_run()
    ask = ask_of(run, 1)
    a, b = ask.answers[:2]
    swapped = (a._replace(values=b.values), b._replace(values=a.values), *ask.answers[2:])
    refuses(run, changed_ask(run, answers=swapped), "site 'hull': its numbers were changed")
    s, t = ask.seeds[:2]
    seeds = (s._replace(seed=t.seed), t._replace(seed=s.seed), *ask.seeds[2:])
    refuses(run, changed_ask(run, seeds=seeds), "site 'hull': this is not the seed")
    refuses(run, changed_ask(run, seeds=(t, s, *ask.seeds[2:])), "this is not the seed")
    for other in (s._replace(site="kent"), s._replace(ctx=bytes(32))):
        refuses(run, changed_ask(run, seeds=(other, *ask.seeds[1:])), "this is not the seed")
    refuses(run, changed_ask(run, answers=(b, a, *ask.answers[2:])), "not of what the roster")


def test_a_transcript_that_was_changed_after_the_heads_is_refused() -> None:
    run = opened_run()
    ask = ask_of(run, 1)
    values = np.frombuffer(ask.answers[0].values, "<u8") + np.uint64(1)
    more = (ask.answers[0]._replace(values=values.tobytes()), *ask.answers[1:])
    refuses(run, changed_ask(run, answers=more), "site 'hull': its numbers were changed")
    head = signed_head(ask.answers[0].head._replace(masked=digest(values.tobytes())), KEYS["hull"])
    signed = (Answer(head, values.tobytes()), *ask.answers[1:])
    refuses(run, changed_ask(run, answers=signed), "not of what the roster stood by")
    refuses(run, changed_ask(run, answers=ask.answers[1:]), "not of what the roster stood by")
    refuses(run, changed_ask(run, seeds=ask.seeds[1:]), "a seed is missing")
    refuses(run, changed_ask(run, joins=run.centre.joins), "not of what the roster stood by")


def test_every_part_of_a_ctx_counts() -> None:
    run = opened_run()
    ask, roster, heads = ask_of(run, 1), run.centre.joins, heads_of(run).heads
    changed = [
        (AGREED, roster, ask, heads),
        (AGREED._replace(study="t" * 64), roster, ask, heads),
        (AGREED._replace(promise="counts"), roster, ask, heads),
        (AGREED, roster[1:], ask, heads),
        (AGREED, (roster[0]._replace(mask_key=bytes(32)), *roster[1:]), ask, heads),
        (AGREED, (roster[0]._replace(commitment=bytes(32)), *roster[1:]), ask, heads),
        (AGREED, roster, ask._replace(opening=2), heads),
        (AGREED, roster, ask._replace(attempt=1), heads),
        (AGREED, roster, ask._replace(question=b"other"), heads),
        (AGREED, roster, ask, heads[1:]),
    ]
    found = {ctx_of(context(*each), length) for each in changed for length in (50, 51)}
    assert len(found) == 2 * len(changed)


def test_vectors_of_different_lengths_are_not_opened() -> None:
    run = begun({**vectors(), "hull": np.zeros(7, dtype=np.int64)})
    run = taken(run)
    assert "vectors have different lengths ([7, 50])" in waiting(run)
    refuses(run, forged_heads(run), "site 'hull' has answered something else")


def test_a_nonce_is_the_one_that_was_bound() -> None:
    """Nobody chooses its nonce once it has seen the others'."""
    run = masked_run()
    hull = heads_of(run).heads[0]
    other = signed_head(hull._replace(nonce=bytes(32)), KEYS["hull"])
    refuses(run, forged_heads(run, hull=other), "site 'hull': its nonce is not the one")
    # Nor by joining again, with another commitment, for a later attempt.
    asked = taken(begun(), ["york"])
    late = join_run(AGREED, member("hull"), 9, random_of("late")).state.join
    joins = [late, *(join for join in ask_of(asked).joins if join.site != "hull")]
    refuses(asked, with_joins(asked, joins, attempt=1), "fewer sites, and no others")


# Repeats, files that come late or twice, sites that leave


def test_a_repeat_sends_the_same_bytes() -> None:
    run = taken(begun())
    again = at_site(run, "york", run.sent["ask-000-00.json"], random=no_randomness)
    assert again.messages["answer-000-00-york.json"] == run.sent["answer-000-00-york.json"]
    assert again.state == run.sites["york"]
    run = taken(gathered(run))
    again = at_site(run, "york", run.sent["heads-000-00.json"], random=no_randomness)
    assert again.messages["seed-000-00-york.json"] == run.sent["seed-000-00-york.json"]
    assert len(run.works["york"].charged) == 1
    again = at_site(run, "york", run.sent["ask-000-00.json"], random=no_randomness)
    assert again.messages == site_messages(run.sites["york"])


def test_the_centre_takes_nothing_twice() -> None:
    run = gathered(taken(begun()))
    assert run.centre.stage == OPENING
    assert gathered(run).centre == run.centre
    assert set(missing(run.centre).values()) == {f"seed-000-00-{name}.json" for name in NAMES}


def six() -> tuple[Any, Run]:
    """Six sites, so that one may leave."""
    KEYS["zennor"] = key(70)
    agreed = AGREED._replace(keys={**LISTED, "zennor": KEYS["zennor"].public})
    return agreed, begun(vectors((*NAMES, "zennor")), agreed)


def test_a_site_that_leaves_before_the_first_opening() -> None:
    agreed, run = six()
    run = gathered(taken(run))
    assert run.centre.stage == ASKING
    assert missing(run.centre) == {"zennor": "answer-000-00-zennor.json"}
    earlier = dict(run.sent)
    turn = without(run.centre, ["zennor"], agreed)
    run = run._replace(centre=turn.state, sent=run.sent | turn.messages)
    late = read(Ask, run.sent["ask-000-01.json"], MOST)
    assert [join.site for join in late.joins] == list(NAMES)
    run = opened_run(run)
    plain = vectors((*NAMES, "zennor"))
    np.testing.assert_array_equal(
        run.centre.history.openings[0].totals, sum(plain[name] for name in NAMES)
    )
    # No site has answered both with the same numbers under it, and none opens the first.
    for name in NAMES:
        both = [read(Answer, run.sent[f"answer-000-0{i}-{name}.json"], MOST).values for i in (0, 1)]
        assert both[0] != both[1]
    refuses(run, earlier["ask-000-00.json"], "out of order")
    with pytest.raises(DataError, match="4 sites are left"):
        without(turn.state, ["york"], agreed)


def test_an_earlier_attempt_is_not_opened() -> None:
    """All six have answered the first attempt, and five the second: the first stays closed."""
    agreed, run = six()
    run = taken_all(run)
    first = {name: state.answer for name, state in run.sites.items()}
    turn = without(run.centre, ["zennor"], agreed)
    run = taken(run._replace(centre=turn.state, sent=run.sent | turn.messages))
    heads = tuple(answer.head for answer in first.values() if answer is not None)
    assert len(heads) == 6
    refuses(run, spelt(Heads(0, 0, heads)), "not of what was answered last")
    refuses(run, spelt(Heads(0, 1, heads)), "not those of the whole roster")
    refuses(run, spelt(Heads(0, 1, heads[:5])), "site 'hull' has answered something else")


def test_a_site_that_leaves_after_the_first_opening_stops_the_others() -> None:
    """Totals with and without it would give its numbers: pause, or end with what there is."""
    agreed, run = six()
    run = gathered(taken_all(gathered(taken_all(run))))
    assert run.centre.ask is not None
    assert run.centre.ask.opening == 1
    run = gathered(taken(run))
    assert "1 of 6 sites to answer question 1: zennor." in waiting(run)
    with pytest.raises(DataError, match="the roster stays as it is"):
        without(run.centre, ["zennor"], agreed)
    fewer = ask_of(run, 1)._replace(joins=run.centre.joins[:5], attempt=1)
    refuses(run, spelt(fewer), "out of order")
    last = ended(run.centre)
    assert last.waiting == "The run has ended with 1 totals."
    for name in NAMES:
        state = at_site(run, name, last.messages["end.json"], random=no_randomness).state
        assert len(state.history.openings) == 1
        assert state.secret == b""


def taken_all(run: Run) -> Run:
    return taken(run, run.sites)


def test_nobody_leaves_between_the_heads_and_the_seeds() -> None:
    """Some may have opened their masks, and open none for another roster."""
    agreed, run = six()
    run = gathered(taken_all(run))
    assert run.centre.stage == OPENING
    with pytest.raises(DataError, match="the roster stays as it is"):
        without(run.centre, ["zennor"], agreed)
    with pytest.raises(DataError, match="nothing was opened yet"):
        ended(run.centre)


def test_the_end_comes_in_its_time() -> None:
    run = begun()
    refuses(run, changed_ask(run, question=None), "nothing is asked")
    run = taken(run)
    refuses(run, changed_ask(run, question=None, attempt=1), "an opening has one")
    assert run.sites["york"].stage == MASKED
    assert begun().sites["york"].stage == JOINED


def test_a_wrong_seed_is_not_taken() -> None:
    run = taken(masked_run())
    wrong = Seed("york", heads_of(run).heads[0].ctx, bytes(32))
    sent = run.sent | {"seed-000-00-york.json": spelt(wrong)}
    found = centre_turn(run.centre, sent, AGREED, run.works["york"])
    assert "site 'york': this is not the seed that it was bound to" in found.waiting
    assert found.state.history.openings == ()
    assert "1 of 5 sites to open their masks of question 0: york." in found.waiting
