"""How kernels are compiled: numba, without the GIL, cached where a cache can be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def kernel(function: Kernel) -> Kernel:
    """Compile a function on plain arrays on its first call.

    numba keeps its cache beside the source, or in the user's cache folder where
    the install is read-only. Where neither can be written it refuses to cache at
    all: then the kernel is compiled anew in each process, and nothing else changes.

    Contraction lets a product and a sum be one instruction, rounded once. Nothing else
    of floating-point arithmetic is relaxed: sums keep the order they are written in.
    """
    options = {"nogil": True, "fastmath": {"contract"}}
    try:
        compiled: Kernel = njit(cache=True, **options)(function)
    except RuntimeError:
        compiled = njit(**options)(function)
    return compiled
