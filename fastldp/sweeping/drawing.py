"""Pictures of sweeps: a curve a setting while they can be told apart, and a word where they cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastldp import figures
from fastldp.errors import ArgumentError
from fastldp.measures import ACCURACY
from fastldp.sweeping.parameters import shown
from fastldp.validation import known_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize

    from fastldp.sweeping.grouping import Curve, Mean
    from fastldp.sweeping.reading import Results

# More curves than this nobody tells apart, whatever their colours.
MOST_CURVES = 200
# More names than this would lie over the curves, and more than that do not fit beside them.
MOST_INSIDE, MOST_BESIDE = 5, 24
# More curves than this have no colours of their own.
MOST_COLOURS = 10
LONGEST_NAME = 60
MOST_POINTS = 10_000
# Parameters whose values speak for themselves.
SELF_EVIDENT = ("method", "data", "allocation", "accounting")
# Those that are classes, which may come from outside.
CLASSES = ("method", "loss", "regularizer")
# Digests, of which the beginning is shown, and what they are of.
DIGESTS = {"fingerprint": "data", "code": "code", "loss_code": "code of the loss", "regularizer_code": "code of g"}


class _Line(NamedTuple):
    """What distinguishes a curve, and its numbers."""

    label: dict[str, Any]
    means: Curve | list[Mean]


def plot_results(
    results: Results,
    ax: Axes | None = None,
    *,
    x: str,
    by: Sequence[str],
    over: Sequence[str],
    measure: str | None,
    label: str,
) -> Axes:
    """Means of a sweep with one standard deviation either side: along the rounds, or at the end against a parameter."""
    measure = results._measure(measure)
    lines = _along(results, by, over, measure) if x == "round" else _against(results, x, by, over, measure)
    ours, ax = ax is None, figures.axes(ax)
    # Beside what others have drawn on these axes.
    first = figures.curves_on(ax)
    scale = _scale([line.label for line in lines]) if not first else None
    names = _names(results, lines, label, figures.names_on(ax))
    for k, (line, name) in enumerate(zip(lines, names, strict=True)):
        color = _color(line.label, k + first, len(lines) + first, scale)
        if isinstance(line.means, list):
            means = sorted(line.means, key=lambda mean: mean.label[x])
            values, spreads = np.array([(mean.mean, mean.std) for mean in means]).T
            places = [mean.label[x] for mean in means]
            figures.bars(ax, places, values, spreads, color=color, marker="o", markersize=3, label=name)
        else:
            figures.band(ax, line.means.rounds, line.means.mean, line.means.std, color, name)
    ax.set_xlabel("communication round" if x == "round" else "rounds T" if x == "rounds" else x)
    if measure != ACCURACY:  # which is no error that falls, and lies between 0 and 1
        ax.set_yscale("log")
    ax.set_ylabel(f"{measure}, mean ± std")
    ax.grid(True, which="major", alpha=0.3)
    if scale is None:
        _legend(ax, ours)
    else:
        from matplotlib.cm import ScalarMappable

        name = f"{next(iter(lines[0].label))} ({len(lines)} values)"
        figures.figure_of(ax).colorbar(ScalarMappable(scale, "viridis"), ax=ax, label=name)
    return ax


def _along(results: Results, by: Sequence[str], over: Sequence[str], measure: str) -> list[_Line]:
    groups = results._groups(by, over)
    _refuse_too_many(len(groups), [*groups[0].label] if groups else [])
    return [_Line(curve.label, curve) for curve in results._curves(groups, measure, by)]


def _against(results: Results, x: str, by: Sequence[str], over: Sequence[str], measure: str) -> list[_Line]:
    known_name("x", x, sorted(results.parameters))
    if not all(isinstance(value, int | float | str) for value in results.parameters[x]):
        raise ArgumentError("x", x, "not all runs have a number or a name there; choose those that do, with where")
    names = [name for name in by or results._telling if name != x and (by or name not in over)]
    lines: dict[str, _Line] = {}
    for mean in results.means(*names, x, measure=measure, over=over):
        label = {name: mean.label[name] for name in names}
        means = lines.setdefault(repr(label), _Line(label, [])).means
        assert isinstance(means, list)
        means.append(mean)
    _refuse_too_many(len(lines), names)
    return list(lines.values())


def _refuse_too_many(count: int, names: Sequence[str]) -> None:
    if count > MOST_CURVES:
        raise ArgumentError(
            "by",
            tuple(names),
            f"{count:,} curves, of which {MOST_CURVES} can be told apart at most; put one of these on the axis (x=), "
            "choose some values (where), or average over one (over=)",
        )


def _scale(labels: Sequence[Mapping[str, Any]]) -> Normalize | None:
    """The colours of many curves that differ in one number alone; None where names must tell them apart."""
    if len(labels) <= MOST_COLOURS or len(labels[0]) != 1:
        return None
    values = [value for label in labels for value in label.values()]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return None
    from matplotlib.colors import LogNorm, Normalize

    wide = min(values) > 0 and max(values) > 30 * min(values)
    return (LogNorm if wide else Normalize)(min(values), max(values))


def _color(label: Mapping[str, Any], k: int, count: int, scale: Normalize | None) -> Any:
    from matplotlib import colormaps

    if scale is not None:
        return colormaps["viridis"](float(scale(next(iter(label.values())))))
    return f"C{k}" if count <= MOST_COLOURS else colormaps["turbo"]((k + 0.5) / count)


def _legend(ax: Axes, ours: bool) -> None:
    """In the axes, or beside them where it is long; what does not fit there is counted."""
    handles, names = ax.get_legend_handles_labels()
    if len(names) <= MOST_INSIDE:
        # The best place is sought among all points, which takes long where there are many.
        many = sum(len(np.asarray(line.get_xdata())) for line in ax.lines) > MOST_POINTS
        ax.legend(frameon=False, loc="upper right" if many else "best")
        return
    names = [name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 3] + "..." for name in names]
    title = None
    if len(names) > MOST_BESIDE:
        title = f"{MOST_BESIDE} of {len(names)} curves"
        # From the first to the last, evenly.
        chosen = np.linspace(0, len(names) - 1, MOST_BESIDE).round().astype(int).tolist()
        handles, names = [handles[k] for k in chosen], [names[k] for k in chosen]
    if ours:
        figures.figure_of(ax).set_size_inches(6.8 + 0.07 * max(map(len, names)), 4.8)
    ax.legend(
        handles, names, title=title, frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1.0)
    )


def _names(results: Results, lines: Sequence[_Line], label: str, taken: Sequence[str]) -> list[str]:
    """A name for each curve, none of which is on the axes yet."""
    names = [name_of(line.label, short=True) for line in lines]
    # Two modules may have classes of one name.
    if len({*names}) < len(names):
        names = [name_of(line.label) for line in lines]
    # Where nothing differs but code or data, what all have in common.
    common = ", ".join(name_of({"method": value}, short=True) for value in results.parameters.get("method", []))
    found: list[str] = []
    for line, text in zip(lines, names, strict=True):
        first = label or (common if {*line.label} <= {*DIGESTS} else "")
        own = ", ".join(part for part in (first, text) if part)
        name, count = own, 1
        while name in taken or name in found:
            count += 1
            name = f"{own} ({count})"
        found.append(name)
    return found


def name_of(parameters: Mapping[str, Any], *, short: bool = False) -> str:
    """What distinguishes a curve, without what does not apply to it; of classes from outside, `short`, the name alone.

    >>> name_of({"method": "ISRLDP", "step": 0.5, "clip": None, "fingerprint": "3fa8b2c1d2e3"})
    'ISRLDP, step = 0.5, data 3fa8b2c1'
    >>> name_of({"method": "mymethods:HeavyBall", "momentum": 0.9}, short=True)
    'HeavyBall, momentum = 0.9'
    """
    texts = []
    for name, value in parameters.items():
        if value is None:
            continue
        if name in DIGESTS:
            texts.append(f"{DIGESTS[name]} {value[:8]}")
            continue
        text = str(value).rpartition(":")[2] if short and name in CLASSES else shown(value)
        texts.append(text if name in SELF_EVIDENT else f"{name} = {text}")
    return ", ".join(texts)
