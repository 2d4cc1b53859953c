"""What an opened table says of itself, and how it is refused."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from fedmerdel.errors import DataError
from fedmerdel.records import infer_codebook, open_table

SECRET = "SECRET"


def levels(source: Any) -> dict[str, tuple[str, ...]]:
    return {v.name: v.levels for v in infer_codebook(open_table(source)).variables}


def kinds(source: Any) -> list[str]:
    return [v.kind for v in infer_codebook(open_table(source)).variables]


def refusal(source: Any, error: type[Exception] = DataError) -> str:
    """Return the message with which a table is refused; nothing printed may hold the secret."""
    with pytest.raises(error) as caught:
        infer_codebook(open_table(source))
    printed = "".join(traceback.format_exception_only(caught.value))
    assert SECRET not in printed
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert "\n" not in str(caught.value)
    return str(caught.value)
