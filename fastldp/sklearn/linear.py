"""What the estimators share: rows from features, the budget over trainings, the training, and the model read back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from fastldp.engine.recording import Final
from fastldp.errors import ArgumentError
from fastldp.losses import Loss
from fastldp.methods import Method
from fastldp.methods.planned import PLANNED
from fastldp.privacy.account import PrivacyAccount, repeated
from fastldp.privacy.budget import Budget
from fastldp.privacy.ledger import Ledger
from fastldp.problems.linear import Problem
from fastldp.problems.weighting import ROWS
from fastldp.sklearn.ranges import Ranges
from fastldp.sklearn.sharing import worker_of_row
from fastldp.solve import FEWER_ROUNDS, MOST_ROUNDS, check_common, planned_method, solve, warn_of_sampler
from fastldp.validation import integer, known_name, real

Array = NDArray[np.float64]


class Unmeasured(Problem):
    """A problem whose runs are not measured against an optimum: none is sought."""

    has_optimum = False


class Asked(NamedTuple):
    """What a fit is to learn: rows, a vector of targets for each model, and what of the data was read for it."""

    X: Any
    targets: Sequence[Array]
    read: str = ""
    classes: Any = None


class Plan(NamedTuple):
    """A fit up to its first noise."""

    problems: Iterator[Problem]
    method: Method
    rounds: int
    part: Budget
    """Of each training."""
    seed: int | None
    ledger: Ledger
    """What all trainings together will spend."""


class Trained(NamedTuple):
    """The models of one fit, a row each, in the rows' coordinates."""

    models: Array
    ledger: Ledger
    rounds: int


