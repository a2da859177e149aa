"""The short report of a solve, no longer than a screen, and its picture."""

from __future__ import annotations

import itertools
import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

import fastldp as fl
from fastldp.cli.terminal import program
from fastldp.engine.recording import some_of
from fastldp.figures import figure_of
from fastldp.kernels import calling
from fastldp.measures import ACCURACY
from fastldp.privacy.ledger import ADAPTIVE
from fastldp.privacy.statement import brief

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, MARGIN = 100, 9
ROWS = 5
# The longest command that is repeated word by word.
LONGEST = 47
OF_FILES = ("--plot", "--save")
ENDED = {fl.Outcome.COMPLETED: "solved", fl.Outcome.DIVERGED: "diverged", fl.Outcome.INTERRUPTED: "stopped"}


def report(run: fl.Solution, problem: fl.Problem, method: Any, name: str) -> str:
    """What was solved and how, the error along the rounds, and the promise in words."""
    assert run.ledger is not None  # the command always has a budget
    return "\n\n".join(
        [
            _part(ENDED[run.status.outcome], *_solved(run, problem, method, name)),
            _part("error", *_errors(run, problem)),
            _part("promise", *(line for text in brief(run.ledger) for line in textwrap.wrap(text, WIDTH - MARGIN))),
        ]
    )


def following(words: Sequence[str]) -> str:
    """Three commands to try next; the first is the one that was given, in detail."""
    same = shlex.join([*_without_files(words), "--details"])
    short = len(same) <= LONGEST
    details = (
        (f"{program()} {same}", "with ledger and bounds")
        if short
        else ("the same with --details", "ledger and bounds too")
    )
    # Who has brought data has no need to be told how.
    data = next((word for before, word in itertools.pairwise(words) if before == "--data"), "")
    brought = "." in data or any(word.startswith("--data=") and "." in word for word in words)
    own = ("audit", "attack the noise") if brought else ("solve --data mine.csv --label y", "your own data")
    others = [own, ("reproduce fig1 --quick", "the paper's first figure")]
    rows = [details, *((f"{program()} {command}", what) for command, what in others)]
    width = max(len(command) for command, _ in rows)
    return _part("next", *(f"{command:<{width}}  {what}" for command, what in rows))


def picture(run: fl.Solution, problem: fl.Problem, name: str) -> Axes:
    """The errors along the rounds, beside where they start."""
    assert run.ledger is not None
    axes = run.plot(_upper_of_two() if ACCURACY in run.measures else None)
    # In the words of the report.
    axes.lines[0].set_label(f"error: mean ± std of {len(run.workers)}")
    axes.set_ylabel("error = distance + consensus")
    if _starts_at_one(run, problem):
        axes.axhline(1.0, color="0.5", linewidth=1, zorder=1, label="start, x = 0")
    axes.legend(frameon=False)
    if ACCURACY in run.measures:
        run.plot(figure_of(axes).axes[1], measure=ACCURACY)
        axes.set_xlabel("")
    axes.set_title(f"{name}, {problem.n} workers, ({run.ledger.epsilon:g}, {run.ledger.delta:g})-LDP")
    return axes


def _upper_of_two() -> Axes:
    """Axes for the errors, over others for the accuracy along the same rounds."""
    from matplotlib import pyplot

    upper: Axes
    _, (upper, _) = pyplot.subplots(2, 1, sharex=True, figsize=(6.4, 5.6), height_ratios=(2, 1), layout="constrained")
    return upper


def _part(name: str, *lines: str) -> str:
    """Lines beside a word in the margin."""
    return "\n".join(f"{'' if k else name:<{MARGIN}}{line}".rstrip() for k, line in enumerate(lines))


def _solved(run: fl.Solution, problem: fl.Problem, method: Any, name: str) -> list[str]:
    """The data, the objective and the method, a line each."""
    rows, squares = problem.rows.shape[0], f" + ({problem.l2:g}/2)‖x‖²" if problem.l2 else ""
    g = "" if isinstance(problem.regularizer, fl.Zero) else f" + g, g = {problem.regularizer}"
    compiling = ", with compiling" if calling.counts()[1] else ""
    lines = [
        f"{name}: {rows:,} rows of {problem.d:,} features, over {problem.n} workers",
        f"{problem.loss.name} loss{squares}{g}",
        f"by {_called(method)},",
    ]
    lasted = f"{_rounds(run)} in {run.seconds:.2g} s{compiling}"
    last = [f"{lines[-1]} {lasted}"] if len(lines[-1]) + len(lasted) < WIDTH - MARGIN else [lines[-1], lasted]
    return [textwrap.shorten(line, WIDTH - MARGIN, placeholder=" ...") for line in [*lines[:-1], *last]]


def _rounds(run: fl.Solution) -> str:
    """How many there were, of a run that was stopped those that are recorded of all repetitions."""
    wanted = f"{run.rounds[-1]:,} rounds"
    if run.status.outcome is not fl.Outcome.INTERRUPTED:
        return wanted
    there = run.rounds[~np.isnan(run.consensus).any(axis=0)]
    return f"{there[-1] if there.size else 0:,} of {wanted}"


def _called(method: Any) -> str:
    """A method with those of its parameters that are not as by default."""
    own = [field for field in fields(method) if repr(getattr(method, field.name)) != repr(field.default)]
    parts = [f"{one.name}={_shown(getattr(method, one.name))}" for one in own]
    return f"{type(method).__name__}({', '.join(parts)})"


def _shown(value: Any) -> str:
    if isinstance(value, fl.Graph):
        return str(value)
    if value == fl.AdaptiveClip():
        return repr(ADAPTIVE)
    return _called(value) if isinstance(value, fl.AdaptiveClip | fl.Sampling) else repr(value)


def _errors(run: fl.Solution, problem: fl.Problem) -> list[str]:
    """A table of some rounds, and what the error is."""
    if np.isnan(run.consensus).all():
        return ["nothing was recorded yet"]
    known = bool(np.isfinite(run.distance).any())
    values = run.optimality if known else run.objective
    tested = ACCURACY in run.measures
    lines = [f"{'round':>9}  {f'mean of {len(values)}':>12}  {'± std':>9}" + (f"  {ACCURACY:>9}" if tested else "")]
    for k in some_of(run.rounds.size, ROWS):
        # Of the repetitions that came this far.
        reached = ~np.isnan(values[:, k])
        there = values[reached, k]
        if there.size:
            right = f"  {run.accuracy[reached, k].mean():>9.4g}" if tested else ""
            lines.append(f"{run.rounds[k]:>9,}  {there.mean():>12.4g}  {there.std():>9.2g}{right}")
    start = "; 1 at the start" if _starts_at_one(run, problem) else ""
    error = f"squared distance to the optimum x*, over ‖x*‖², and between the workers{start}"
    what = [error if known else "the objective, for no optimum was found"]
    if tested:
        larger = f"the larger class has {problem.majority:.4g}"
        what.append(f"accuracy: the share of the test data that is right; {larger}")
    return [*lines, *what]


def _starts_at_one(run: fl.Solution, problem: fl.Problem) -> bool:
    """Whether the error of x = 0 is 1: there is an optimum, and it is another."""
    return bool(np.isfinite(run.distance).any() and problem.optimum().any())


def _without_files(words: Sequence[str]) -> list[str]:
    """A command without the files that it writes."""
    kept = [word for word in words if not word.startswith(tuple(f"{option}=" for option in OF_FILES))]
    return [word for k, word in enumerate(kept) if word not in OF_FILES and (k == 0 or kept[k - 1] not in OF_FILES)]
