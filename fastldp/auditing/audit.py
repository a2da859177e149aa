"""audit(): run the real kernels on two neighbouring inputs and say what the transcripts give away."""

from __future__ import annotations

import math
import secrets
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from fastldp import memory
from fastldp.algorithms import Algorithm, PrimalDual, Schedule
from fastldp.auditing import evidence, pair
from fastldp.auditing.adversary import Seen, View, look
from fastldp.errors import ArgumentError
from fastldp.privacy.budget import Budget
from fastldp.privacy.conversions import epsilon_of
from fastldp.privacy.sampler import DITHERS
from fastldp.problem import Problem
from fastldp.recording import Final, Messages
from fastldp.solve import ARRAYS_OF_ROUNDS, MOST_ROUNDS, check_common, solve
from fastldp.validation import integer, real

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

# The numbers of the messages of one chunk: some tens of megabytes, whatever the number of transcripts.
CHUNK = 2**20
# The numbers of the noise that is checked for independence, once.
CHECKED = 2**20
# So many runs are also made alone, and their noise must be the same to so much of σ.
ALONE = 4
SAME_NOISE = 1e-3
# Noise read out of messages may be off by so much of σ for rounding; releases by so much of a spacing from the grid.
MOST_DOUBT = 1e-3
OFF_GRID = 0.1


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found."""

    epsilon: float
    """The ledger's claim for the worker that was attacked, at `delta`."""
    delta: float
    accounting: str
    exact_epsilon: float
    """The ε at δ of ideal Gaussian releases with the powers of this pair: more cannot be shown."""
    shown_epsilon: float
    """The lower bound on ε, at the confidence."""
    confidence: float
    transcripts: int
    """Of each of the two inputs."""
    loss_mean: tuple[float, float]
    """The mean privacy loss, measured and predicted."""
    loss_variance: tuple[float, float]
    """Its variance, measured and predicted."""
    power: float
    """The largest Σ ‖difference of the queries‖²/σ² of a transcript."""
    ledger_power: float
    """Twice the ρ that the ledger says is spent: the power must not exceed it."""
    noise_variance: tuple[float, float]
    """The least and greatest variance of a round's noise over the one claimed for it."""
    findings: tuple[str, ...]
    """What is wrong; empty where nothing was found."""
    edges: Array
    counts: NDArray[np.int64]
    """(2, bins): how many losses of each input fell between the edges."""
    description: str

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts the ledger."""
        return not self.findings

    def summary(self) -> str:
        """The findings as an aligned table."""
        measured, predicted = self.loss_mean
        spread, expected = self.loss_variance
        rows = [
            ("transcripts", f"{self.transcripts:,} of each of two neighbouring inputs"),
            ("loss, mean", f"{measured:.6f} measured, {predicted:.6f} predicted"),
            ("loss, variance", f"{spread:.6f} measured, {expected:.6f} predicted"),
            ("power", f"{self.power:.6f} of this pair, {self.ledger_power:.6f} in the ledger"),
            (
                "noise",
                f"{self.noise_variance[0]:.4f} to {self.noise_variance[1]:.4f} of the claimed variance, by release",
            ),
            (
                "ε shown",
                f"{self.shown_epsilon:.4f} at least, with {self.confidence:.0%} confidence, at δ = {self.delta:g}",
            ),
            ("ε exact", f"{self.exact_epsilon:.4f}, of ideal releases of this power: no attack can show more"),
            ("ε claimed", f"{self.epsilon:.4f} by the ledger ({self.accounting})"),
            ("verdict", self._verdict()),
        ]
        rows += [("", finding) for finding in self.findings]
        return "\n".join([self.description, "", *(f"  {name:<15} {text}" for name, text in rows)])

    def _verdict(self) -> str:
        if not self.passed:
            return "THE LEDGER IS WRONG"
        more = "" if self.shown_epsilon > 0 else ", but nothing is shown: this pair needs more transcripts"
        return f"nothing contradicts the ledger{more}"

    def to_dict(self) -> dict[str, Any]:
        """Everything in it as plain values."""
        flat = {name: getattr(self, name) for name in self.__dataclass_fields__}
        arrays = {"edges": self.edges.tolist(), "counts": self.counts.tolist()}
        return flat | arrays | {"findings": list(self.findings), "passed": self.passed}

    def plot(self, ax: Axes | None = None) -> Axes:
        """The losses under either input, with what Gaussian releases predict."""
        from fastldp.figures import plot_audit

        return plot_audit(self, ax)


def audit(
    problem: Problem,
    budget: Budget,
    *,
    rounds: int,
    neighbour: Problem | None = None,
    worker: int | None = None,
    algorithm: Algorithm | None = None,
    transcripts: int = 100_000,
    confidence: float = 0.95,
    seed: int | None = 0,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Audit:
    """Attack a private solve: can the server tell two inputs apart that differ in one sample of one worker?

    Both inputs are solved many times by the same kernels as any other solve. An adversary that knows everything but
    which of the two it was computes the likelihood ratio of each transcript.

    Parameters
    ----------
    neighbour : the other input; where it is not given, both inputs are made of `problem` by replacing one sample of
        `worker` (the first) in the worst way its gradient bound allows. That bound is then public and enforced.
    transcripts : of each input. More of them show more of ε, and smaller faults.
    confidence : of the lower bound on ε that is shown.

    >>> import numpy as np, fastldp as fl
    >>> problem = fl.Problem(np.eye(4), [1, 1, -1, 1], workers=2, l2=1.0, regularizer=fl.Box(0.2), gradient_bound=1.0)
    >>> found = fl.audit(problem, fl.Budget(4.0, 1e-3), rounds=3, transcripts=4000)
    >>> found.passed, 0 < found.shown_epsilon < found.exact_epsilon < found.epsilon
    (True, True)
    """
    if not isinstance(budget, Budget):
        raise ArgumentError("budget", budget, "give a Budget(epsilon, delta): without one there is nothing to audit")
    if not isinstance(problem, Problem):
        raise ArgumentError("problem", problem, "the adversary knows linear models only; give a fastldp.Problem")
    check_common(problem, budget, n_jobs, seed)
    if problem.dtype != "float64":
        raise ArgumentError("problem", problem.dtype, "in float32 the ledger claims nothing; audit it in float64")
    remedy = f"give a worker's number, from 0 to {problem.n - 1}"
    if worker is not None:
        worker = integer("worker", worker, remedy, at_least=0, at_most=problem.n - 1)
    rounds = integer("rounds", rounds, "give a whole number ≥ 1", at_least=1, at_most=MOST_ROUNDS)
    memory.refuse_beyond("rounds", 8 * ARRAYS_OF_ROUNDS * rounds, "audit fewer rounds")
    method = PrimalDual() if algorithm is None else algorithm
    if not isinstance(method, Algorithm):
        raise ArgumentError("algorithm", algorithm, "give an instance such as PrimalDual() or ISRLDP(step=0.5)")
    transcripts = integer("transcripts", transcripts, "give a whole number ≥ 2", at_least=2)
    confidence = real("confidence", confidence, "give a number between 0 and 1, such as 0.95", above=0, below=1)
    seed = secrets.randbits(128) if seed is None else seed
    seed = integer("seed", seed, "give a whole number from 0 to 2**128 − 1", at_least=0, at_most=2**128 - 1)
    if neighbour is None:
        ledger = method.schedule(problem, budget, rounds).ledger
        assert ledger is not None  # there is a budget
        inputs = pair.worst(problem, worker or 0, ledger.bound)
    else:
        inputs = pair.given(problem, neighbour)
    if worker not in (None, inputs.worker):
        raise ArgumentError("worker", worker, f"the two problems differ in a sample of worker {inputs.worker}")
    attack = _Attack(inputs, budget, rounds, method, n_jobs)
    _refuse_too_few(attack, transcripts, confidence)
    with tqdm(total=2 * transcripts, unit="transcript", disable=not progress, file=sys.stderr) as bar:
        attack.run(transcripts, seed, bar)
    return attack.verdict(transcripts, confidence)


class _Attack:
    """The two inputs, the schedule they share, and the evidence as it adds up."""

    def __init__(self, inputs: pair.Pair, budget: Budget, rounds: int, method: Algorithm, n_jobs: int | None) -> None:
        self.worlds = (inputs.problem, inputs.neighbour), (inputs.neighbour, inputs.problem)
        self.worker = inputs.worker
        self.budget, self.rounds, self.method, self.n_jobs = budget, rounds, method, n_jobs
        self.schedule = _common_schedule(inputs, budget, rounds, method)
        assert self.schedule.ledger is not None  # there is a budget
        self.ledger = self.schedule.ledger
        self.power = 2 * float(np.broadcast_to(self.ledger.spent_rho, inputs.problem.n)[self.worker])
        shape = inputs.problem.n, self.ledger.releases
        grids = np.broadcast_to(self.ledger.grids, shape)[self.worker]
        variances = np.broadcast_to(self.ledger.variances, shape)[self.worker]
        self.thresholds = evidence.Thresholds(self.power)
        self.moments = evidence.Moments(), evidence.Moments()
        self.noise = evidence.Noise(self.ledger.releases, (DITHERS * grids) ** 2 / 12 / variances)
        self.largest_power = self.off_grid = 0.0
        self.correlations: dict[str, Array] = {}
        self.alone_differs = False

    def run(self, transcripts: int, seed: int, bar: Any) -> None:
        numbers = self.ledger.releases * self.worlds[0][0].d
        size = max(16, CHUNK // numbers)
        for chunk, begin in enumerate(range(0, transcripts, size)):
            count = min(size, transcripts - begin)
            noise: list[Array] = []
            for world in (0, 1):
                seen = self._seen(world, self.worker, count, _seed(seed, chunk, world))
                # The second input's loss the other way round, so that both are ln(first over second).
                self.thresholds.add(world, seen.loss if world == 0 else -seen.loss)
                self.moments[world].add(seen)
                self.noise.add(seen.noise)
                self.largest_power = max(self.largest_power, float(seen.power.max()))
                self.off_grid = max(self.off_grid, seen.off_grid)
                noise.append(seen.noise)
                bar.update(count)
            if chunk == 0:
                self._check_independence(noise[0], noise[1], seed)
                self._check_alone(seed)

    def _check_independence(self, noise: Array, of_neighbour: Array, seed: int) -> None:
        """Against the neighbour's noise, other seeds' noise, and that of other workers in the same repetitions."""
        releases, d = noise.shape[1:]
        count = min(len(noise), max(2, CHECKED // (releases * d)))
        others = {"the two inputs": of_neighbour[:count]}
        others["seeds"] = self._seen(0, self.worker, count, _seed(seed, 2**32, 0)).noise
        n = self.worlds[0][0].n
        # The next few workers and the last: noise used twice is used by neighbours, or by all.
        for worker in sorted({(self.worker + k) % n for k in (1, 2, 3, n - 1)} - {self.worker}):
            name = f"workers {self.worker} and {worker}"
            others[name] = self._seen(0, worker, count, _seed(seed, 0, 0)).noise
        self.correlations = evidence.correlations(noise[:count], others)

    def _check_alone(self, seed: int) -> None:
        """A run alone goes other ways through the engine than runs in company: it must release the same noise."""
        for chunk in range(ALONE):
            alone = self._seen(0, self.worker, 1, _seed(seed, chunk, 0)).noise[0]
            among = self._seen(0, self.worker, 2, _seed(seed, chunk, 0)).noise[0]
            self.alone_differs |= not np.allclose(alone, among, rtol=0, atol=SAME_NOISE)

    def _seen(self, world: int, worker: int, count: int, seed: int) -> Seen:
        input_, neighbour = self.worlds[world]
        run = solve(
            input_,
            self.budget,
            rounds=self.rounds,
            algorithm=self.method,
            repetitions=count,
            seed=seed,
            record=[Final(), Messages(worker)],
            n_jobs=self.n_jobs,
        )
        assert run.messages is not None
        assert run.broadcasts is not None
        start = input_.regularizer.prox(np.zeros(input_.d), 0.0)
        seen = look(input_, neighbour, worker, self.schedule, start, View(run.messages, run.broadcasts))
        if not seen.doubt < MOST_DOUBT:
            raise ArgumentError(
                "rounds",
                self.rounds,
                "early rounds have so much more noise than late ones that double precision cannot tell the late "
                "rounds' noise from the messages; audit fewer rounds, or allocation='static'",
            )
        return seen

    def verdict(self, transcripts: int, confidence: float) -> Audit:
        ledger, n = self.ledger, self.worlds[0][0].n
        claimed = float(np.broadcast_to(ledger.epsilon, n)[self.worker])
        shown = self.thresholds.lower_bound(ledger.delta, confidence)
        first, second = self.moments
        means, variances = self.noise.scores()
        counts = self.thresholds.counts.sum(axis=0)[:, 1:-1]
        return Audit(
            epsilon=claimed,
            delta=ledger.delta,
            accounting=ledger.accounting,
            exact_epsilon=epsilon_of(max(self.largest_power, 1e-300) / 2, ledger.delta, "gdp"),
            shown_epsilon=shown,
            confidence=confidence,
            transcripts=transcripts,
            loss_mean=_of_both(first.mean, second.mean),
            loss_variance=_of_both(first.variance, second.variance),
            power=self.largest_power,
            ledger_power=self.power,
            noise_variance=(float(self.noise.variances.min()), float(self.noise.variances.max())),
            findings=tuple(self._findings(claimed, means, variances)),
            edges=self.thresholds.edges,
            counts=counts,
            description=f"{self.worlds[0][0]}, worker {self.worker}, {type(self.method).__name__}, "
            f"step {self.schedule.step:g}, {self.rounds:,} rounds, {ledger.allocation} allocation",
        )

    def _findings(self, claimed: float, means: Array, variances: Array) -> list[str]:
        scores = np.array([moments.scores() for moments in self.moments])
        checks = 6 + len(self.correlations)
        found = []
        # At the confidence of all other checks, not of the number that is shown.
        shown = self.thresholds.lower_bound(self.ledger.delta, 1 - evidence.FALSE_ALARM / checks)
        if shown > claimed:
            found.append(f"the transcripts show ε ≥ {shown:.4f}, more than the {claimed:.4f} that is claimed")
        if self.largest_power > self.power * (1 + 1e-9):
            found.append("the inputs move a release by more than the sensitivity in the ledger")
        if evidence.alarming(scores[:, 0], checks):
            found.append(f"the mean of the loss is {_worst(scores[:, 0])} standard errors off")
        if evidence.alarming(scores[:, 1], checks):
            found.append(f"the variance of the loss is {_worst(scores[:, 1])} standard errors off")
        if evidence.alarming(means, checks):
            found.append(f"the noise has a mean: {_worst(means)} standard errors in release {_where(means)}")
        if evidence.alarming(variances, checks):
            found.append(
                f"the noise of release {_where(variances)} has {self.noise.variances[_where(variances) - 1]:.4f} "
                f"of the claimed variance, {_worst(variances)} standard errors off"
            )
        if evidence.alarming(self.noise.misfit(), checks):
            found.append(f"the noise is not Gaussian: its distribution is {_worst(self.noise.misfit())} deviations off")
        if self.off_grid > OFF_GRID:
            found.append(f"releases lie off the public grid, by {self.off_grid:.2f} of its spacing")
        if self.alone_differs:
            found.append("a run alone releases other noise than the same run in company")
        for between, values in self.correlations.items():
            if evidence.alarming(values, checks):
                found.append(f"noise is correlated between {between}: {_worst(values)} standard errors")
        return found


def _common_schedule(inputs: pair.Pair, budget: Budget, rounds: int, method: Algorithm) -> Schedule:
    """The step and variances of both inputs; they must not tell the inputs apart by themselves."""
    one, other = (method.schedule(problem, budget, rounds) for problem in inputs[:2])
    same = one.step == other.step and np.array_equal(one.deviations, other.deviations)
    if not (same and np.array_equal(one.factors, other.factors)):
        raise ArgumentError(
            "neighbour",
            f"gradient bound {_bound(other):g}, step {other.step:g}",
            f"the problem's are {_bound(one):g} and {one.step:g}: they alone tell the two apart; "
            "give both problems the same gradient_bound=, and the method a step=",
        )
    return one


def _bound(schedule: Schedule) -> float:
    return math.inf if schedule.ledger is None else schedule.ledger.bound


def _refuse_too_few(attack: _Attack, transcripts: int, confidence: float) -> None:
    delta = attack.ledger.delta
    if evidence.epsilon_expected(attack.power, transcripts, delta, confidence) > 0:
        return
    needed = evidence.transcripts_needed(attack.power, delta, confidence)
    if needed is None:
        remedy = "a billion would not show anything at so small a budget; audit a larger ε"
    else:
        remedy = f"too few to show anything at this budget; give at least {max(needed, 2 * transcripts):,}"
    raise ArgumentError("transcripts", transcripts, remedy)


def _seed(seed: int, chunk: int, world: int) -> int:
    """Noise of its own for every chunk of either input."""
    return (seed << 64) + 2 * chunk + world


def _of_both(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    return (first[0] + second[0]) / 2, (first[1] + second[1]) / 2


def _worst(scores: Array) -> str:
    return f"{scores[np.argmax(np.abs(scores))]:+.1f}"


def _where(scores: Array) -> int:
    return int(np.argmax(np.abs(scores))) + 1