class LDPLinearModel(BaseEstimator):  # type: ignore[misc]
    """The parameters that both estimators have, and how they train."""

    losses: ClassVar[dict[str, Callable[[], Loss]]]
    """Those that a word stands for."""
    labels: ClassVar[str]
    """What the labels of its losses are."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any, y: Any, unknown: dict[str, Any], **options: Any) -> tuple[Any, Any]:
        """X and y as scikit-learn checks them; what `fit` does not take is refused."""
        for name, value in unknown.items():
            if name != "sample_weight":
                raise TypeError(f"fit() got an unexpected keyword argument {name!r}")
            if value is not None:
                raise ArgumentError(
                    name,
                    value,
                    "a sample of twice the weight would need twice the noise for all; every sample counts alike, as "
                    "each is promised the same; leave it out",
                )
        return validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, **options)  # type: ignore[no-any-return]

    def _owners(self, rows: int, groups: Any) -> NDArray[np.int64]:
        return worker_of_row(rows, groups, self.workers)

    def _loss(self) -> Loss:
        if not isinstance(self.loss, Loss):
            known_name("loss", self.loss, tuple(self.losses), "; other losses are given as instances")
            return self.losses[self.loss]()
        if self.loss.labels != self.labels:
            raise ArgumentError("loss", self.loss, f"it is of other labels; use one of {', '.join(self.losses)}")
        return self.loss

    def _algorithm(self) -> Method:
        if isinstance(self.method, Method):
            return self.method
        known_name("method", self.method, (PLANNED,), ", or give a fastldp.Method such as PrimalDual()")
        return planned_method()

    def _rounds(self, method: Method, problem: Problem, budget: Budget) -> int:
        if isinstance(self.rounds, str):
            known_name("rounds", self.rounds, (PLANNED,), ", or give a whole number")
            return method.planned_rounds(problem, budget)
        return integer("rounds", self.rounds, FEWER_ROUNDS, at_least=1, at_most=MOST_ROUNDS)

    def _asked(self, X: Any, y: Any, refused: dict[str, Any]) -> Asked:
        """The rows and what is to be learnt of them, checked."""
        raise NotImplementedError

    def _ledger_ahead(self, X: Any, y: Any, groups: Any = None) -> Ledger:
        """What a fit would spend; what it would refuse is refused here, before any noise."""
        asked = self._asked(X, y, {})
        return self._plan(asked, self._owners(asked.X.shape[0], groups)).ledger

    def _plan(self, asked: Asked, owners: NDArray[np.int64]) -> Plan:
        """One model for each of the targets, within one budget; nothing is read off the data but what is named."""
        budget, rows = budget_of(self), self._rows(asked.X)
        part, method, seed = budget.split(len(asked.targets)), self._algorithm(), seed_of(self.random_state)
        problems = self._problems(rows, asked.targets, owners)
        problem = next(problems)
        check_common(problem, part, self.n_jobs, seed)
        rounds = self._rounds(method, problem, part)
        planned = method.schedule(problem, part, rounds).ledger
        assert planned is not None  # there is a budget
        if planned.read_off_data:
            raise ArgumentError(
                "method",
                method,
                f"it would read off the data {planned.read_off_data}, which an estimator does not: give a public "
                'row_bound= or gradient_bound=, or a method with clip="adaptive" and step="planned"',
            )
        whole = repeated(planned, len(asked.targets), budget)
        return Plan(itertools.chain([problem], problems), method, rounds, part, seed, whole)

    def _train(self, asked: Asked, owners: NDArray[np.int64]) -> Trained:
        plan = self._plan(asked, owners)
        if self.account is not None:
            charged(self.account).charge(plan.ledger, type(self).__name__)
        given: dict[str, Any] = {
            "rounds": plan.rounds,
            "algorithm": plan.method,
            "seed": plan.seed,
            "n_jobs": self.n_jobs,
        }
        models, ledger = [], plan.ledger
        for problem in plan.problems:
            run = solve(problem, plan.part, record=Final(), **given)
            assert run.ledger is not None
            models.append(run.x[0])
            ledger = run.ledger
        whole = replace(repeated(ledger, len(models), budget_of(self)), read_off_data=asked.read)
        warn_of_sampler(whole)
        return Trained(np.stack(models), whole, plan.rounds)

    def _problems(self, rows: Any, targets: Sequence[Array], owners: NDArray[np.int64]) -> Iterator[Problem]:
        """One after the other: each has a copy of the rows."""
        for labels in targets:
            yield Unmeasured(
                rows,
                labels,
                workers=owners,
                loss=self._loss(),
                l2=self.l2,
                regularizer=self.regularizer,
                row_bound=self.row_bound,
                gradient_bound=self.gradient_bound,
                weighting=ROWS,
            )

    def _rows(self, X: Any) -> Any:
        """The features in their ranges, and the column of the intercept."""
        ranges = self._ranges(X.shape[1])
        rows = X if ranges is None else ranges.mapped(X)
        if not self.fit_intercept:
            return rows
        ones = np.full((X.shape[0], 1), self._scale())
        return sparse.hstack([rows, ones], format="csr") if sparse.issparse(rows) else np.hstack([rows, ones])

    def _ranges(self, columns: int) -> Ranges | None:
        return Ranges.of("feature_bounds", self.feature_bounds, columns)

    def _scale(self) -> float:
        return real("intercept_scaling", self.intercept_scaling, "give a public number > 0", above=0)

    def _read_back(self, models: Array) -> tuple[Array, Array]:
        """(k, d) and (k,): coefficients and intercepts of the features as they are given."""
        slopes, intercepts = models, np.zeros(len(models))
        if self.fit_intercept:
            slopes, intercepts = models[:, :-1], models[:, -1] * self._scale()
        ranges = self._ranges(slopes.shape[1])
        if ranges is None:
            return slopes, intercepts
        slopes = slopes / ranges.half
        return slopes, intercepts - slopes @ ranges.middle

    def _margins(self, X: Any) -> Array:
        """X coef_ᵀ + intercept_."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)


def budget_of(estimator: Any) -> Budget:
    """That of an estimator, the same for all workers."""
    epsilon = real("epsilon", estimator.epsilon, "give one finite number > 0")
    return Budget(epsilon, estimator.delta, estimator.accounting)


def charged(account: Any) -> PrivacyAccount:
    """What was given as one."""
    if not isinstance(account, PrivacyAccount):
        raise ArgumentError("account", account, "give a PrivacyAccount(epsilon, delta)")
    return account


def seed_of(random_state: Any) -> int | None:
    """A seed of the noise; a generator's state is moved on, as scikit-learn's estimators do."""
    if random_state is None:
        return None
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int.from_bytes(check_random_state(random_state).bytes(32), "little")
