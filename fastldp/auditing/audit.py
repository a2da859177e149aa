"""audit(): run the real kernels on two neighbouring inputs and say what the transcripts give away."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from fastldp import memory
from fastldp.auditing import evidence, pair
from fastldp.auditing.attack import Attack
from fastldp.auditing.federated import WorkerAttack
from fastldp.auditing.unseen import unseen
from fastldp.errors import ArgumentError
from fastldp.methods import Method, PrimalDual
from fastldp.privacy.budget import Budget
from fastldp.privacy.conversions import epsilon_of
from fastldp.problems.composite import Composite
from fastldp.problems.linear import Problem
from fastldp.problems.mlp import MLP
from fastldp.solve import ARRAYS_OF_ROUNDS, MOST_ROUNDS, check_common
from fastldp.validation import integer, real

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastldp.reporting import Page

Array = NDArray[np.float64]

# Of many findings these are printed unasked.
MOST_TOLD = 3


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
    unseen: tuple[str, ...]
    """The faults that these transcripts could not have shown: of each class, the smallest they would have."""
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
            *self._epsilons(),
            ("verdict", self._verdict()),
        ]
        rows += [("", finding) for finding in self.findings]
        rows += [("" if k else "unseen", fault) for k, fault in enumerate(self.unseen)]
        return "\n".join([self.description, "", *_aligned(rows)])

    def __str__(self) -> str:
        rows = [("found", finding) for finding in self.findings[:MOST_TOLD]]
        if len(self.findings) > MOST_TOLD:
            rows.append(("", f"and {len(self.findings) - MOST_TOLD:,} more"))
        rows += [*self._epsilons(), ("transcripts", f"{self.transcripts:,} of each of two neighbouring inputs")]
        if self.unseen:
            rows.append(("unseen", f"{len(self.unseen)} kinds of faults, which summary() lists (--details)"))
        return "\n".join([self._verdict(), *_aligned(rows)])

    def __repr__(self) -> str:
        return (
            f"Audit({self._verdict()}: ε = {self.shown_epsilon:.4g} shown by {self.transcripts:,} transcripts, "
            f"{self.epsilon:.4g} claimed; summary() says more)"
        )

    def _epsilons(self) -> list[tuple[str, str]]:
        shown = f"{self.shown_epsilon:.4f} at least, with {self.confidence:.0%} confidence, at δ = {self.delta:g}"
        return [
            ("ε shown", shown),
            ("ε exact", f"{self.exact_epsilon:.4f}, of ideal releases of this power: no attack can show more"),
            ("ε claimed", f"{self.epsilon:.4f} by the ledger ({self.accounting})"),
        ]

    def _verdict(self) -> str:
        if not self.passed:
            return "THE LEDGER IS WRONG"
        more = "" if self.shown_epsilon > 0 else ", but nothing is shown: this pair needs more transcripts"
        return f"nothing contradicts the ledger{more}"

    def to_dict(self) -> dict[str, Any]:
        """Everything in it as plain values."""
        flat = {name: getattr(self, name) for name in self.__dataclass_fields__}
        arrays = {"edges": self.edges.tolist(), "counts": self.counts.tolist()}
        lists = {"findings": list(self.findings), "unseen": list(self.unseen)}
        return flat | arrays | lists | {"passed": self.passed}

    def report(self, path: str | os.PathLike[str] | None = None, *, title: str = "") -> Page:
        """What was shown, what is claimed and what could not have been seen, as one page to open in a browser.

        Parameters
        ----------
        path : path, optional
            An HTML file to write it to.
        title : str
            Over the page.

        Returns
        -------
        Page
            With its text, `html`, and `save(path)`; notebooks show it.
        """
        from fastldp.reporting import audits
        from fastldp.reporting.page import made

        return made(audits.report_of(self, title), path)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The losses under either input, with what Gaussian releases predict.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; new axes where it is not given.

        Returns
        -------
        matplotlib axes
            With the histograms and the curves.
        """
        from fastldp.figures import plot_audit

        return plot_audit(self, ax)


