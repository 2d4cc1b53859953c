"""The keys of a study: who takes part, in its file and in its hash."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerdel import DataError, OptionError, Study
from tests.signing import CENTRE, LISTED, SITES, STRANGER, key
from tests.site_tables import study
from tests.stored import refused

PLAIN, KEYED = study(), study(**LISTED)
HULL, LEEDS = (SITES[site].public for site in ("hull", "leeds"))

site_names = st.text(min_size=1, max_size=6).filter(
    lambda name: (
        name == name.strip()
        and name not in (".", "..")
        and name.isprintable()
        and not any(c in '/\\:"' for c in name)
    )
) | st.sampled_from(['the "Royal"', "a.b", "a b", "ü", "[keys]", "#", "='", "centre", "ё"])


@given(st.lists(site_names, min_size=1, max_size=5, unique=True))
def test_keys_come_back_whatever_the_sites_are_called(names: list[str]) -> None:
    keys = {name: key(number).public for number, name in enumerate(names)}
    listed = replace(PLAIN, centre_key=CENTRE.public, site_keys=keys)
    text = listed.to_text()
    assert all(character.isprintable() or character == "\n" for character in text)
    found = Study.from_bytes(text.encode())
    assert found == listed
    assert found.hash == listed.hash
    assert found.site_keys == tuple(sorted(keys.items()))
    assert {site: found.key_of(site) for site in names} == keys


def test_keys_may_be_written_in_one_line_or_in_a_section() -> None:
    rest = PLAIN.to_text().partition("[keys]")
    after = "[[variable]]" + rest[2].partition("[[variable]]")[2]
    head = f'{rest[0]}[keys]\ncentre = "{CENTRE.public}"\n'
    line = f'sites = {{hull = "{HULL}", leeds = "{LEEDS}"}}\n'
    section = f'[keys.sites]\nleeds = "{LEEDS}"\nhull = "{HULL}"\n'
    for sites in (line, section):
        assert Study.from_bytes(f"{head}{sites}{after}".encode()) == KEYED


def test_keys_change_the_hash_and_a_study_without_keeps_its_own() -> None:
    others = [
        replace(KEYED, centre_key=STRANGER.public),
        replace(KEYED, site_keys={"hull": HULL}),
        replace(KEYED, site_keys={"hull": LEEDS, "leeds": HULL}),
        replace(KEYED, site_keys={"hull": HULL, "Leeds": LEEDS}),
        replace(KEYED, site_keys={"hull": HULL, "leeds": STRANGER.public}),
        replace(KEYED, site_keys={**LISTED["site_keys"], "york": STRANGER.public}),
    ]
    assert len({each.hash for each in (PLAIN, KEYED, *others)}) == 8
    assert replace(KEYED, site_keys=[("leeds", LEEDS), ("hull", HULL)]).hash == KEYED.hash
    assert replace(KEYED, centre_key=None, site_keys={}).hash == PLAIN.hash
    assert len({KEYED, replace(KEYED)}) == 1


def test_who_must_sign() -> None:
    assert PLAIN.key_of("anyone") is None
    assert KEYED.key_of("leeds") == LEEDS
    for site in ("york", "Leeds", "leeds ", ""):
        with refused(DataError, f"site {site!r} is not among the sites"):
            KEYED.key_of(site)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"site_keys": {}}, "site_keys: list the sites' too"),
        ({"centre_key": None}, "centre_key: list the centre's too"),
        ({"centre_key": HULL}, "centre_key: it is that of site 'hull' too"),
        ({"site_keys": {"a": HULL, "b": HULL}}, "site_keys: 'a' and 'b' have the same key"),
        ({"site_keys": {"hull": "x"}}, "site_keys: site 'hull': give a public key"),
        ({"site_keys": {"hull": None}}, "site_keys: site 'hull': give a public key"),
        ({"site_keys": {"hull": HULL + " "}}, "site_keys: site 'hull': give a public key"),
        ({"site_keys": "hull"}, "site_keys: give the public key of each site"),
        ({"site_keys": 3}, "site_keys: give the public key of each site"),
        ({"site_keys": None}, "site_keys: give the public key of each site"),
        ({"centre_key": 3}, "centre_key: give a public key"),
        ({"centre_key": ""}, "centre_key: give a public key"),
        (
            {"centre_key": "ed25519:AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},
            "centre_key: no software gives out this key",
        ),
    ],
)
def test_keys_that_are_refused(fields: dict[str, Any], words: str) -> None:
    with refused(OptionError, words):
        replace(KEYED, **fields)


@pytest.mark.parametrize(
    "site", ["", ".", "..", "a/b", "a\\b", " a", "a\n", "a\x9b", "a\u202eb", "\ud800", 3, None]
)
def test_names_that_no_folder_can_have_are_refused(site: Any) -> None:
    with refused(DataError, f"site {site!r}", "a folder can have"):
        replace(KEYED, site_keys={site: HULL})


def test_a_sites_name_has_an_end() -> None:
    replace(KEYED, site_keys={"a" * 80: HULL})
    with refused(DataError, "has 81 characters: shorten it to 80"):
        replace(KEYED, site_keys={"a" * 81: HULL})


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (f'centre = "{CENTRE.public}"', "section [keys]: site_keys: list"),
        (f'[keys.sites]\nhull = "{HULL}"', "section [keys]: centre_key: list"),
        ('centre = "abc"', "section [keys]: centre_key: give a public key"),
        ("sites = 3", "section [keys]: site_keys: give"),
        ("site = {}", "section [keys]: unknown key 'site': 'sites' may be meant"),
        (f'centre = "{CENTRE.public}"\nsites = {{"a/b" = "{HULL}"}}', "site 'a/b'"),
    ],
)
def test_a_refusal_names_the_place_in_the_file(lines: str, words: str) -> None:
    text = PLAIN.to_text().replace("[keys]", f"[keys]\n{lines}")
    with refused(DataError, "file 'x'", words):
        Study.from_bytes(text.encode(), "file 'x'")
