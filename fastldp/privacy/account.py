"""A budget for life: what several runs on the same people's data spend together, and a refusal of what exceeds it."""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fastldp import html
from fastldp.errors import ArgumentError, BudgetError
from fastldp.privacy.budget import Budget
from fastldp.privacy.conversions import epsilon_of
from fastldp.privacy.ledger import Ledger


class Charge(NamedTuple):
    """What a run took of an account."""

    name: str
    ledger: Ledger

    @property
    def rho(self) -> float:
        """That of the worker who spent most."""
        return float(np.max(self.ledger.spent_rho))

    def sampler(self, epsilon: float) -> tuple[float, float]:
        """What its sampler adds to ε and δ, taken of that ε: it grows with it."""
        ledger = replace(self.ledger, promised_epsilon=np.full_like(self.ledger.promised_epsilon, epsilon))
        return float(np.max(ledger.sampler_epsilon)), ledger.sampler_delta

    def __str__(self) -> str:
        read = self.ledger.read_off_data
        return f"ρ = {self.rho:.6g}" + (f"; read off the data, hence not covered: {read}" if read else "")


class Reserve(NamedTuple):
    """What is set aside for runs to come, on rows of which each is on one side: no side takes more than this."""

    name: str
    sides: tuple[tuple[Charge, ...], ...]

    @property
    def rho(self) -> float:
        """That of the larger side."""
        return max(sum(charge.rho for charge in side) for side in self.sides)

    def sampler(self, epsilon: float) -> tuple[float, float]:
        """What samplers add to ε and δ, at most."""
        added = [[charge.sampler(epsilon) for charge in side] for side in self.sides]
        return (
            max(sum(of_epsilon for of_epsilon, _ in side) for side in added),
            max(sum(of_delta for _, of_delta in side) for side in added),
        )

    def __str__(self) -> str:
        counts = " or ".join(f"{len(side):,}" for side in self.sides)
        return f"ρ = {self.rho:.6g}, set aside for {counts} runs, on rows that are in one of these alone"


