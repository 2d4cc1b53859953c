"""Figures show the numbers of a model or a federation, read back from what was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.text import Text

from fedmerdel import (
    Federation,
    FedMerDel,
    GlobalModel,
    MerDel,
    OptionError,
    Rate,
    Rates,
    Round,
    plot,
    simulate,
)
from fedmerdel.model.certainty import expected_certainty
from fedmerdel.plot.ribbons import spaced
from fedmerdel.report.colours import RATIO_STOPS, SHARE_STOPS, between
from fedmerdel.sums.profile import profile
from tests.figures import FIGURES, OF_SITES
from tests.plotted import N_VARIABLES, made
from tests.reported import after_rounds

ODD = "a $x^2$ <b>_{c} & 5 %"
"""A name that would be a formula, or a tag, if anyone took it for one."""

SIZES = [(3, 1), (3, 100), (60, 1), (60, 100)]


@pytest.fixture(scope="module")
def one_table() -> MerDel:
    return MerDel(random_state=1).fit(simulate(600, 8, 3, beta=(0.5, 0.5), random_state=1).X)


def cells(ax: Axes) -> np.ndarray:
    (mesh,) = [part for part in ax.collections if isinstance(part, QuadMesh)]
    return np.asarray(mesh.get_array())


def kind_of(line: Line2D) -> str:
    """Return the mark of a line's points, or - if it has none."""
    mark = str(line.get_marker())
    return mark if mark in ("o", ">") else "-"


def at_left(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]


def below(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_xticklabels()]


