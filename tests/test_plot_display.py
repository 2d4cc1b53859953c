"""Figures belong to who draws them: pyplot keeps none, and a notebook shows what is returned."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import warnings
import weakref
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from fedmerdel import plot
from tests.plotted import every_figure, made

PNG = b"\x89PNG\r\n\x1a\n"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        cwd=Path(__file__).resolve().parents[1],
    )  # fmt: skip


def test_thirty_figures_leave_nothing_open() -> None:
    from matplotlib import pyplot as plt

    plt.close("all")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = [plot.certainty(made()) for _ in range(30)]
        figure = plot.images(made(), (3, 4))
    assert len({id(ax.figure) for ax in drawn}) == 30
    assert plt.get_fignums() == []
    # And nobody else holds one.
    held = [weakref.ref(drawn[0].figure), weakref.ref(figure)]
    del drawn, figure
    gc.collect()
    assert [one() for one in held] == [None, None]


@pytest.mark.parametrize(("pyplot", "part"), [(False, 0), (True, 1)])
def test_a_notebook_shows_what_is_returned_with_pyplot_and_without(
    pyplot: bool, part: int, tmp_path: Path
) -> None:
    # A new process: pyplot stays loaded where a test has imported it.
    made().save(tmp_path / "centre")
    found = run(
        "import sys\n"
        f"if {pyplot}: from matplotlib import pyplot\n"
        "from fedmerdel import Federation, plot\n"
        "from tests.figures import FIGURES\n"
        f"found = Federation.load({str(tmp_path / 'centre')!r})\n"
        f"draws = list(FIGURES.values())[{part}::2]\n"
        "shown = [plot.heatmap(found), *(draw(found) for draw in draws)]\n"
        "print({one._repr_png_()[:8] for one in shown})\n"
        "print('matplotlib.pyplot' in sys.modules)\n"
    )
    assert found.stdout.splitlines() == [str({PNG}), str(pyplot)], found.stderr


def test_what_is_shown_is_what_is_saved() -> None:
    # Two of each: where a line of text ends may move by less than a pixel in a second drawing.
    pairs = zip(every_figure(made()).values(), every_figure(made()).values(), strict=True)
    for figure, same in pairs:
        with mpl.rc_context({"savefig.dpi": 300}):  # for paper, not for a screen
            shown = figure._repr_png_()  # type: ignore[attr-defined]
        saved = BytesIO()
        same.savefig(saved, format="png")
        assert shown == saved.getvalue()
        high, wide = imread(BytesIO(shown)).shape[:2]
        assert (wide, high) == pytest.approx(figure.get_size_inches() * figure.dpi, abs=1)


def test_axes_show_their_figure_as_it_is_now() -> None:
    ax = plot.elbo(made())
    first = ax._repr_png_()  # type: ignore[attr-defined]
    assert first == ax.figure._repr_png_()  # type: ignore[union-attr]
    ax.set_title("of three sites")
    assert ax._repr_png_() != first  # type: ignore[attr-defined]
    ax.remove()  # on no figure any more: there is nothing to show
    assert ax._repr_png_() is None  # type: ignore[attr-defined]


def test_what_is_returned_is_matplotlibs_and_can_be_kept() -> None:
    ax = plot.heatmap(made())
    assert isinstance(ax, Axes)
    assert isinstance(ax.figure, Figure)
    again = pickle.loads(pickle.dumps(plot.elbo(made())))
    (line,), (wanted,) = again.lines, plot.elbo(made()).lines
    np.testing.assert_array_equal(line.get_ydata(), wanted.get_ydata())
    assert again._repr_png_().startswith(PNG)


def test_given_axes_are_drawn_on_and_nothing_else_is_touched() -> None:
    from matplotlib import pyplot as plt

    federation, before, settings = made(), plt.get_fignums(), dict(mpl.rcParams)
    draws = [
        plot.heatmap, plot.sites, plot.lineage, plot.certainty, plot.variables, plot.elbo,
        lambda federation, ax: plot.outcomes(federation, "death", ax=ax),
    ]  # fmt: skip
    for draw in draws:
        ax = Figure().add_subplot()
        assert draw(federation, ax=ax) is ax  # type: ignore[operator]
    assert plt.get_fignums() == before
    assert dict(mpl.rcParams) == settings


def test_without_matplotlib_one_line_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "sys.modules['matplotlib'] = None\n"
        "import fedmerdel\n"
        "fitted = fedmerdel.MerDel(random_state=1).fit([[0, 1], [1, 0], [1, 1]] * 9)\n"
        "for draw in (fedmerdel.plot.heatmap, fedmerdel.plot.elbo, fedmerdel.plot.variables):\n"
        "    try:\n"
        "        draw(fitted)\n"
        "    except fedmerdel.OptionError as error:\n"
        "        print(error)\n"
    )
    found = run(code)
    wanted = "figures need matplotlib, which is not installed: pip install 'fedmerdel[plot]'"
    assert found.stdout.splitlines() == [wanted] * 3, found.stderr
