"""The search for what the paper does not say of its network: its clipping threshold, its step and its allocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fastldp.privacy.budget import Budget
from fastldp.privacy.conversions import epsilon_of, rho_of
from fastldp.reproduction.choosing import MOST_RIGHT, told_of
from fastldp.reproduction.climbing import Axis, Climb, Point, climbed
from fastldp.reproduction.experiment import Experiment
from fastldp.sweeping import Results
from fastldp.sweeping.trials import grid_of

Promise = tuple[float, float]
"""(ε, δ)."""

# The search has a tenth of the images. Its δ is so large that the sampler's part in it is nothing.
FEWER_IMAGES, DELTA = 10, 0.05
# A lead of less, in images that are held out, moves no search: with one run each it may be chance.
MARGIN = 0.002
# A quick trial has so many trials of a rung.
QUICK_TRIALS = 4
# γμT from which the noise is spread almost evenly.
EVEN = 0.25
ADAPTIVE = "adaptive"

AXES = (Axis("γCT", 2000.0), Axis("C", 5.0), Axis("γμT", 1.0, least=EVEN))
CENTRAL_AXES = (AXES[0]._replace(start=500.0), *AXES[1:])
ADAPTIVE_AXES = (Axis("γT", 500.0),)


class Setting(NamedTuple):
    """What a network is trained with by Algorithm 1."""

    step: float
    clip: float | str
    """C, or that it adapts."""
    strong_convexity: float

    @property
    def parameters(self) -> dict[str, Any]:
        """As results name them."""
        return {"method": "PrimalDual", **self._asdict()}

    @property
    def letters(self) -> str:
        """As the paper has them."""
        clip = "C adaptive" if self.clip == ADAPTIVE else f"C = {self.clip:g}"
        return f"γ = {self.step:g}, {clip}, μ = {self.strong_convexity:g}"

    def given(
        self, promise: Promise, label: str, *, accounting: str = "zcdp", only: int | None = None
    ) -> dict[str, Any]:
        """What a recipe of a network lacks; `only` is a horizon, in place of the recipe's."""
        adapts = self.clip == ADAPTIVE
        own = {"clip": ADAPTIVE} if adapts else {}
        network = {} if adapts else {"clip": self.clip}
        return {
            "methods": [grid_of({"method": "PrimalDual", "step": self.step} | own, label, only)],
            "problem": network | {"strong_convexity": self.strong_convexity},
            "budgets": Budget(*promise, accounting=accounting),
        }

    def at(self, rounds: int, horizon: int) -> Setting:
        """The same where a step of another horizon leads as far in so many rounds, 1 at most.

        >>> Setting(0.5, 3.0, 0.01).at(1000, horizon=200).step, Setting(1.0, 3.0, 0.01).at(100, horizon=200).step
        (0.1, 1.0)
        """
        return self._replace(step=min(1.0, _rounded(self.step * horizon / rounds)))


def fixed(values: Sequence[float], rounds: int) -> Setting:
    """The setting with these γCT, C and γμT."""
    length, clip, bend = values
    return Setting(_rounded(length / (clip * rounds)), clip, _rounded(bend * clip / length))


def adaptive(values: Sequence[float], rounds: int, bend: float) -> Setting:
    """The setting with this γT and γμT."""
    (reach,) = values
    return Setting(_rounded(reach / rounds), ADAPTIVE, _rounded(bend / reach))


class Chosen(NamedTuple):
    """What was best of a rung."""

    setting: Setting
    accuracy: float
    """Of the images that were held out."""
    horizon: int
    climb: Climb
    told: dict[str, Any]
    """What it was chosen from."""

    @property
    def surroundings(self) -> str:
        """What is known of settings beside it."""
        names = self.climb.limits
        return f"at a limit of {' and '.join(names)}" if names else "none beside it was better"

    def at(self, rounds: int) -> Setting:
        """The setting for another horizon."""
        return self.setting.at(rounds, self.horizon)


@dataclass(frozen=True)
class Rung:
    """The trials of a recipe, at its horizon."""

    of: Experiment
    recipe: str
    into: str
    axes: Sequence[Axis] = AXES
    setting: Callable[[Sequence[float], int], Setting] = fixed

    def climb(self, promise: Promise, begin: Sequence[Point]) -> Chosen:
        """The best under as much noise as the promise's, from where to begin."""
        # A quick trial goes as much less far as it is shorter.
        (T,), (whole,) = self.of.horizons(self.recipe), self.of.horizons(self.recipe, quick=False)
        searched = promise_of_search(promise)

        def at(point: Point) -> Setting:
            length, *others = (axis.at(steps) for axis, steps in zip(self.axes, point, strict=True))
            return self.setting([length * T / whole, *others], T)

        def judge(points: list[Point]) -> dict[Point, float]:
            return {point: self._accuracy(at(point), searched, T) for point in points}

        most = QUICK_TRIALS if self.of.place.quick else np.inf
        found = climbed(self.axes, judge, begin, may=lambda point: at(point).step <= 1, margin=MARGIN, most=most)
        trials = self._trials(at(found.best), searched).where(epsilon=searched[0], rounds=T)
        told = told_of(self.into, trials, found.limits, rule=MOST_RIGHT)
        return Chosen(at(found.best), found.tried[found.best], T, found, told)

    def _trials(self, setting: Setting, searched: Promise) -> Results:
        """All that are in the file, with this one."""
        given = setting.given(searched, "a trial of the search")
        return self.of.sweep(self.recipe, into=self.into, name=f"{self.recipe}-last", **given)

    def _accuracy(self, setting: Setting, searched: Promise, rounds: int) -> float:
        found = self._trials(setting, searched).where(epsilon=searched[0], rounds=rounds, **setting.parameters)
        table = found.table()
        # What diverged once is not a choice.
        return float(np.where(table["outcome"] == "completed", table["accuracy"], 0.0).mean())


def promise_of_search(promise: Promise) -> Promise:
    """The budget of a search with fewer images: of as much more ρ as makes up for them.

    >>> promise_of_search((1.0, 1e-4))
    (8.13248999661, 0.05)
    """
    rho = FEWER_IMAGES**2 * rho_of(*promise, "zcdp")
    return _rounded(epsilon_of(rho, DELTA, "zcdp")), DELTA


def _rounded(value: float) -> float:
    """So that what is computed on the way leaves no trace."""
    return float(f"{value:.12g}")