def written(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("measure", ["prevalence", "ratio", "exclusivity"])
@pytest.mark.parametrize("size", SIZES)
def test_the_heatmap_shows_the_profile(size: tuple[int, int], measure: str) -> None:
    model = made(*size)
    ax = plot.heatmap(model, measure, first="study")  # type: ignore[arg-type]
    of_yes = np.arange(1, 2 * N_VARIABLES, 2)
    table = getattr(profile(model.sums, model.prior), measure)[:, of_yes]
    np.testing.assert_array_equal(cells(ax), table)
    assert at_left(ax) == [f"cluster {k}" for k in range(size[0])]
    assert below(ax) == [f"v{j}" for j in range(N_VARIABLES)]
    assert written(ax) == ["rows", *(f"{rows:,.0f}" for rows in model.sums.T)]


def test_columns_and_lines_come_in_the_order_asked_for() -> None:
    model = made()
    found = profile(model.sums, model.prior)
    of_yes = np.arange(1, 2 * N_VARIABLES, 2)
    for first, by in (
        ("prevalent", found.overall[of_yes]),
        ("distinguishing", found.information(model.study.codebook.level_offsets)),
    ):
        order = np.argsort(-by, kind="stable")[:5]
        ax = plot.heatmap(model, first=first, most=5, clusters=[2, 0])  # type: ignore[arg-type]
        assert below(ax) == [f"v{j}" for j in order]
        assert at_left(ax) == ["cluster 2", "cluster 0"]
        np.testing.assert_array_equal(cells(ax), found.prevalence[np.ix_([2, 0], of_yes[order])])
    many = made(60, 1)
    alike = profile(many.sums, many.prior).alike()
    assert at_left(plot.heatmap(many, clusters="alike")) == [f"cluster {k}" for k in alike]


def test_colours_are_those_of_the_report() -> None:
    model = made()
    for measure, stops in (("prevalence", SHARE_STOPS), ("ratio", RATIO_STOPS)):
        ax = plot.heatmap(model, measure)  # type: ignore[arg-type]
        (mesh,) = ax.collections
        for value in (0.01, 0.125, 0.5, 0.9, 1.0, 2.0, 8.0, 50.0):
            at = 0.5 + np.log2(value) / 6 if measure == "ratio" else value
            wanted = [int(between(stops, at)[i : i + 2], 16) for i in (1, 3, 5)]
            shown = 255 * np.array(mesh.to_rgba(np.array([value]))[0][:3])
            # 256 steps of matplotlib's own.
            np.testing.assert_allclose(shown, wanted, atol=3)


@pytest.mark.parametrize("size", SIZES)
def test_sites_show_the_share_of_each_sites_rows(size: tuple[int, int]) -> None:
    federation = made(*size)
    ax = plot.sites(federation)
    wanted = federation.site_rows / federation.site_rows.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(cells(ax), wanted)
    assert at_left(ax) == list(federation.sites)
    assert below(ax) == [f"cluster {k}" for k in range(size[0])]
    rows = [f"{rows:,.0f}" for rows in federation.site_rows.sum(axis=1)]
    assert written(ax)[: len(rows) + 1] == ["rows", *rows]
    numbers = [f"{100 * share:.0f}" for share in wanted[wanted > 0]]
    assert written(ax)[len(rows) + 1 :] == (numbers if size == (3, 1) else [])


@pytest.mark.parametrize("size", SIZES)
def test_outcomes_show_rates_and_intervals(size: tuple[int, int]) -> None:
    model = made(*size)
    ax = plot.outcomes(model, "death")
    each, overall, *_ = model.outcomes["death"]
    points, *arrows, dashed = sorted(ax.lines, key=lambda line: "o>-".index(kind_of(line)))
    end = ax.get_xlim()[1]
    shown = [rate.share if rate.share <= end else np.nan for rate in each]
    np.testing.assert_array_equal(points.get_xdata(), shown)
    cut = [k for k, rate in enumerate(each) if rate.high > end]
    assert [list(line.get_ydata()) for line in arrows] == ([cut] if cut else [])
    assert set(dashed.get_xdata()) == {overall.share}
    assert dashed.get_linestyle() == "--"
    (spans,) = [part for part in ax.collections if isinstance(part, LineCollection)]
    ends = np.array([segment[:, 0] for segment in spans.get_segments()])
    wanted = [(min(rate.low, end), min(rate.high, end)) for rate in each]
    np.testing.assert_array_equal(ends, wanted)
    assert at_left(ax) == [f"cluster {k}" for k in range(size[0])]


def test_a_tiny_cluster_does_not_spoil_the_axis_of_rates() -> None:
    """It is cut there with an arrow; of 1 % of the rows, or alone, it is not."""
    model = made(3, 1).model
    _, overall, covariance, *_ = model.outcomes["death"]
    rates = (Rate(0.05, 0.04, 0.06), Rate(0.1, 0.08, 0.12), Rate(0.5, 0.01, 1.0))
    outcomes = {"death": Rates(rates, replace(overall, share=0.07), covariance)}

    def drawn(T: list[float]) -> Axes:
        sums = model.sums._replace(T=np.array(T))
        return plot.outcomes(replace(model, sums=sums, outcomes=outcomes), "death")

    ax = drawn([600.0, 396.0, 4.0])
    assert ax.get_xlim() == (0.0, pytest.approx(1.05 * 0.12))
    (arrow,) = [line for line in ax.lines if kind_of(line) == ">"]
    assert (list(arrow.get_xdata()), list(arrow.get_ydata())) == ([ax.get_xlim()[1]], [2])
    (points,) = [line for line in ax.lines if kind_of(line) == "o"]
    np.testing.assert_array_equal(points.get_xdata(), [0.05, 0.1, np.nan])
    whole = drawn([600.0, 390.0, 10.0])
    assert whole.get_xlim() == (0.0, 1.0)
    assert all(kind_of(line) != ">" for line in whole.lines)


@pytest.mark.parametrize("size", [*SIZES[:3], (60, 40)])
def test_ribbons_are_as_wide_as_rows(size: tuple[int, int]) -> None:
    federation = made(*size)
    ax = plot.lineage(federation)
    ribbons = [part for part in ax.patches if isinstance(part, PathPatch)]
    blocks = [part for part in ax.patches if isinstance(part, Rectangle)]
    if len(federation.lineage) > 150:
        flow, left = federation.site_rows.T, federation.site_rows.sum(axis=1)
        wanted = flow[flow > 0]
    else:
        left = np.array([ancestor.rows for ancestor in federation.lineage])
        wanted = np.array([a.rows for a in sorted(federation.lineage, key=lambda a: a.cluster)])
    paths = [part.get_path().vertices for part in ribbons]
    for x in (0.0, 1.0):
        np.testing.assert_allclose([np.ptp(path[path[:, 0] == x, 1]) for path in paths], wanted)
    sizes = [part.get_height() for part in blocks]
    np.testing.assert_allclose(sizes, [*left, *federation.sums.T])
    # No block covers another, and all stand inside.
    for side in (blocks[: len(left)], blocks[len(left) :]):
        tops = np.array([part.get_y() for part in side])
        ends = tops + [part.get_height() for part in side]
        assert (tops[1:] >= ends[:-1] - 1e-9).all()
        assert tops[0] >= -1e-9
        assert ends[-1] <= ax.get_ylim()[0] * (1 + 1e-9)
    assert written(ax) == [*federation.sites, *(f"cluster {k}" for k in range(size[0]))]


def test_names_beside_ribbons_stay_in_order_and_apart() -> None:
    middles = np.array([0.0, 0.1, 0.2, 5.0, 9.9, 9.95])
    places = spaced(middles, 1.0, 10.0)
    assert (np.diff(places) >= 1.0 - 1e-12).all()
    assert places[0] >= 0
    assert places[-1] <= 10.0
    np.testing.assert_array_equal(spaced(middles * 10, 0.1, 100.0), middles * 10)
    assert np.diff(spaced(np.zeros(20), 1.0, 10.0)) == pytest.approx(np.full(19, 0.5))


@pytest.mark.parametrize("size", [(3, 1), (60, 1), (3, 3)])
def test_certainty_shows_the_histogram(size: tuple[int, int]) -> None:
    """With each site's shares of the clusters where they are known, else with those of all."""
    federation = made(*size)
    own, rows = federation.model, federation.site_rows
    for given, rows_of in ((federation, rows), (own, rows.sum(axis=0, keepdims=True))):
        ax = plot.certainty(given)
        sure = expected_certainty(own.sums, own.prior, own.row_prior, rows_of)
        bars = [part for part in ax.patches if isinstance(part, Rectangle)]
        np.testing.assert_allclose([bar.get_height() for bar in bars], sure.histogram)
        np.testing.assert_allclose([bar.get_x() for bar in bars], np.arange(20) / 20, atol=1e-12)
        assert written(ax) == [f"{100 * sure.sure:.0f} % above 0.8"]


def test_variables_show_the_selection_probability(one_table: MerDel) -> None:
    model = made()
    order = np.argsort(-model.selection_probability, kind="stable")
    for most in (4, 30):
        ax = plot.variables(model, most)
        lengths = [bar.get_width() for bar in ax.patches]
        np.testing.assert_array_equal(lengths, model.selection_probability[order[:most]])
        assert at_left(ax) == [f"v{j}" for j in order[:most]]
    lengths = [bar.get_width() for bar in plot.variables(one_table).patches]
    np.testing.assert_array_equal(lengths, -np.sort(-one_table.selection_probability_))


@pytest.mark.parametrize("size", SIZES[:3])
def test_the_elbo_over_merges_ends_at_the_models(size: tuple[int, int]) -> None:
    federation = made(*size)
    (line,) = plot.elbo(federation).lines
    gains = [join.gain for join in federation.joins()]
    y = np.asarray(line.get_ydata())
    assert y[-1] == pytest.approx(federation.lower_bound)
    np.testing.assert_allclose(np.diff(y), gains, rtol=1e-6)
    np.testing.assert_array_equal(line.get_xdata(), np.arange(len(gains) + 1))


def test_the_elbo_over_rounds_leaves_out_what_is_not_known() -> None:
    told = [(1, -90.0), (2, None), (3, -80.5)]
    record = tuple(Round(number, elbo, None, 3, 0.1, ()) for number, elbo in told)
    (line,) = plot.elbo(replace(made(), record=record)).lines
    assert list(line.get_xdata()) == [1, 3]
    assert list(line.get_ydata()) == [-90.0, -80.5]
    with pytest.raises(OptionError, match="known after none of its rounds"):
        plot.elbo(replace(made(), record=record[1:2]))


def test_one_table_has_a_heatmap_and_the_course_of_its_fit(one_table: MerDel) -> None:
    ax = plot.heatmap(one_table, first="study", clusters=range(one_table.n_clusters_))  # type: ignore[arg-type]
    wanted = np.stack([p[:, 1] for p in one_table.level_probabilities_], axis=1)
    np.testing.assert_array_equal(cells(ax), wanted)
    assert written(ax) == ["of rows", *(f"{100 * w:.1f} %" for w in one_table.weights_)]
    (line,) = plot.elbo(one_table).lines
    np.testing.assert_array_equal(line.get_ydata(), one_table.lower_bounds_)
    (line,) = plot.elbo(one_table, seconds=True).lines
    np.testing.assert_array_equal(line.get_xdata(), one_table.lower_bound_seconds_)


def test_images_show_the_mean_and_draws_of_each_cluster() -> None:
    model = made(60, 1)
    figure = plot.images(model, (3, 4), n_drawn=2)
    shown = [ax for ax in figure.axes if ax.images]
    means = profile(model.sums, model.prior).prevalence[:, 1::2].reshape(60, 3, 4)
    for k, ax in enumerate(shown):
        strip = np.ma.filled(ax.images[0].get_array(), np.nan)
        np.testing.assert_allclose(strip[:, :4], means[k])
        drawn = np.stack([strip[:, 5:9], strip[:, 10:14]])
        assert set(np.unique(drawn)) <= {0.0, 1.0}
        assert ax.get_title(loc="left") == f"cluster {k}"
    assert len(shown) == 60


def test_a_federated_estimator_is_its_federation() -> None:
    table = simulate(600, 8, 2, beta=(0.5, 0.5), random_state=1)
    fitted = FedMerDel(random_state=1).fit(table.X, groups=np.arange(600) % 2)
    for given in (fitted.federation_, fitted.model_):
        np.testing.assert_array_equal(cells(plot.heatmap(fitted)), cells(plot.heatmap(given)))
    given = fitted.federation_
    np.testing.assert_array_equal(cells(plot.sites(fitted)), cells(plot.sites(given)))
    assert written(plot.lineage(fitted)) == written(plot.lineage(given))
    (line,), (wanted,) = plot.elbo(fitted).lines, plot.elbo(given).lines
    np.testing.assert_array_equal(line.get_ydata(), wanted.get_ydata())
    bars, wanted_bars = (
        [b.get_height() for b in plot.certainty(g).patches] for g in (fitted, given)
    )
    assert bars == wanted_bars


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in OF_SITES])
def test_a_model_alone_has_the_figures_that_need_no_site(name: str, tmp_path: Path) -> None:
    """Those of its federation, also after it was saved and loaded."""
    federation = named_oddly()
    if name == "certainty":  # it knows the shares of all sites together
        federation = made(3, 1)
    federation.model.save(tmp_path / "model.zip")
    wanted = drawing(FIGURES[name](federation))
    for given in (federation.model, GlobalModel.load(tmp_path / "model.zip")):
        assert drawing(FIGURES[name](given)) == wanted


