"""The command that makes keys, and shows public ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedmerdel.commands.screen import screen
from fedmerdel.errors import DataError
from fedmerdel.files import read_plain
from fedmerdel.keys import SigningKey, key_fingerprint
from fedmerdel.study.study import Study


def key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the secret key is written.")],
    show: Annotated[
        bool, typer.Option("--show", help="Make none: show that of a key, or all of a study.")
    ] = False,
) -> None:
    """Make a secret key to sign with; show the public key, for the study, and its fingerprint."""
    if show and not read_plain(file, f"file {str(file)!r}").startswith(b"-----BEGIN"):
        _show_study(file)
        return
    secret = SigningKey.load(file) if show else SigningKey.new()
    if not show:
        secret.save(file)
        screen.print(
            f"{file} is your secret key. It stays here: whoever has it can sign in your name."
        )
    _show("Public key, for the study:", secret.public)
    _show("Its fingerprint, to be compared by telephone:", key_fingerprint(secret.public))


def _show_study(file: Path) -> None:
    study = Study.load(file)
    if study.centre_key is None:
        raise DataError(f"file {str(file)!r}: the study lists no keys")
    screen.print("Fingerprints of the keys that the study lists:")
    for who, public in (("the centre", study.centre_key), *study.site_keys):
        _show(f"{who}:", key_fingerprint(public))


def _show(words: str, value: str) -> None:
    # Whole lines, to be copied.
    screen.print(words, soft_wrap=True)
    screen.print(f"  {value}", soft_wrap=True)
