"""How often verdicts of the reproduction are false: python scripts/false_verdicts.py [--families 1000] [--write].

Tables of 44 claims whose truth is known are judged as `fastldp reproduce` judges, all looks and all. In the first table
every claim lies on a line, where it is easiest to be wrong; in the second a single claim has the difference named.
With --write the tables go into docs/reproduction.md, between their marks. A quarter of an hour on one core.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fastldp as fl
from fastldp.reproduction import claims
from fastldp.reproduction.claims import Claim, Errors, Point
from fastldp.reproduction.response import lucks, response
from fastldp.reproduction.verdicts import ALIKE, FAILED, HELD, UNDECIDED, Verdict
from fastldp.sweeping import Grid, spec
from readme import REPRODUCTION, write

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Array]
"""(points, runs): logarithms of errors, of mean zero."""

CLAIMS = 44
CHOSEN_ON = 20
EDGE = float(np.log1p(claims.MARGIN))
SPREAD = 0.2
REAL = 4000
DIFFERENCES = (0.0, 0.01, 0.025, 0.05, 0.1, 0.2)


class Known(NamedTuple):
    """A claim, and the logarithms of the errors that its points truly have."""

    claim: Claim
    theta: float
    truth: dict[Point, float]

    def is_false(self, verdict: Verdict) -> bool:
        if verdict.alike:
            return abs(self.theta - self.claim.low) >= EDGE - 1e-12
        # On a line neither verdict is true.
        on_line = min(abs(self.theta - self.claim.low), abs(self.theta - self.claim.high)) < 1e-12
        return verdict.held is not None and (on_line or verdict.held != (self.claim.low < self.theta < self.claim.high))


def better(name: str, theta: float) -> Known:
    first, second = Point(f"{name} a", 1), Point(f"{name} b", 1)
    return Known(claims.better("", name, first, second), theta, {first: 0.0, second: theta})


def within(name: str, share: float) -> Known:
    first, second = Point(name, 1), Point(name, 2)
    claim = claims.within("", name, first, second, share=0.2)
    return Known(claim, float(np.log1p(share)), {first: 0.0, second: float(np.log1p(share))})


def dip(name: str, depth: float) -> Known:
    """A curve of six horizons that is flat but for a dip at one of them."""
    points = [Point(name, T) for T in range(6)]
    claim = claims.falls_and_rises("", name, name, range(6))
    return Known(claim, depth, dict.fromkeys(points, 0.0) | {points[3]: -depth})


def on_the_line() -> list[Known]:
    """Where the limits of the least error, and of the largest, are strained most."""
    found = [better(f"same {k}", 0.0) for k in range(20)]
    found += [better(f"margin {k}", (-1) ** k * EDGE) for k in range(8)]
    found += [within(f"fifth {k}", (-1) ** k * 0.2) for k in range(8)]
    found += [dip(f"flat {k}", 0.0) for k in range(4)] + [dip(f"dip {k}", EDGE) for k in range(4)]
    assert len(found) == CLAIMS
    return found


class Drawn:
    """The errors of one family: points share a part of their noise, as methods of one seed do."""

    def __init__(self, known: Sequence[Known], draw: Draw, rng: np.random.Generator) -> None:
        self.truth = {point: mean for one in known for point, mean in one.truth.items()}
        most = CHOSEN_ON + claims.LOOKS[-1]
        noise = draw(rng, len(self.truth), most)
        self.errors = {point: np.exp(mean + x) for (point, mean), x in zip(self.truth.items(), noise, strict=True)}

    @property
    def chosen_on(self) -> Errors:
        return {point: values[:CHOSEN_ON] for point, values in self.errors.items()}

    def measure(self, points: Sequence[Point], count: int) -> Errors:
        return {point: self.errors[point][CHOSEN_ON : CHOSEN_ON + count] for point in points}


def normal(rng: np.random.Generator, points: int, runs: int) -> Array:
    shared, own = rng.standard_normal((1, runs)), rng.standard_normal((points, runs))
    return np.asarray(SPREAD / np.sqrt(2) * (shared + own))


def heavy(rng: np.random.Generator, points: int, runs: int) -> Array:
    """Student's t with three degrees of freedom."""
    return np.asarray(SPREAD / np.sqrt(3) * rng.standard_t(3, (points, runs)))


def skewed(rng: np.random.Generator, points: int, runs: int) -> Array:
    """Exponential, to either side from point to point: their differences are as skewed as they are."""
    x = SPREAD * (rng.standard_exponential((points, runs)) - 1)
    return x * np.where(np.arange(points) % 2, 0.1, 1.0)[:, None]