def drawing(figure: Figure) -> str:
    """A figure as text, the same for the same figure."""
    text = StringIO()
    with mpl.rc_context({"svg.hashsalt": "same", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def test_what_needs_the_sites_is_refused_for_a_model_alone(tmp_path: Path) -> None:
    """Whether merged once or after rounds, fresh or loaded, with shares of sites or without."""
    shared = replace(made().study, site_shares=True)
    summaries = tuple(replace(s, study_hash=shared.hash) for s in made().summaries)
    federations = [made(), after_rounds(), replace(made(), study=shared, summaries=summaries)]
    assert federations[2].model.site_shares
    made().save(tmp_path / "centre")
    models = [each.model for each in federations]
    for model in (*models, GlobalModel.load(tmp_path / "centre")):
        for name in OF_SITES:
            with pytest.raises(OptionError) as caught:
                FIGURES[name](model)
            message = str(caught.value)
            assert message.startswith("model: this figure shows what sites sent")
            assert "give the Federation" in message
            assert "\n" not in message
    for name in OF_SITES:
        FIGURES[name](Federation.load(tmp_path / "centre"))


def test_figures_after_rounds_show_sites_and_rounds() -> None:
    federation = after_rounds("none")
    (line,) = plot.elbo(federation).lines
    assert list(line.get_xdata()) == [each.number for each in federation.record]
    assert list(line.get_ydata()) == [each.elbo for each in federation.record]
    ax = plot.lineage(federation)
    names = [f"cluster {k}" for k in range(federation.n_clusters)]
    assert written(ax) == [*federation.sites, *names]
    ribbons = [part for part in ax.patches if isinstance(part, PathPatch)]
    assert len(ribbons) == int((federation.site_rows > 0).sum())


def named_oddly() -> Federation:
    federation = made()
    study = replace(federation.study, labels={"v0": f"v0 {ODD}"})
    return replace(federation, study=study).named({1: ODD})


@pytest.mark.parametrize("name", FIGURES)
def test_names_are_shown_as_they_are_written(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.svg"
    with mpl.rc_context({"svg.fonttype": "none"}):
        FIGURES[name](named_oddly()).savefig(path)
    texts = {e.text for e in ElementTree.parse(path).iter() if e.tag.endswith("}text")}
    if name not in ("certainty", "elbo", "variables"):
        assert ODD in texts or (name == "images" and ODD[:8] in {str(t)[:8] for t in texts})
    if name in ("heatmap", "ratio", "variables"):
        assert f"v0 {ODD}" in texts


@pytest.mark.parametrize("size", [(3, 1), (60, 1)])
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_can_be_saved_and_fits_its_page(
    name: str, size: tuple[int, int], tmp_path: Path
) -> None:
    figure = FIGURES[name](made(*size))
    for suffix in ("svg", "pdf")[: 2 if size == (3, 1) else 1]:
        path = tmp_path / f"{name}.{suffix}"
        figure.savefig(path)
        assert path.stat().st_size > 1000
    used, page = figure.get_tightbbox(), figure.get_size_inches()
    assert min(used.x0, used.y0) > 0
    assert used.x1 < page[0]
    assert used.y1 < page[1]


@pytest.mark.parametrize("size", SIZES[:3])
@pytest.mark.parametrize("name", ["heatmap", "sites", "outcomes"])
def test_names_do_not_cover_each_other(name: str, size: tuple[int, int]) -> None:
    figure = FIGURES[name](made(*size))
    figure.draw_without_rendering()
    assert_apart(figure.axes[0].get_yticklabels())


@pytest.mark.parametrize("size", SIZES[:3])
def test_names_beside_ribbons_do_not_cover_each_other(size: tuple[int, int]) -> None:
    federation = made(*size)
    ax = plot.lineage(federation)
    ax.figure.draw_without_rendering()
    assert_apart(ax.texts[: len(federation.sites)])
    assert_apart(ax.texts[len(federation.sites) :])


def assert_apart(side: Sequence[Text]) -> None:
    """Names from top to bottom end before the next begins."""
    boxes = [Text.get_window_extent(text) for text in side]  # without the line to its block
    assert all(lower.y1 <= upper.y0 + 1 for upper, lower in pairwise(boxes))


def test_what_cannot_be_drawn_is_refused_in_one_line(one_table: MerDel, tmp_path: Path) -> None:
    federation = made()
    model = federation.model
    one_table.save(tmp_path / "fit.json")
    loaded = MerDel.load(tmp_path / "fit.json")
    for message, draw in {
        "measure: give one of": lambda: plot.heatmap(model, "odds"),  # type: ignore[arg-type]
        "first: give one of": lambda: plot.heatmap(model, first="x"),  # type: ignore[arg-type]
        "clusters: give one of": lambda: plot.heatmap(model, clusters="x"),  # type: ignore[arg-type]
        "a list of numbers from 0 to 2": lambda: plot.heatmap(model, clusters=[3]),
        "most: give a whole number": lambda: plot.heatmap(model, most=0),
        "outcome: 'x' is not in the study, which has 'death'": lambda: plot.outcomes(model, "x"),
        "give a GlobalModel, a Federation or a fitted FedMerDel": lambda: plot.sites(one_table),
        "fitted FedMerDel or MerDel": lambda: plot.heatmap(MerDel()),
        "has no ELBOs of its fit": lambda: plot.elbo(loaded),
        "seconds: of a fitted MerDel only": lambda: plot.elbo(federation, seconds=True),
        "^shape: 5 x 5 has 25 pixels": lambda: plot.images(replace_names(model), (5, 5)),
        "^shape: a variable is pixel 11 of 4": lambda: plot.images(model, (2, 2)),
        "shape: give lines and columns": lambda: plot.images(model, 12),  # type: ignore[arg-type]
    }.items():
        with pytest.raises(OptionError, match=message) as caught:
            draw()
        assert "\n" not in str(caught.value)


def replace_names(model: GlobalModel) -> GlobalModel:
    """The same model with names that don't tell pixels."""
    variables = tuple(replace(v, name=f"{v.name}x") for v in model.study.codebook.variables)
    study = replace(model.study, codebook=replace(model.study.codebook, variables=variables))
    return replace(model, study=study)
