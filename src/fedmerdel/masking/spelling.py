"""One spelling of each message and state: JSON in ASCII, bytes in base64, fields in their order.

What is read is written again and must give the same bytes. So a "2" for 2, another order, a space
or anything after the end is refused, and a hash or signature of the bytes is one of what they say.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.texts import TextError, json_content

KIND = "fedmerdel masked sums: "
"""How the kind of each document begins."""

VERSION = 1
"""Of the messages, and of the states in which sites and centre keep them."""

Item = TypeVar("Item", bound=NamedTuple)


def spelt(item: NamedTuple) -> bytes:
    """Return the one spelling of a message or state: tuples of texts, whole numbers and bytes."""
    document = {**_head(type(item)), **_plain(item)}
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def read(kind: type[Item], data: bytes, most_bytes: int) -> Item:
    """Read what `spelt` returned, and nothing else that says the same.

    Parameters
    ----------
    kind : type
        The type of the message or state.
    data : bytes
        What arrived.
    most_bytes : int
        Refuse more than this before anything is read.

    Raises
    ------
    DataError
        If it is another kind, too large, or spelt in another way.
    """
    try:
        document = json_content(data, most_bytes)
        named = {name: document.pop(name) for name in _head(kind)}
        item: Item = _built(kind, document)
        if named == _head(kind) and spelt(item) == data:
            return item
    except (TextError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise DataError(
        f"it is no {_called(kind)} as this software writes it: get it again, whole and unchanged"
    )


def is_kind(kind: type[NamedTuple], data: bytes) -> bool:
    """Whether bytes begin as a message of this type does; nothing else is known of them yet."""
    return data.startswith(json.dumps(_head(kind), separators=(",", ":")).encode()[:-1])


def frame(*parts: bytes) -> bytes:
    """Put parts behind each other so that no other parts give the same bytes."""
    lengths = (len(part).to_bytes(8, "big") for part in parts)
    framed = (each for pair in zip(lengths, parts, strict=True) for each in pair)
    return b"".join((len(parts).to_bytes(8, "big"), *framed))


def _called(kind: type[NamedTuple]) -> str:
    return kind.__name__.lower()


def _head(kind: type[NamedTuple]) -> dict[str, Any]:
    return {"kind": KIND + _called(kind), "version": VERSION}


@cache
def _types(kind: type[NamedTuple]) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.astype("<i8").tobytes()
    if isinstance(value, bytes):
        return binascii.b2a_base64(value, newline=False).decode()
    if hasattr(value, "_fields"):
        return {name: _plain(each) for name, each in zip(value._fields, value, strict=True)}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _built(kind: Any, plain: Any) -> Any:
    """Return a value of a type; the spelling of the whole is checked by `read`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:  # with None
        of = next(each for each in inner if each is not NoneType)
        return None if plain is None else _built(of, plain)
    if origin is np.ndarray:
        return np.frombuffer(_built(bytes, plain), dtype="<i8").astype(np.int64, copy=False)
    if origin is tuple:
        if type(plain) is not list:
            raise TypeError
        return tuple(_built(inner[0], each) for each in plain)
    if kind is bytes:
        return binascii.a2b_base64(plain, strict_mode=True)
    if kind in (str, int):
        if type(plain) is not kind or (kind is int and plain < 0):
            raise TypeError
        return plain
    types = _types(kind)
    if set(plain) != set(types):
        raise KeyError
    return kind(**{name: _built(of, plain[name]) for name, of in types.items()})
