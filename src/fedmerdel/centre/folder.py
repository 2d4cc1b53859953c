"""A federation as a folder of readable files. It stays at the centre.

``federation.json`` says how it was made and what the centre remembers, ``study.toml`` for which
study, ``lineage.csv`` where each local cluster went, ``names.csv`` what clusters are called, and
``sites/`` holds what each site sent last: the federation is made of these, so they are all that
is read back. After the first round ``asked/`` is what the sites last replied to. Two parts may be
sent to the sites, and hold no site's counts: ``model/`` and ``broadcast/``.
"""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from math import isclose
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fedmerdel.bundles import write_folder
from fedmerdel.centre.lineage import Round
from fedmerdel.centre.place import FILE, KIND, VERSION, check_centre_place, check_kept
from fedmerdel.centre.rounds import UNCUT, RoundState
from fedmerdel.centre.state import FederationState
from fedmerdel.centre.summaries import check_summaries, replies_to
from fedmerdel.errors import DataError, FileError
from fedmerdel.files import (
    read_json,
    replacement,
    write_json,
    write_text,
)
from fedmerdel.keys import SigningKey, check_signer
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.names_file import FILE as NAMES
from fedmerdel.model.names_file import names_for, names_text
from fedmerdel.parcels import Parcel
from fedmerdel.release.grid import defused
from fedmerdel.release.reply import load_release
from fedmerdel.study.site_keys import check_site_name
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import plain_numbers, plain_whole_numbers
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.extrapolation import Past
from fedmerdel.sums.search import Search
from fedmerdel.sums.similarity import MergeCriterion
from fedmerdel.swap import clear_leftovers


def save_federation(
    federation: FederationState,
    model: Parcel,
    path: str | Path,
    *,
    replace: bool = False,
    key: SigningKey | None = None,
) -> None:
    """Write the folder, with its model, whole or not at all.

    An earlier one there is replaced; one with other sites, more rounds, or names that this one
    lacks, only if it is asked for. What the centre sends out is signed with its key, if there is
    one.
    """
    check_signer(key, federation.study.centre_key, "the centre")
    check_centre_place(path)
    if not replace:
        check_kept(federation.sites, federation.names, len(federation.record), path)
    with suppress(OSError):  # said in one line by what follows
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with replacement(path, "folder") as part:
        part.mkdir()
        for summary in federation.summaries:
            write_folder(part / "sites" / summary.site, summary.to_files())
        sent = {"model": model, "broadcast": federation.broadcast, "asked": federation.asked}
        for name, parcel in sent.items():
            if parcel is not None:
                signed = parcel if key is None else parcel.signed(key)
                write_folder(part / name, signed.to_files())
        federation.study.save(part / "study.toml")
        write_text(part / "lineage.csv", _lineage(federation))
        if federation.names:
            write_text(part / NAMES, names_text(federation.names))
        write_json(part / FILE, KIND, VERSION, _content(federation))


def load_federation(path: str | Path) -> dict[str, Any]:
    """Read the fields of a federation from its folder.

    Raises
    ------
    FileError
        If a file is missing, damaged or was changed.
    DataError
        If what the sites sent does not fit the study.
    """
    source = Path(path)
    if not source.exists():
        clear_leftovers(source)  # it may have been set aside by a process that was killed
    content = read_json(source / FILE, KIND, VERSION)
    study = Study.load(source / "study.toml")
    if content.get("study_hash") != study.hash:
        raise FileError(f"folder {str(source)!r}: study.toml was changed after the merge")
    try:
        _check_names(content["sites"])
        summaries = tuple(load_release(source / "sites" / name) for name in content["sites"])
        check_summaries(study, summaries)
        fields: dict[str, Any] = {
            "study": study,
            "summaries": summaries,
            "groups": tuple(plain_whole_numbers(group) for group in content["groups"]),
            "search": content["search"],
            "criterion": content["criterion"],
            "record": tuple(
                Round(**{**each, "stale": tuple(each["stale"])}) for each in content["record"]
            ),
        }
        if (source / NAMES).exists():
            fields["names"] = names_for(len(fields["groups"]), source / NAMES)
        if (source / "asked").exists():
            fields["asked"] = Broadcast.load(source / "asked")
            following = Broadcast.load(source / "broadcast")
            for each in (fields["asked"], following):
                each.check_study(study)
            fields["next_round"] = _round_state(content, following)
        if _belongs(FederationState(**fields), content):
            return fields
    except DataError as error:
        raise DataError(f"folder {str(source)!r}: {error}") from None
    except (KeyError, TypeError, ValueError, OverflowError, IndexError, AttributeError):
        pass
    raise FileError(f"file {str(source / FILE)!r} is damaged or was changed: merge again")


