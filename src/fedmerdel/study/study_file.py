"""Reading a study from a TOML file, with the place and the reason of each refusal.

A study file holds no rows, so a message may quote it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fedmerdel.errors import DataError, FileError, OptionError
from fedmerdel.files import read_plain, version_text
from fedmerdel.study.codebook import Codebook, Kind, Value, Variable, level_text
from fedmerdel.study.policy import CUSTOM, POLICIES, Policy, custom_policy, policy_named
from fedmerdel.study.promise import Promise
from fedmerdel.texts import MOST_TOML, TextError, toml_content

FORMAT = 5
"""Version of the format, and of what a study's hash covers."""

NEVER = "never"
"""How the file says that a study has no laps."""

KEYS: dict[str, tuple[str, ...]] = {
    "study": ("format", "name", "seed"),
    "model": (
        *("max_clusters", "recipe", "laps", "merge_criterion"),
        *("alpha", "prior", "variable_selection", "missing"),
    ),
    "disclosure": (
        *("policy", "threshold", "rounding", "source"),
        *("rounds", "site_shares", "checks", "check_pairs"),
    ),
    "promise": (
        *("kind", "trusts_centre", "noise", "least_sites"),
        *("epsilon", "delta", "unit", "honest_sites"),
    ),
    "table": ("row_id", "weight", "outcomes", "covariates"),
    "keys": ("centre", "sites"),
    "variable": ("name", "label", "kind", "levels", "guide"),
}
"""What each section may hold."""

SECTION_OF: dict[str, str] = {
    "labels": "variable",
    "promise": "promise",
    "centre_key": "keys",
    "site_keys": "keys",
    **{key: section for section in KEYS if section != "variable" for key in KEYS[section]},
}
"""The section in which each field of a study is set."""


def study_bytes(path: str | Path) -> bytes:
    """Read the bytes of a study's file."""
    return read_plain(path, f"file {str(path)!r}", MOST_TOML)


def is_study(first: bytes) -> bool:
    """Whether these are the first bytes of a study's file, perhaps changed by hand."""
    return re.search(rb"^[ \t]*\[study\]", first, re.MULTILINE) is not None


def read_study(content: bytes, where: str) -> dict[str, Any]:
    """Read a file's bytes into the arguments of `Study`; their values are checked there.

    Raises
    ------
    FileError
        If the file can't be read, is no TOML, or is of another version.
    DataError
        If a section or key is unknown or missing, or a variable can't be read.
    """
    document = toml_document(content, where)
    _check_sections(document, where)
    for section, keys in KEYS.items():
        if section != "variable":
            _check_keys(document.setdefault(section, {}), keys, f"{where}: section [{section}]")
    arguments: dict[str, Any] = {
        **document["study"],
        **document["model"],
        **document["table"],
        **_read_variables(document.get("variable", []), where),
    }
    found = arguments.pop("format", FORMAT)
    if found != FORMAT or isinstance(found, bool):
        raise FileError(
            f"{where} is version {version_text(found)} of its format, and this software reads "
            f"version {FORMAT}: use the software that wrote it, or draft the study again"
        )
    if "name" not in arguments:
        raise DataError(f"{where}: section [study] has no 'name': give the study one")
    if arguments.get("laps") == NEVER:
        arguments["laps"] = None
    disclosure = document["disclosure"]
    for key in ("rounds", "site_shares", "checks", "check_pairs"):
        if key in disclosure:
            arguments[key] = disclosure.pop(key)
    if document["promise"]:
        try:
            arguments["promise"] = Promise(**document["promise"])
        except OptionError as error:
            raise DataError(f"{where}: section [promise]: {error}") from None
    for key, field in (("centre", "centre_key"), ("sites", "site_keys")):
        if key in document["keys"]:
            arguments[field] = document["keys"][key]
    if disclosure:
        arguments["policy"] = _read_policy(disclosure, f"{where}: section [disclosure]")
    return arguments


def toml_document(content: bytes, where: str) -> dict[str, Any]:
    """Read the bytes of a TOML file, which messages call ``where``."""
    try:
        return toml_content(content)
    except TextError as why:
        raise FileError(f"{where} can't be read as TOML (text in UTF-8): {why}") from None


