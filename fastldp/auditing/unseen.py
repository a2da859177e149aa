"""What transcripts could not have shown: of each class of faults, the smallest that would have been found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from scipy import sparse

from fastldp.auditing import independence
from fastldp.auditing.evidence import least_score
from fastldp.auditing.independence import Closest
from fastldp.auditing.watching import Watched
from fastldp.engine import driving
from fastldp.methods import Program
from fastldp.privacy.sampler import SPACING
from fastldp.problems.composite import Composite
from fastldp.problems.linear import Problem

# What noise is compared between, for people.
BETWEEN = {
    "rounds": "two releases of a run",
    "coordinates": "two coordinates",
    "transcripts": "two transcripts",
    "inputs": "a release of either input",
    "seeds": "releases under two seeds",
    "runs of one seed": "releases of two runs of one seed",
    "workers": "a release of one worker and one of another",
    "counts": "a count and a number of a gradient",
    "two counts": "two counts",
}


class Sight(NamedTuple):
    """What the transcripts at hand are, and what was compared in them."""

    problem: Composite
    program: Program
    error: float
    """With which each check rules out chance."""
    transcripts: int
    """Of each input,"""
    first_block: int
    """and those in which noise used again is looked for."""
    releases: int
    power: float
    ledger_power: float
    excess: float
    """What the dither adds to the variance of a release, over it."""
    gridless: int
    closest: dict[str, Closest]
    not_compared: tuple[str, ...]
    watched: Watched | None
    counts: int = 0
    """Those of gradients that are not clipped."""


def unseen(sight: Sight) -> tuple[str, ...]:
    """The faults that may be there, though nothing was found: a line a class."""
    return (*_of_amounts(sight), *_of_sharing(sight), *_of_the_grid(sight), *_of_paths(sight))


def _of_amounts(sight: Sight) -> Iterator[str]:
    numbers = 2 * sight.transcripts * sight.problem.d
    one = least_score(sight.error, sight.releases) * math.sqrt(2 / numbers)
    all_ = least_score(sight.error, 1) * math.sqrt(2 / (numbers * sight.releases))
    yield f"variance: off by less than {one:.2%} in one release, {all_:.2%} in all"
    if sight.counts:
        of_counts = least_score(sight.error, sight.counts) * math.sqrt(2 / (2 * sight.transcripts))
        yield f"variance of a count: off by less than {of_counts:.2%}"
    if sight.watched is not None:
        workers = len(sight.watched.watch.workers)
        of_others = least_score(sight.error, sight.releases * workers) * math.sqrt(2 / sight.watched.numbers)
        yield f"variance of other workers: off by less than {of_others:.2%} in one release"
    share = sight.power / sight.ledger_power
    short = max(1 - math.sqrt(min(share, 1.0)), 1e-9)
    yield f"sensitivity: understated by less than {short:.2g}, for this pair reaches {share:.4f} of the ledger's power"
    # A longer gradient of the sample moves each release by half of what the two inputs are apart.
    apart = math.sqrt(sight.power / sight.releases)
    lax = least_score(sight.error, 1) / math.sqrt(sight.transcripts * sight.releases) / max(apart / 2, 1e-300)
    yield f"clipping: a bound exceeded by less than {lax:.2%}, or by samples other than the replaced one"
    mean = least_score(sight.error, 2 * sight.releases * sight.problem.d) / math.sqrt(sight.transcripts)
    yield f"query: off by less than {mean:.2g} σ in one coordinate of one release"


def _of_sharing(sight: Sight) -> Iterator[str]:
    for name, what in BETWEEN.items():
        if name in sight.closest:
            least = sight.closest[name].least(sight.error)
            amount = f"below {least:.2g}" if least < 0.99 else "short of 1"
            yield f"correlation {amount} between {what}, in value or size"
    if sight.releases == 1:
        yield "noise shared by rounds: there is but one release"
    elif sight.releases > independence.MOST_RELEASES:
        yield f"noise shared by rounds: of {sight.releases:,} releases {independence.MOST_RELEASES} were compared"
    if sight.program.local_steps == 1:
        yield "noise shared by purposes: there is one release a round, and no warm start"
    elif not sight.program.early_releases:
        yield "noise shared with a warm start: there is none"
    d = sight.problem.d
    if d == 1:
        yield "noise shared by coordinates: there is but one"
    elif d > independence.MOST_COORDINATES:
        yield f"noise shared by coordinates: of {d:,} the first {independence.MOST_COORDINATES:,} were compared"
    block = sight.first_block
    if not independence.can_repeat(block, sight.releases * d):
        block = min(block, independence.MOST_TRANSCRIPTS)
    yield f"noise used again more than {block:,} transcripts later"
    for name in sight.not_compared:
        yield f"noise shared by {name}: the method's own variances fit no other run"
    yield from _of_workers(sight)


def _of_workers(sight: Sight) -> Iterator[str]:
    n, watched = sight.problem.n, sight.watched
    if watched is None:
        yield "noise shared by workers: there is but one"
        return
    count = len(watched.watch.workers)
    if count < n:
        pairs, all_ = count * (count - 1) // 2, n * (n - 1) // 2
        yield f"noise shared by workers: of {n:,} {count:,} were watched, {pairs:,} of {all_:,} pairs"
    if watched.kept.size < sight.releases:
        yield f"noise shared by workers: of {sight.releases:,} releases {watched.kept.size} were compared"


def _of_the_grid(sight: Sight) -> Iterator[str]:
    if sight.gridless:
        yield f"releases off the grid: rounding hides it in {sight.gridless:,} of {sight.releases:,}"
    numbers = 2 * sight.transcripts * sight.problem.d * sight.releases
    needed = 2 * (least_score(sight.error, 1) / sight.excess) ** 2
    if numbers < needed:
        yield (
            f"dithers: constant ones take {sight.excess:.2g} off the variance, and {needed:.1g} numbers would show it; "
            f"there are {numbers:.1g}"
        )
    yield f"rounding of a query on the grid before the noise is added: it moves the mean by {SPACING / 2:.2g} σ at most"


def _of_paths(sight: Sight) -> Iterator[str]:
    """The ways through the engine that such runs do not take."""
    problem = sight.problem
    yield "single precision: it promises nothing, and is not audited"
    if not driving.threads_pay(problem):
        yield "kernels whose workers are shared by several threads: the problem is too small for them"
    if isinstance(problem, Problem):
        other = "dense" if sparse.issparse(problem.rows) else "sparse"
        yield f"kernels for {other} data and for networks"
    else:
        yield "kernels for linear models"
    yield f"methods other than {type(sight.program.method).__name__}"
