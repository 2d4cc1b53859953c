"""Who takes part: names of sites, and the public keys of sites and centre."""

from __future__ import annotations

import re
from typing import Any

from fedmerdel.errors import DataError, OptionError
from fedmerdel.keys import public_bytes

LONGEST = 80
"""Characters of a site's name: folders, screens and pages show it."""


def check_site_name(site: Any) -> None:
    """Refuse a name that no folder could have, or that nobody could read on a screen.

    Raises
    ------
    DataError
        If it is empty, "." or "..", starts or ends with a space, has a path separator or a
        character that is not printable, or over 80 characters.
    """
    fits = isinstance(site, str) and site not in ("", ".", "..") and site == site.strip()
    if fits and len(site) > LONGEST:
        raise DataError(
            f"site {site[:20]!r}...: its name has {len(site):,} characters: shorten it to {LONGEST}"
        )
    if not fits or re.search(r"[/\\:]", site) or not site.isprintable():
        raise DataError(
            f"site {site!r}: give a name that a folder can have, in characters that people see, "
            "such as 'leeds'"
        )


def checked_keys(centre: Any, sites: Any) -> tuple[tuple[str, str], ...]:
    """Return the sites' public keys as pairs, in the order of their names.

    Parameters
    ----------
    centre : str or None
        The centre's public key.
    sites : mapping of str to str, or pairs of these
        Each site's public key.

    Raises
    ------
    OptionError
        If one is no public key, two are the same, or only sites or only the centre have keys.
    DataError
        If a name can't be that of a site.
    """
    try:
        listed = dict(sites)
    except (TypeError, ValueError):
        raise OptionError("site_keys: give the public key of each site by its name") from None
    owners: dict[str, str] = {}
    for site, public in listed.items():
        check_site_name(site)
        _check_key(f"site_keys: site {site!r}", public)
        if public in owners:
            raise OptionError(f"site_keys: {owners[public]!r} and {site!r} have the same key")
        owners[public] = site
    if centre is not None:
        _check_key("centre_key", centre)
        if centre in owners:
            raise OptionError(f"centre_key: it is that of site {owners[centre]!r} too")
    if (centre is None) != (not listed):
        missing = "centre_key: list the centre's" if listed else "site_keys: list the sites'"
        raise OptionError(f"{missing} too: either all who take part have keys, or nobody has")
    return tuple(sorted(listed.items()))


def _check_key(where: str, public: Any) -> None:
    try:
        public_bytes(public)
    except OptionError as error:
        raise OptionError(f"{where}: {error}") from None
