"""What sampled releases promise at random settings: ours beside dp-accounting, Fourier's inversion and Rényi's bound.

    .venv/bin/python scripts/amplifying.py             # 200 settings, twenty minutes; the first number is how many
    .venv/bin/python scripts/amplifying.py 20 --write  # and the table between its marks in docs/amplification.md

Each setting draws a rate q, deviations that differ over the rounds, rounds, local steps, δ and how many samples a
worker has, and calibrates the noise to an ε. Then what we say δ is at that ε must be at least what Fourier's inversion
finds, and what dp-accounting finds with its losses rounded down; at most what Rényi's divergences, integrated here, do
bound it by; and it is compared with dp-accounting's own pessimistic number.
"""

from __future__ import annotations

import itertools
import math
import sys
from typing import NamedTuple

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.integrate import quad

from fastldp.privacy.amplification import Releases, delta_of, scale_of
from fastldp.verifying.sampled import delta_by_inversion
from readme import ROOT, write

SETTINGS = 200
# dp-accounting looks for the point of every loss of its grid by itself.
MOST_POINTS = 20_000


class Found(NamedTuple):
    """δ at one setting, by everyone."""

    ours: float
    theirs: float
    their_least: float
    inverted: float
    off: float
    by_orders: float


def setting(generator: np.random.Generator) -> tuple[Releases, float, float]:
    """Releases calibrated to an ε at a δ, and both."""
    rate = float(generator.choice([1.0, 10 ** generator.uniform(-2, 0)], p=[0.1, 0.9]))
    rounds = int(10 ** generator.uniform(0, 2.7))
    levels = min(rounds, int(generator.integers(1, 5)))
    # A method's deviations, over how far one of m clipped gradients, divided by q m, moves the query.
    samples, clip = int(10 ** generator.uniform(1, 5)), 10 ** generator.uniform(-1, 1)
    deviations = np.repeat(np.geomspace(1, 10 ** generator.uniform(0, 0.7), levels), -(-rounds // levels))[:rounds]
    local = int(generator.choice([1, 1, 5]))
    epsilon, delta = 10 ** generator.uniform(-0.7, 0.7), 10 ** generator.uniform(-8, -3)
    moved = clip / (rate * samples)
    releases = Releases(rate, deviations / moved, local=local)
    scale = scale_of(releases, epsilon, delta)
    return releases._replace(multipliers=releases.multipliers * scale), epsilon, delta


def theirs(releases: Releases, epsilon: float, *, pessimistic: bool) -> float:
    """What dp-accounting says δ is; in as fine a grid as takes seconds."""
    total: pld.PrivacyLossDistribution | None = None
    values, counts = np.unique(releases.multipliers, return_counts=True)
    made = int(counts.sum()) * releases.local
    widest = 25 / values.min() if values.min() > 1 else 25 / values.min() ** 2
    spacing = max(0.02 * epsilon / math.sqrt(made) / 5, widest / MOST_POINTS)
    for s, count in zip(values.tolist(), counts.tolist(), strict=True):
        one = pld.from_gaussian_mechanism(
            s,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=spacing,
            sampling_prob=releases.rate,
            use_connect_dots=pessimistic,
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
        ).self_compose(count * releases.local)
        total = one if total is None else total.compose(one)
    assert total is not None
    return float(total.get_delta_for_epsilon(epsilon))


def by_orders(releases: Releases, epsilon: float) -> float:
    """The best of δ ≤ e^((α − 1)(D_α − ε)) / (α − 1) · (1 − 1/α)^α: Proposition 12 of Canonne, Kamath and Steinke."""
    values, counts = np.unique(releases.multipliers, return_counts=True)
    best = 0.0
    for order in (1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256):
        spent = sum(
            count * releases.local * divergence(s, releases.rate, order)
            for s, count in zip(values.tolist(), counts.tolist(), strict=True)
        )
        log_delta = (order - 1) * (spent - epsilon) - math.log(order - 1) + order * math.log1p(-1 / order)
        best = min(best, log_delta)
    return math.exp(best)


def divergence(s: float, rate: float, order: float) -> float:
    """(α − 1) D_α = ln ∫ P^α Q^(1 − α), where normals have all that counts."""

    def logs(z: float) -> tuple[float, float, float]:
        at_zero = -z * z / (2 * s * s) - math.log(s * math.sqrt(2 * math.pi))
        out = math.log1p(-rate) if rate < 1 else -math.inf
        p = np.logaddexp(out, math.log(rate) + (2 * z - 1) / (2 * s * s))
        q = np.logaddexp(out, math.log(rate) - (2 * z + 1) / (2 * s * s))
        return at_zero, float(p), float(q)

    grid = np.linspace(-15 * s, 1 + 2 * order + 15 * s, 4001)
    exponents = np.array([a + order * p + (1 - order) * q for a, p, q in map(logs, grid.tolist())])
    top = float(exponents.max())
    centre = float(grid[exponents.argmax()])

    def integrand(z: float) -> float:
        at_zero, p, q = logs(z)
        return math.exp(at_zero + order * p + (1 - order) * q - top)

    edges = [-15 * s, min(0.0, centre), centre, max(2.0, centre + 8 * s), 1 + 2 * order + 15 * s]
    edges = sorted({*edges, 0.0, 1.0, centre - 8 * s})
    found = sum(quad(integrand, a, b, limit=200)[0] for a, b in itertools.pairwise(edges))
    return (math.log(found) + top) / (order - 1)


def found_at(releases: Releases, epsilon: float) -> Found:
    return Found(
        delta_of(releases, epsilon),
        theirs(releases, epsilon, pessimistic=True),
        theirs(releases, epsilon, pessimistic=False),
        *delta_by_inversion(releases, epsilon),
        by_orders(releases, epsilon),
    )


def main() -> None:
    asked = [int(word) for word in sys.argv[1:] if word.isdigit()]
    generator = np.random.default_rng(26)
    rows = []
    for number in range(asked[0] if asked else SETTINGS):
        releases, epsilon, delta = setting(generator)
        found = found_at(releases, epsilon)
        rows.append((releases, epsilon, delta, found))
        wrong = [
            name
            for name, holds in {
                "more than was asked for": found.ours <= delta,
                "less than Fourier's inversion": found.ours >= (found.inverted - found.off) * (1 - 1e-9),
                "less than dp-accounting's least": found.ours >= found.their_least * (1 - 1e-6),
                "more than Rényi's bound": found.ours <= found.by_orders * (1 + 1e-3),
            }.items()
            if not holds
        ]
        s = releases.multipliers
        print(
            f"{number:4} q={releases.rate:.4g} s={s.min():.3g}..{s.max():.3g} T={s.size} K={releases.local} "
            f"ε={epsilon:.3g} δ={delta:.2e} ours/δ={found.ours / delta:.4f} "
            f"theirs/ours={found.theirs / found.ours:.4f} least/ours={found.their_least / found.ours:.4f} "
            f"inverted/ours={found.inverted / found.ours:.4f} "
            f"orders/ours={found.by_orders / found.ours:.2f} {'; '.join(wrong) or 'ok'}",
            flush=True,
        )
        if wrong:
            raise SystemExit(1)
    if "--write" in sys.argv:
        write(ROOT / "docs" / "amplification.md", "amplifying", table([found for *_, found in rows]))


def table(rows: list[Found]) -> str:
    """Of all settings together."""

    def spread(values: list[float]) -> str:
        low, middle, high = np.quantile(values, [0, 0.5, 1])
        return f"{low:.3g} | {middle:.3g} | {high:.3g}"

    sure = [row for row in rows if row.off < 1e-3 * row.inverted]
    lines = [
        f"| δ at the calibrated noise, {len(rows)} settings | least | median | most |",
        "|---|---|---|---|",
        f"| ours over Fourier's inversion ({len(sure)} settings where that has three digits) | "
        f"{spread([row.ours / row.inverted for row in sure])} |",
        f"| dp-accounting over ours | {spread([row.theirs / row.ours for row in rows])} |",
        f"| dp-accounting, losses rounded down, over ours | {spread([row.their_least / row.ours for row in rows])} |",
        f"| Rényi's bound over ours | {spread([row.by_orders / row.ours for row in rows])} |",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
