"""What comes out of a gzip file, as far as it is asked for, and no further than there is room."""

from __future__ import annotations

import io
import zlib
from typing import BinaryIO

PIECE = 2**20
"""Bytes of the file that are looked at in one go."""

GZIP = 31
"""How zlib is told that a stream has gzip's head and end."""


class Unpacked(io.RawIOBase):
    """The bytes that were packed, to be read once.

    Python's own reader looks at zeros behind the end one by one, and knows no limit.

    Parameters
    ----------
    file : binary file
        The gzip file.
    name : str
        Its name.
    most_bytes : int, optional
        Say that memory does not suffice once more than this has come out.

    Raises
    ------
    ValueError, zlib.error
        While it is read: if it is cut off or damaged.
    MemoryError
        While it is read: if more comes out than there is room for.
    """

    def __init__(self, file: BinaryIO, name: str, most_bytes: int | None = None) -> None:
        self.file, self.name, self.left = file, name, most_bytes
        self.zeros = 0
        self.stream, self.rest = zlib.decompressobj(GZIP), b""

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes: as many, or all that are left, and fewer at the end alone."""
        left = float("inf") if size is None or size < 0 else size
        parts = []
        while left > 0 and (part := self._next(int(min(left, PIECE)))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _next(self, size: int) -> bytes:
        """Return some bytes, no more than that many; none at the end."""
        found = b""
        while not found:
            self.rest = self.rest or self.file.read(PIECE)
            if not self.rest:
                if self.stream.eof:
                    return b""
                raise ValueError("cut off")
            if self.stream.eof:
                # Several may follow each other, with zeros behind them; but not for ever.
                before, self.rest = len(self.rest), self.rest.lstrip(b"\0")
                self.zeros += before - len(self.rest)
                if self.zeros > PIECE:
                    raise ValueError("nothing but zeros")
                if not self.rest:
                    continue
                self.stream = zlib.decompressobj(GZIP)
            found = self.stream.decompress(self.rest, size)
            self.rest = self.stream.unconsumed_tail or self.stream.unused_data
        if self.left is not None:
            self.left -= len(found)
            if self.left < 0:
                raise MemoryError
        return found