def _check_names(sites: Any) -> None:
    """Refuse what is no list of different names in order, each that of a folder."""
    if not isinstance(sites, list):
        raise TypeError(FILE)
    for site in sites:
        check_site_name(site)
    if sorted(set(sites)) != sites:
        raise ValueError(FILE)


def _content(federation: FederationState) -> dict[str, Any]:
    state = federation.round_state
    return {
        "study_hash": federation.study.hash,
        "sites": list(federation.sites),
        "search": federation.search,
        "criterion": federation.criterion,
        "lower_bound": federation.lower_bound,
        "groups": [group.tolist() for group in federation.groups],
        "record": [each._asdict() for each in federation.record],
        "age": state.age.tolist(),
        "parents": state.parents.tolist(),
        "read": [_plain(theta) for theta in state.past.read],
        "reached": [_plain(theta) for theta in state.past.reached],
    }


def _round_state(content: dict[str, Any], sent: Broadcast) -> RoundState:
    """Return what is sent out next, with what the centre remembers of it."""
    past = Past(*(tuple(_theta(each) for each in content[name]) for name in ("read", "reached")))
    age, parents = (plain_whole_numbers(content[name]) for name in ("age", "parents"))
    K = sent.n_clusters
    shapes = {(theta[0].shape, theta[1].shape) for theta in (*past.read, *past.reached)}
    fits = (
        len(past.read) == len(past.reached)
        and shapes <= {((K,), sent.clusters.log_levels.shape)}
        and age.shape == parents.shape == (K,)
        and np.array_equal(age == UNCUT, sent.uncut)
        and parents.min() >= 0
        and parents.max() < len(content["groups"])
        and [each["number"] for each in content["record"]] == list(range(1, sent.number))
    )
    if not fits:
        raise ValueError(FILE)
    return RoundState(sent.number - 1, sent.clusters, sent.cuts, age, parents, past)


def _belongs(federation: FederationState, content: dict[str, Any]) -> bool:
    """Whether groups and summaries are those that the file was written for."""
    # Groups number the clusters through all sites, so the sites' order counts.
    names, asked = list(federation.sites), federation.asked
    n_local = sum(summary.n_clusters for summary in federation.summaries)
    return (
        names == content["sites"]
        and federation.search in get_args(Search)
        and federation.criterion in get_args(MergeCriterion)
        and all(each.is_possible for each in federation.record)
        and bool(federation.record) <= (asked is not None)
        and (asked is None or any(replies_to(s, asked) for s in federation.summaries))
        and all(len(group) > 0 for group in federation.groups)
        and np.array_equal(np.sort(np.concatenate(federation.groups)), np.arange(n_local))
        # Another release of a library may round it otherwise.
        and isclose(federation.lower_bound, content["lower_bound"], rel_tol=1e-9)
    )


def _lineage(federation: FederationState) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["site", "local_cluster", "cluster", "rows"])
    writer.writerows(
        [defused(a.site), a.local_cluster, a.cluster, repr(a.rows)] for a in federation.lineage
    )
    return text.getvalue()


def _plain(theta: Expectations) -> dict[str, Any]:
    return {name: array.tolist() for name, array in theta._asdict().items()}


def _theta(plain: dict[str, Any]) -> Expectations:
    return Expectations(plain_numbers(plain["log_weights"]), plain_numbers(plain["log_levels"]))