def audit(
    problem: Composite,
    budget: Budget,
    *,
    rounds: int,
    neighbour: Composite | None = None,
    worker: int | None = None,
    algorithm: Method | None = None,
    transcripts: int = 100_000,
    confidence: float = 0.95,
    seed: int | None = 0,
    n_jobs: int | None = None,
    progress: bool = False,
    federated: bool = False,
) -> Audit:
    """Attack a private solve: tell two inputs apart that differ in one sample of one worker.

    Both inputs are solved many times by the same kernels as any other solve. An adversary that knows everything but
    which of the two it was computes the likelihood ratio of each transcript. The noise of all workers is compared, in
    all pairs; where there is no time for all, `unseen` says so, and what else could not have been found.

    Parameters
    ----------
    problem : Problem or MLP
        One input, in double precision.
    budget : Budget
        The (ε, δ) each worker is promised.
    rounds : int
        The horizon T of every solve.
    neighbour : Problem or MLP, optional
        The other input; where it is not given, both inputs are made of `problem` by replacing one sample of `worker` in
        the worst way its gradient bound allows. That bound is then public and enforced. For a network it is the worst
        of a few ways that are tried, and `power` says what it reaches of the ledger's.
    worker : int, optional
        Who has the sample, by its number from 0; the first where it is not given, or the one that `neighbour` tells.
    algorithm : method, optional
        What is attacked; `PrimalDual()` where it is not given.
    transcripts : int
        Of each input. More of them show more of ε, and smaller faults.
    confidence : float
        Of the lower bound on ε that is shown.
    seed : int or None
        Of the noise; None takes one from the operating system.
    n_jobs : int, optional
        How many cores may be used; all of them by default.
    progress : bool
        Whether to show a bar.
    federated : bool
        Whether to attack a `federation.Worker` by its public methods alone, as a server would that makes up all other
        workers. Its noise is of keys from the operating system, so there are no seeds to compare.

    Returns
    -------
    Audit
        The ε that was shown and the ε that is claimed, what is wrong, and what could not have been seen.

    Raises
    ------
    ArgumentError
        Among others where so few transcripts cannot show anything at this budget.

    Examples
    --------
    >>> import numpy as np, fastldp as fl
    >>> problem = fl.Problem(np.eye(4), [1, 1, -1, 1], workers=2, l2=1.0, regularizer=fl.Box(0.2), gradient_bound=1.0)
    >>> found = fl.audit(problem, fl.Budget(4.0, 1e-3), rounds=3, transcripts=4000)
    >>> found.passed, 0 < found.shown_epsilon < found.exact_epsilon < found.epsilon
    (True, True)
    """
    if not isinstance(budget, Budget):
        raise ArgumentError("budget", budget, "give a Budget(epsilon, delta): without one there is nothing to audit")
    check_common(problem, budget, n_jobs, seed)
    if not isinstance(problem, Problem | MLP):
        raise ArgumentError("problem", problem, "the adversary does not know it; give a fastldp.Problem or an MLP")
    if problem.dtype != "float64":
        raise ArgumentError("problem", problem.dtype, "in float32 the ledger claims nothing; audit it in float64")
    remedy = f"give a worker's number, from 0 to {problem.n - 1}"
    if worker is not None:
        worker = integer("worker", worker, remedy, at_least=0, at_most=problem.n - 1)
    rounds = integer("rounds", rounds, "give a whole number ≥ 1", at_least=1, at_most=MOST_ROUNDS)
    memory.refuse_beyond("rounds", 8 * ARRAYS_OF_ROUNDS * rounds, "audit fewer rounds")
    method = PrimalDual() if algorithm is None else algorithm
    if not isinstance(method, Method):
        raise ArgumentError("algorithm", algorithm, "give an instance such as PrimalDual() or ISRLDP(step=0.5)")
    if getattr(method, "sampling", None) is not None:
        remedy = "the adversary takes all samples to be in every release; audit the method without sampling="
        raise ArgumentError("sampling", method.sampling, remedy)  # type: ignore[attr-defined]
    transcripts = integer("transcripts", transcripts, "give a whole number ≥ 2", at_least=2)
    confidence = real("confidence", confidence, "give a number between 0 and 1, such as 0.95", above=0, below=1)
    seed = secrets.randbits(128) if seed is None else seed
    seed = integer("seed", seed, "give a whole number from 0 to 2**128 − 1", at_least=0, at_most=2**128 - 1)
    if neighbour is None:
        schedule = method.schedule(problem, budget, rounds)
        assert schedule.ledger is not None  # there is a budget
        bound = schedule.ledger.bound if schedule.adapting is None else schedule.adapting.limits.start
        pairs = list(pair.candidates(problem, worker or 0, bound, adaptive=schedule.adapting is not None))
    else:
        pairs = [pair.given(problem, neighbour)]
    if worker not in (None, pairs[0].worker):
        raise ArgumentError("worker", worker, f"the two problems differ in a sample of worker {pairs[0].worker}")
    if not isinstance(federated, bool):
        raise ArgumentError("federated", federated, "give True or False")
    kind = WorkerAttack if federated else Attack
    attacks = [kind(inputs, budget, rounds, method, n_jobs) for inputs in pairs]
    # Under seeds of their own, for the choice must not depend on what is then found.
    attack = max(attacks, key=lambda one: one.tried(seed << 64 | 1 << 63)) if len(attacks) > 1 else attacks[0]
    _refuse_too_few(attack, transcripts, confidence)
    with tqdm(total=2 * transcripts, unit="transcript", disable=not progress, file=sys.stderr) as bar:
        attack.run(transcripts, seed, bar)
    return _verdict(attack, transcripts, confidence)