def real(*, without_luck: bool = False) -> Draw:
    """Drawn from the errors of real runs, of two methods at two horizons; as they are, or as claims are judged by."""
    data = fl.datasets.synthetic("ijcnn1")
    problem = fl.Problem(data.A[:2000], data.b[:2000], workers=20, l2=0.1)
    budget = fl.Budget(1.0, 1e-4)
    kept = []
    methods = [Grid(fl.PrimalDual, {"step": [0.05]}), Grid(fl.ISRLDP, {"step": [0.004]})]
    given: dict[str, Any] = {"budgets": budget, "methods": methods, "rounds": [250, 500], "repetitions": REAL}
    read = spec.read(fl.Sweep(problems={"given": problem}, seed=0, common_noise=True, **given))
    for setting in read.settings:
        run = fl.solve(
            problem,
            budget,
            rounds=setting.rounds,
            algorithm=setting.method,
            repetitions=REAL,
            seed=0,
            common_noise=True,
            record=fl.Final(),
            n_jobs=1,
        )
        errors = run.optimality[:, -1]
        if without_luck:
            known = response(read.grounds[0], setting)
            assert known is not None
            errors = errors / lucks([known], setting.noise.keys(range(REAL), bytes))[0]
        kept.append(np.log(errors))
    residuals = np.array(kept) - np.mean(kept, axis=1, keepdims=True)

    def draw(rng: np.random.Generator, points: int, runs: int) -> Array:
        rows = rng.integers(residuals.shape[1], size=runs)
        # Some points have the noise of the others, and some have their own.
        own = rng.integers(residuals.shape[1], size=(points, runs))
        kinds = np.arange(points) % len(residuals)
        shared = np.arange(points) % 3 == 0
        return np.asarray(residuals[kinds[:, None], np.where(shared[:, None], rows, own)])

    return draw


def rates(draws: Mapping[str, Draw], families: int) -> list[str]:
    lines = ["| errors | tables with a false verdict | false verdicts of all | undecided |", "|---|---|---|---|"]
    known = on_the_line()
    for name, draw in draws.items():
        rng = np.random.default_rng(1)
        tables, verdicts, undecided = 0, 0, 0
        for _ in range(families):
            drawn = Drawn(known, draw, rng)
            found = claims.decide([one.claim for one in known], drawn.chosen_on, drawn.measure)
            wrong = sum(one.is_false(verdict) for one, verdict in zip(known, found, strict=True))
            tables += wrong > 0
            verdicts += wrong
            undecided += sum(verdict.word == UNDECIDED for verdict in found)
        all_of = families * CLAIMS
        lines.append(f"| {name} | {tables / families:.1%} | {verdicts / all_of:.2%} | {undecided / all_of:.0%} |")
    return lines


def powers(draw: Draw, tables: int) -> list[str]:
    """What becomes of one claim among 44, whose others are clear."""
    words_of = (HELD, FAILED, ALIKE, UNDECIDED)
    lines = [f"| one error is less by | {' | '.join(words_of)} | runs, mean |", "|---|---|---|---|---|---|"]
    clear = [better(f"clear {k}", 3.0) for k in range(CLAIMS - 1)]
    for difference in DIFFERENCES:
        rng = np.random.default_rng(2)
        asked = [better("one", float(np.log1p(difference))), *clear]
        words, runs = Counter[str](), 0
        for _ in range(tables):
            drawn = Drawn(asked, draw, rng)
            verdict = claims.decide([one.claim for one in asked], drawn.chosen_on, drawn.measure)[0]
            words[verdict.word] += 1
            runs += int(verdict.measured.rpartition(", ")[2].removesuffix(" runs").replace(",", ""))
        shares = " | ".join(f"{words[word] / tables:.0%}" for word in words_of)
        lines.append(f"| {difference:.1%} | {shares} | {runs / tables:,.0f} |")
    return lines


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", type=int, default=1000, help="(1000) how many tables of 44 claims")
    parser.add_argument("--write", action="store_true", help="into docs/reproduction.md")
    chosen = parser.parse_args()
    draws = {
        "normal": normal,
        "heavy tails: Student's t, 3 degrees of freedom": heavy,
        "skewed: exponential, ten times as wide for every second error": skewed,
        "those of real runs": real(),
        "those of real runs, without their luck": real(without_luck=True),
    }
    text = "\n".join([*rates(draws, chosen.families), "", *powers(normal, max(1, chosen.families // 4))])
    print(text)
    if chosen.write:
        write(REPRODUCTION, "false verdicts", text)


if __name__ == "__main__":
    main()
