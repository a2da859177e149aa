"""What the figures share: curves with error bars or bands, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator

from fastldp import figures
from fastldp.reproduction.series import Series

MARKERS = "osD^vP"
# Of the width that the curves have.
BESIDE = 0.008

# The height of a row of a legend, of a panel's; so many rows fit above curves as they are.
ROW, FEW_ROWS = 0.065, 3


def draw_bars(ax: Axes, series: Sequence[Series]) -> None:
    """Means with one standard deviation either side, those of one x beside one another."""
    for k, one in enumerate(series):
        aside = BESIDE * (k - (len(series) - 1) / 2) * (one.x[-1] - one.x[0])
        figures.bars(
            ax,
            one.x + aside,
            one.mean,
            one.std,
            color=f"C{k}",
            # Broken lines lie on top, so that curves that coincide are both seen.
            linestyle="--" if k % 2 else "-",
            zorder=3 if k % 2 else 2,
            marker=MARKERS[k % len(MARKERS)],
            markersize=4,
            label=one.label,
        )


def draw_bands(ax: Axes, series: Sequence[Series]) -> None:
    """Means along the rounds with one standard deviation either side."""
    for k, one in enumerate(series):
        figures.band(ax, one.x, one.mean, one.std, f"C{k}", one.label, alpha=0.15)


def same_limits(axes: Sequence[Axes], series: Sequence[Series]) -> None:
    """One vertical axis for several panels, around all that is drawn in them."""
    low = min(float(one.mean.min()) for one in series)
    high = max(float((one.mean + one.std).max()) for one in series)
    for ax in axes:
        # Room for the legend above.
        ax.set_ylim(0.6 * low, 3.0 * high)


def draw_bound(ax: Axes, bound: Series) -> None:
    """A bound, drawn where it is in sight; as words in the legend where it would press the curves together."""
    if bound.mean.max() < ax.get_ylim()[1]:
        ax.plot(bound.x, bound.mean, color="0.5", linestyle=":", label=bound.label)
    else:
        low, high = (f"{value:.3g}" for value in (bound.mean.min(), bound.mean.max()))
        ax.plot([], [], " ", label=f"{bound.label}: {low if low == high else f'{low} to {high}'}, off the scale")


def finish(ax: Axes, x: str, y: str) -> None:
    ax.set_yscale("log")
    # A decade has few ticks; those at 2 and 5 are labelled too, in plain numbers.
    ax.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
    for which in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        which(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(True, which="major", alpha=0.3)
    # Short names fit beside one another.
    labels = ax.get_legend_handles_labels()[1]
    columns = 2 if max(map(len, labels)) <= 26 else 1
    # And many long ones want more room above the curves.
    more = ROW * max(0, -(-len(labels) // columns) - FEW_ROWS)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** (more / (1 - more)))
    ax.legend(frameon=False, fontsize=8, loc="upper left", ncols=columns)