class PrivacyAccount:
    """An (ε, δ) that all runs charged to it keep to together, whatever was chosen after seeing earlier ones.

    The runs are of Gaussian releases, whose ρ add up; what their samplers take is added too. A charge that would exceed
    the account is refused. It is shared: a copy, `copy.deepcopy` and scikit-learn's `clone` give the same account, and
    one in another process, sent or forked, refuses all charges, since those would be forgotten here.

    Parameters
    ----------
    epsilon : float
        ε of everything together.
    delta : float
        δ; that of every run.
    accounting : str
        ``"gdp"``, which is exact, ``"zcdp-tight"`` or ``"zcdp"``; that of every run.

    Examples
    --------
    >>> import numpy as np, fastldp as fl
    >>> account = PrivacyAccount(1.0, 1e-5)
    >>> problem = fl.Problem(np.eye(40), np.ones(40), workers=2, l2=0.1, row_bound=1.0)
    >>> for seed in (1, 2):
    ...     run = fl.solve(problem, account.each(2), rounds=5, seed=seed)
    ...     account.charge(run.ledger, f"run {seed}")
    >>> round(account.spent_epsilon, 2), account.spent_epsilon < account.total_epsilon <= 1.0
    (1.0, True)
    """

    def __init__(self, epsilon: float, delta: float, accounting: str = "gdp") -> None:
        self.budget = Budget(epsilon, delta, accounting)
        if np.ndim(self.budget.epsilon):
            raise BudgetError("epsilon", epsilon, "an account is of one number for all workers")
        self.charges: list[Charge | Reserve] = []
        self._process = os.getpid()
        self._lock = threading.Lock()

    def each(self, runs: int) -> Budget:
        """The budget of each of so many runs that fill the account together."""
        return self.budget.split(runs)

    def charge(self, ledger: Ledger, name: str = "") -> None:
        """Take what a run spends; refused, with nothing taken, where that is more than is left."""
        self._look(ledger)
        self._take(Charge(name, ledger), float(np.max(ledger.promised_epsilon)))

    def reserve(self, sides: Sequence[Sequence[Ledger]], epsilon: float, name: str = "") -> None:
        """Set aside what several runs will spend, before the first; refused as a charge is.

        Rows are on one side each, so that what counts is the larger side. What is not spent after all stays taken.

        Parameters
        ----------
        sides : sequence of sequences of Ledger
            Those of the runs to come, on rows that no other side has.
        epsilon : float
            What all of them promise together, for the words of a refusal.
        name : str
            Of what they are.
        """
        for ledger in itertools.chain(*sides):
            self._look(ledger)
        self._take(Reserve(name, tuple(tuple(Charge(name, ledger) for ledger in side) for side in sides)), epsilon)

    def _look(self, ledger: Ledger) -> None:
        """A ledger is of the account's kind, and bounds all that it takes."""
        budget = self.budget
        if (ledger.delta, ledger.accounting) != (budget.delta, budget.accounting):
            raise ArgumentError(
                "ledger", ledger, f"all runs need the account's delta={budget.delta:g} and {budget.accounting!r}"
            )
        if ledger.amplified:
            remedy = (
                'what its sampling amplifies does not add up as ρ does; run with accounting="gdp", as account.each says'
            )
            raise ArgumentError("ledger", ledger, remedy)
        if math.isnan(ledger.sampler_delta):
            raise ArgumentError("ledger", ledger, "what single precision spends is not bounded; run in float64")
        if ledger.total_delta > ledger.delta:
            raise ArgumentError(
                "ledger", ledger, "its sampler takes more than δ leaves it; spread so large an ε over more rounds"
            )

    def _take(self, charge: Charge | Reserve, epsilon: float) -> None:
        if self._process != os.getpid():  # sent there, or forked
            raise BudgetError(
                "account",
                self,
                "it is a copy in another process, whose charges the account itself would not learn of; run in one "
                'process, with n_jobs=1 or joblib.parallel_config(backend="threading")',
            )
        budget = self.budget
        with self._lock:
            total = _total([*self.charges, charge], budget)
            if not total <= float(budget.epsilon):
                raise BudgetError(
                    "epsilon",
                    epsilon,
                    f"with it all {len(self.charges) + 1} runs would spend {total:.6g} of the account's "
                    f"{budget.epsilon:g}, of which {self.spent_epsilon:.6g} is spent; nothing was run. Give every run "
                    "a part, as account.each(runs).epsilon",
                )
            self.charges.append(charge)

    @property
    def spent_rho(self) -> float:
        """The ρ of all runs, of the worker who spent most in each."""
        return sum(charge.rho for charge in self.charges)

    @property
    def spent_epsilon(self) -> float:
        """ε at δ of all runs together, with ideal normals; 0 where nothing was run."""
        return epsilon_of(self.spent_rho, self.budget.delta, self.budget.accounting) if self.charges else 0.0

    @property
    def total_epsilon(self) -> float:
        """The same with what the samplers of all runs take; never more than the account has."""
        return _total(self.charges, self.budget)

    def summary(self) -> str:
        """What was promised, what was spent, and by what."""
        return "\n".join(f"  {name:<15} {text}" for name, text in self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        budget, runs = self.budget, len(self.charges)
        rows = [
            ("promised", f"(ε, δ) = ({budget.epsilon:g}, {budget.delta:g})-LDP for all runs together"),
            ("accounting", f"{budget.accounting}, ρ = {budget.rho:.6g}"),
            ("spent", f"ε = {self.spent_epsilon:.6g}, ρ = {self.spent_rho:.6g}, in {runs} run{'s' * (runs != 1)}"),
        ]
        return rows + [(charge.name, str(charge)) for charge in self.charges]

    def _repr_html_(self) -> str:
        return html.table(self._rows())

    def __repr__(self) -> str:
        budget = self.budget
        return f"PrivacyAccount({budget.epsilon:g}, {budget.delta:g}, {budget.accounting!r})"

    # One account, however often it is copied.

    def __copy__(self) -> PrivacyAccount:
        return self

    def __deepcopy__(self, memo: Any) -> PrivacyAccount:
        return self

    def __sklearn_clone__(self) -> PrivacyAccount:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {"budget": self.budget, "charges": [*self.charges]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _process=None, _lock=threading.Lock())


def repeated(ledger: Ledger, count: int, budget: Budget) -> Ledger:
    """The ledger of so many runs alike on the same shards, as of one run that released all of theirs."""
    if ledger.amplified and count > 1:
        remedy = f"what sampling amplifies does not add up as ρ does over {count} trainings"
        raise ArgumentError("accounting", ledger.accounting, f'{remedy}; give "gdp", or leave sampling= out')
    n = ledger.factors.size
    return replace(
        ledger,
        promised_epsilon=np.broadcast_to(np.asarray(budget.epsilon, dtype=np.float64), (n,)).copy(),
        promised_rho=budget.rho_of_workers(n),
        shape=np.tile(ledger.shape, count),
        count_variances=np.tile(ledger.count_variances, count),
        allocation=f"{ledger.allocation}, in each of {count} trainings at 1/{count} of ρ"
        if count > 1
        else ledger.allocation,
    )


def _total(charges: Sequence[Charge | Reserve], budget: Budget) -> float:
    """ε at δ with the samplers': of runs one after the other, what each adds to ε and to δ adds up."""
    if not charges:
        return 0.0
    # What a sampler takes grows with the ε that it is taken of, which is that of all runs together.
    added = [charge.sampler(float(budget.epsilon)) for charge in charges]
    # A run's part of δ is (e^ε₁ − 1)δ and a remainder, and (1 − Σ(e^ε₁ − 1)) e^Σε₁ ≤ 1.
    rest = budget.delta - sum(of_delta for _, of_delta in added)
    if rest <= 0:
        return math.inf
    return epsilon_of(sum(charge.rho for charge in charges), rest, budget.accounting) + sum(
        of_epsilon for of_epsilon, _ in added
    )
