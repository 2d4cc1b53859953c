"""The command line: one command at each site, one at the centre, one more at each site."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from io import TextIOWrapper
from typing import NoReturn

import typer

from fedmerdel.commands import agreement, centre, keys, site, stability, turn, validation
from fedmerdel.errors import FedMerDelError, FedMerDelWarning

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""
    Find clusters of patients together, without any row leaving its site.

    The coordinating centre drafts a study, people review it, and every site gets the file:

        fedmerdel init example.csv -o study.toml

    Each site rehearses, fits, reads what would leave, and sends the folder:

        fedmerdel check study.toml patients.csv

        fedmerdel fit study.toml patients.csv --site leeds -o leeds/

        fedmerdel review leeds/

    The centre merges what it got, and sends the model back:

        fedmerdel merge study.toml leeds/ york/ hull/ -o centre/

        fedmerdel describe centre/

        fedmerdel report centre/ -o report.html

    To see which clusters would be found again, it runs the study once more and once more, on rows
    made up from what sites sent:

        fedmerdel stability centre/ -o draws.csv

    For a model as good as one of pooled rows, go round again, as often as it pays: the centre
    sends its part broadcast/, each site replies, and the centre takes a step:

        fedmerdel reply study.toml broadcast/ patients.csv --site leeds -o leeds-1/

        fedmerdel step centre/ leeds-1/ york-1/ hull-1/ -o centre-1/

    Where nobody may see one site's counts, the study promises "sums". Then all take turns, which
    say whose turn it is; files go to and fro:

        fedmerdel turn leeds.toml from-centre/ to-centre/

        fedmerdel turn study.toml from-sites/ to-sites/ --keep centre/

    Each site gets the centre's part model/, and gives its own rows to the common clusters; this
    file stays there:

        fedmerdel assign model/ patients.csv -o labels.csv

    A site that took no part can say how well the common clusters fit its rows; this folder may
    leave:

        fedmerdel validate model/ patients.csv --site ripon -o ripon/

    If the study lists the public keys of sites and centre, everyone signs what they send, with
    --key FILE, and anything else is refused. This makes a key:

        fedmerdel key leeds.pem
    """,
)

# In the order of the work, as the guide lists them.
COMMANDS: dict[str, Callable[..., None]] = {
    "init": site.init,
    "site": agreement.draft_site,
    "check": site.check,
    "fit": site.fit,
    "review": site.review,
    "ledger": agreement.ledger,
    "merge": centre.merge,
    "reply": site.reply,
    "step": centre.step,
    "turn": turn.turn,
    "assign": site.assign_rows,
    "validate": validation.validate,
    "describe": centre.describe_model,
    "name": centre.name_clusters,
    "report": centre.report,
    "stability": stability.stability,
    "models": site.models,
    "key": keys.key,
}
for name, command in COMMANDS.items():
    app.command(name)(command)


def main() -> None:
    """Run a command; an error is one line on standard error, and exit code 2."""
    if isinstance(sys.stdout, TextIOWrapper):  # a name that the screen can't show is no error
        sys.stdout.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FedMerDelWarning)
        warnings.showwarning = lambda message, *_, **__: print(f"note: {message}", file=sys.stderr)
        try:
            # Without arguments, the guide.
            code = app(args=sys.argv[1:] or ["--help"], standalone_mode=False)
            sys.stdout.flush()
        except FedMerDelError as error:
            _stop(str(error))
        except OSError:
            # Files have errors of their own, so it is the screen, or what it was led to.
            # What is left to be shown goes nowhere, or the interpreter would try again at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _stop("what the command says can't be shown: its output is closed, or its disk full")
        except MemoryError:
            _stop("there is not enough memory for this: use fewer rows, columns or clusters")
        except Exception as error:
            # Of typer's own errors; the text of any other may quote a row: the type must do.
            told = getattr(error, "format_message", None)
            _stop(told() if told else f"internal ({type(error).__name__}): please report it")
        if code:  # a key stopped it
            _stop("stopped before the end", code)


def _stop(message: str, code: int = 2) -> NoReturn:
    print(f"error: {' '.join(message.splitlines())}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