def _aligned(rows: list[tuple[str, str]]) -> list[str]:
    return [f"  {name:<15} {text}" for name, text in rows]


def _refuse_too_few(attack: Attack, transcripts: int, confidence: float) -> None:
    delta = attack.ledger.delta
    if evidence.epsilon_expected(attack.power, transcripts, delta, confidence) > 0:
        return
    needed = evidence.transcripts_needed(attack.power, delta, confidence)
    if needed is None:
        remedy = "a billion would not show anything at so small a budget; audit a larger ε"
    else:
        remedy = f"too few to show anything at this budget; give at least {max(needed, 2 * transcripts):,}"
    raise ArgumentError("transcripts", transcripts, remedy)


def _verdict(attack: Attack, transcripts: int, confidence: float) -> Audit:
    ledger = attack.ledger
    claimed = float(np.broadcast_to(ledger.epsilon, attack.problem.n)[attack.worker])
    first, second = attack.moments
    variances = attack.noise.variances
    return Audit(
        epsilon=claimed,
        delta=ledger.delta,
        accounting=ledger.accounting,
        exact_epsilon=epsilon_of(max(attack.largest_power, 1e-300) / 2, ledger.delta, "gdp"),
        shown_epsilon=attack.thresholds.lower_bound(ledger.delta, confidence),
        confidence=confidence,
        transcripts=transcripts,
        loss_mean=_of_both(first.mean, second.mean),
        loss_variance=_of_both(first.variance, second.variance),
        power=attack.largest_power,
        ledger_power=attack.power,
        noise_variance=(float(variances.min()), float(variances.max())),
        findings=tuple(attack.findings(claimed)),
        unseen=unseen(attack.sight(transcripts)),
        edges=attack.thresholds.edges,
        counts=attack.thresholds.counts.sum(axis=0)[:, 1:-1],
        description=f"{attack.problem}, worker {attack.worker}, {type(attack.method).__name__}, "
        f"step {attack.schedule.step:g}, {attack.rounds:,} rounds, {ledger.allocation} allocation",
    )


def _of_both(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    return (first[0] + second[0]) / 2, (first[1] + second[1]) / 2