def _check_sections(document: Mapping[str, Any], where: str) -> None:
    for section, content in document.items():
        if section not in KEYS:
            home = [f"[{name}]" for name, keys in KEYS.items() if section in keys]
            if home and not isinstance(content, (dict, list)):
                raise DataError(f"{where}: {section!r} stands alone: put it in section {home[0]}")
            shown = repr(section)[1:-1]  # what nobody sees is spelled out
            raise DataError(f"{where}: unknown section [{shown}]: {_meant(section, tuple(KEYS))}")
        if section == "variable":
            if not isinstance(content, list) or not all(isinstance(c, dict) for c in content):
                raise DataError(f"{where}: write [[variable]], in double brackets, for each one")
        elif not isinstance(content, dict):
            raise DataError(f"{where}: [{section}] must be a section, with its keys below it")


def _check_keys(entries: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in entries:
        if key not in keys:
            raise DataError(f"{where}: unknown key {key!r}: {_meant(key, keys)}")


def _meant(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word.lower(), known, n=1)
    if close:
        return f"{close[0]!r} may be meant"
    section = next((name for name, keys in KEYS.items() if word in keys), None)
    if section is not None:
        return f"it belongs in section [{section}]"
    return f"known are {', '.join(repr(name) for name in known)}"


def _read_policy(entries: Mapping[str, Any], where: str) -> Policy:
    own = [key for key in ("threshold", "rounding", "source") if key in entries]
    name = entries.get("policy", POLICIES["opensafely"].name)
    if name != CUSTOM and own:
        raise DataError(f'{where}: {own[0]!r} is for policy = "custom" only: leave it out')
    if name == CUSTOM and "threshold" not in own:
        raise DataError(f"{where}: a custom policy needs a 'threshold': give a whole number")
    try:
        if name == CUSTOM:
            return custom_policy(**{key: entries[key] for key in own})
        return policy_named(name)
    except OptionError as error:
        if "threshold" not in own:
            names = ", ".join(repr(known) for known in (*POLICIES, CUSTOM))
            raise DataError(f"{where}: policy: give one of {names}") from None
        raise DataError(f"{where}: {error}") from None


def _read_variables(blocks: Sequence[dict[str, Any]], where: str) -> dict[str, Any]:
    if not blocks:
        raise DataError(f"{where}: there is no [[variable]] block: write one for each variable")
    variables, labels = [], {}
    for at, block in enumerate(blocks, start=1):
        name = block.get("name")
        here = f"{where}: [[variable]] {at}" + (f" ({name!r})" if isinstance(name, str) else "")
        _check_keys(block, KEYS["variable"], here)
        if not isinstance(name, str):
            raise DataError(f"{here}: name: give the name of its column, in quotation marks")
        if "label" in block:
            if not isinstance(block["label"], str) or not block["label"].strip():
                raise DataError(f"{here}: label: give a text that is not empty, or leave it out")
            labels[name] = block["label"]
        levels = block.get("levels")
        if not isinstance(levels, list) or not all(isinstance(v, (str, int)) for v in levels):
            raise DataError(
                f"{here}: levels: give a list of texts, whole numbers or true and false"
            )
        kind = block["kind"] if "kind" in block else _kind(levels, here)
        try:
            texts = tuple(level_text(value) for value in levels)
            variables.append(Variable(name, texts, kind, guide=block.get("guide")))
        except DataError as error:
            raise DataError(f"{here}: {str(error).removeprefix('codebook: ')}") from None
    try:
        return {"codebook": Codebook(tuple(variables)), "labels": labels}
    except DataError as error:
        raise DataError(f"{where}: [[variable]]: {str(error).removeprefix('codebook: ')}") from None


def _kind(levels: Sequence[Value], here: str) -> Kind:
    types = {type(level) for level in levels}
    if len(types) > 1:
        raise DataError(
            f"{here}: levels: they mix texts, numbers or true and false: write all of one type, "
            'or add kind = "text"'
        )
    return "boolean" if types == {bool} else "integer" if types == {int} else "text"
