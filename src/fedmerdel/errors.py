"""Every error and warning that a user can meet.

A message names the file, the column and what to do. It never holds a value
taken from a row.
"""

from __future__ import annotations

LONGEST = 10_000
"""Characters of a message: what it names may come from a file, and be of any length."""


class FedMerDelError(Exception):
    """Base of all errors raised on purpose by this package."""

    def __str__(self) -> str:
        """Return the message, on one line that has an end."""
        text = super().__str__()
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class DataError(FedMerDelError, ValueError):
    """The table, or a column of it, can't be used as it is."""


class FileError(FedMerDelError, OSError):
    """A file can't be read or written."""


class OptionError(FedMerDelError, ValueError):
    """An option has a value outside what it takes."""


class FedMerDelWarning(UserWarning):
    """Base of all warnings given by this package."""


class NotConvergedWarning(FedMerDelWarning):
    """A fit at a site was stopped before it came to an end by itself."""


class CeilingWarning(FedMerDelWarning):
    """A fit has used all clusters that `max_clusters` allows: there may be more."""


class OddSiteWarning(FedMerDelWarning):
    """A site's counts are odd, compared with the other sites'."""


class RareLevelWarning(FedMerDelWarning):
    """A study was drafted with levels that few rows have: whoever reads it learns that they are."""


class ConstantColumnWarning(FedMerDelWarning):
    """A column has one level only: kept, but it can't tell clusters apart."""
