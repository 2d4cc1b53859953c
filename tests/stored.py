"""Federations to save and compare, and refusals in one line."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmerdel import Federation, merge_sites
from fedmerdel.errors import FedMerDelError
from tests.federations import binary, made_study, summary_of
from tests.outcome_cells import yes_no


def assert_same(one: Federation, other: Federation) -> None:
    assert one.sites == other.sites
    assert [group.tolist() for group in one.groups] == [group.tolist() for group in other.groups]
    for a, b in zip(one.sums[:3], other.sums[:3], strict=True):
        assert a.tobytes() == b.tobytes()
    assert one.lower_bound == other.lower_bound
    assert one.lineage == other.lineage
    assert (one.search, one.criterion) == (other.search, other.criterion)


def assert_identical(one: Any, other: Any) -> None:
    """The same types and numbers to the last bit, in every field and all the way down."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, float):
        assert struct.pack("d", one) == struct.pack("d", other)
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            assert_identical(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, dict):
        assert list(one) == list(other)
        assert_identical(list(one.values()), list(other.values()))
    elif isinstance(one, tuple | list):
        for a, b in zip(one, other, strict=True):
            assert_identical(a, b)
    else:
        assert one == other


@contextmanager
def refused(error: type[FedMerDelError], *words: str) -> Iterator[None]:
    """One line, of this kind of error, that holds these words."""
    with pytest.raises(error) as found:
        yield
    message = str(found.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


def made(*sites: str, seed: int = 1) -> Federation:
    """Sites with clusters of two kinds, each a row more in both than the last; deaths counted."""
    study = made_study(np.full(16, 2), outcomes=("death",), seed=seed)
    one, two = [0.9, 0.9, 0.1, 0.1] * 4, [0.1, 0.1, 0.9, 0.8] * 4
    deaths = {"death": yes_no(np.array([3.0, 20.0]), np.array([30.0, 60.0]))}
    sent = [
        summary_of(study, site, binary([one, two], [33.3 + b, 61.7 + b]), deaths)
        for b, site in enumerate(sites or ("hull", "leeds"))
    ]
    return merge_sites(study, sent)


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
