"""Images of clusters, for tables whose variables are pixels."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np
from numpy.typing import NDArray


def picture(shares: NDArray[np.float64]) -> str:
    """Return an image of shares, 0 white and 1 black, as the source of an ``img``: a PNG."""
    grey = np.round(255 * (1 - shares.clip(0, 1))).astype(np.uint8)
    lines = b"".join(b"\0" + row.tobytes() for row in grey)  # 0: no filter
    head = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return "data:image/png;base64," + b64encode(png).decode("ascii")
