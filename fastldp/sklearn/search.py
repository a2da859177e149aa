"""A search over parameters whose whole cost is one budget: each candidate and each score is paid from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.utils import check_consistent_length, column_or_1d, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from fastldp.datasets import hold_out
from fastldp.engine.recording import Final
from fastldp.errors import ArgumentError, DataError
from fastldp.methods import ISRLDP
from fastldp.privacy.account import PrivacyAccount, repeated
from fastldp.privacy.budget import SPARED, Budget
from fastldp.privacy.ledger import Ledger
from fastldp.problems.weighting import ROWS
from fastldp.sklearn.linear import LDPLinearModel, Unmeasured, budget_of, charged, seed_of
from fastldp.sklearn.sharing import worker_of_row
from fastldp.solve import solve
from fastldp.validation import real

Array = NDArray[np.float64]

# What the search sets itself, or what a candidate may not differ from others in.
FIXED = ("epsilon", "delta", "accounting", "workers", "account", "classes", "target_bounds", "random_state")
HALF = 0.5
# One release of all of a large ε would be so little noised that the sampler's bound has no room.
RELEASES = 16


def _has(method: str) -> Callable[[Any], bool]:
    def has(search: Any) -> bool:
        getattr(search.estimator, method)  # raises, with the reason
        return True

    return has


class LDPSearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """The best of several settings of an `LDPClassifier` or `LDPRegressor`, all of it within the estimator's (ε, δ).

    The server sees the messages of every candidate, so all of them count: each is trained at an equal part of ρ, and
    its score is a noisy mean over rows that are held out, at such a part too. A row is trained on or held out, so that
    it spends ρ once. The best is not trained again, which would cost more.

    Parameters
    ----------
    estimator : LDPClassifier or LDPRegressor
        Whose ε and δ are those of the whole search; an `LDPRegressor` needs `target_bounds`.
    candidates : dict or list of dict
        Lists of values for parameters of it, as for scikit-learn's `GridSearchCV`; all combinations are tried.
    held_out : float
        The share of the rows that scores are counted on, chosen by a public seed.
    account : PrivacyAccount, optional
        What the whole search is charged to, once and before it begins, so that it adds up with other searches and fits
        on the same people's data. Rows are trained on or held out, so that the side that spends more is what counts.
        A search that an error ends keeps all of its charge; `accounts_` says what was spent of it.
    random_state : int or RandomState, optional
        The seed of all noise, as of `LDPClassifier`, instead of the estimator's.

    Attributes
    ----------
    best_estimator_ : LDPClassifier or LDPRegressor
        The one with the largest noisy score.
    best_params_ : dict
        Its candidate.
    best_score_ : float
        Its noisy score, which by its choice tends to be too large.
    results_ : list of dict
        Of each candidate its parameters, ``"params"``, and its noisy ``"score"``: the accuracy, or one less the mean
        absolute error over the width of `target_bounds`.
    accounts_ : dict of PrivacyAccount
        What the rows that were trained on spent, and those held out; of a search that an error ended, too.
    total_epsilon_ : float
        ε at δ of the whole search, the larger of these.

    Examples
    --------
    >>> import numpy as np
    >>> from fastldp.sklearn import LDPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 3))
    >>> y = X[:, 0] > 0
    >>> model = LDPClassifier(4.0, feature_bounds=(-1, 1), classes=[False, True], workers=5)
    >>> search = LDPSearch(model, {"l2": [0.001, 0.1]}, random_state=0).fit(X, y)
    >>> search.score(X, y) > 0.85, search.total_epsilon_ <= 4.0
    (True, True)
    """

    def __init__(
        self,
        estimator: Any,
        candidates: Mapping[str, Sequence[Any]] | Sequence[Any],
        *,
        held_out: float = 0.25,
        account: PrivacyAccount | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.candidates = candidates
        self.held_out = held_out
        self.account = account
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.input_tags = inner.estimator_type, inner.input_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        return tags

    def fit(self, X: Any, y: Any, groups: Any = None) -> LDPSearch:
        """Train and score every candidate.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (rows, d)
            The samples.
        y : array of shape (rows,)
            Their labels or targets.
        groups : array of shape (rows,), optional
            The worker of each row.

        Returns
        -------
        LDPSearch
            Itself.
        """
        # Nothing of an earlier fit stays beside what is found of this one.
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        candidates = self._candidates()
        X = validate_data(self, X, skip_check_array=True)
        y = column_or_1d(y, dtype=None if is_classifier(self.estimator) else np.float64, warn=True)
        check_consistent_length(X, y, groups)
        if y.shape[0] < 2:
            raise DataError("n_samples", y.shape[0], "give two rows at least: some to learn from, and some to score on")
        share = real("held_out", self.held_out, "give a share of the rows between 0 and 1", above=0, below=1)
        owners = worker_of_row(y.shape[0], groups, self.estimator.workers)
        # Chosen by position alone: what is in a row does not move it from one side to the other.
        train, test = hold_out(y.shape[0], share, seed=0)
        whole = budget_of(self.estimator)
        part, seed = _part(whole, len(candidates)), seed_of(self.random_state)
        trained, scored, fresh = (PrivacyAccount(float(whole.epsilon), whole.delta, whole.accounting) for _ in range(3))
        common = {"epsilon": part.epsilon, "workers": None, "random_state": seed}
        models = [clone(self.estimator).set_params(**params, **common) for params in candidates]
        to_learn, to_score = (_rows(X, train), y[train], owners[train]), owners[test]
        # Whatever is refused is so before the first noise: of all rows, of every candidate, by the account.
        clone(self.estimator)._asked(X, y, {})
        of_models = [clone(model)._ledger_ahead(*to_learn) for model in models]
        of_scores = [_mean_of(np.zeros(len(test)), to_score, part).ledger] * len(models)
        account = fresh if self.account is None else charged(self.account)
        account.reserve((of_models, of_scores), float(whole.epsilon), type(self).__name__)
        # Kept whatever happens: what was sent before an error is spent.
        self.accounts_ = {"rows trained on": trained, "rows held out": scored}
        self.results_: list[dict[str, Any]] = []
        for model, params in zip(models, candidates, strict=True):
            model.set_params(account=trained).fit(*to_learn)
            values = _scores(model, _rows(X, test), y[test])
            score = HALF + released_mean(values, to_score, part, seed, scored)
            self.results_.append({"params": params, "score": score})
        best = int(np.argmax([result["score"] for result in self.results_]))
        self.best_estimator_ = models[best]
        self.best_params_, self.best_score_ = self.results_[best]["params"], self.results_[best]["score"]
        self.total_epsilon_ = max(trained.total_epsilon, scored.total_epsilon)
        return self

    def _candidates(self) -> list[dict[str, Any]]:
        """All settings; what cannot be searched is refused before anything is spent."""
        if not isinstance(self.estimator, LDPLinearModel):
            raise ArgumentError("estimator", self.estimator, "give an LDPClassifier or LDPRegressor")
        if self.estimator.account is not None:
            raise ArgumentError(
                "account",
                self.estimator.account,
                "it would count single candidates; give it to the search, LDPSearch(..., account=)",
            )
        if not is_classifier(self.estimator) and self.estimator.target_bounds is None:
            raise ArgumentError("target_bounds", None, "scores are errors beside their width; give public (low, high)")
        candidates = [*ParameterGrid(self.candidates)]
        if not candidates:
            raise ArgumentError("candidates", self.candidates, 'give one setting at least, such as {"l2": [0.01, 0.1]}')
        for name in {name for params in candidates for name in params}:
            if name in FIXED:
                raise ArgumentError("candidates", name, "all candidates have it in common; set it of the estimator")
        for params in candidates:
            clone(self.estimator).set_params(**params)
        return candidates

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels of the best classifier."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.classes_)

    def summary(self) -> str:
        """What was tried and what it spent, on either side."""
        check_is_fitted(self)
        tried = [f"  {result['score']:.3f} (noisy)  {result['params']}" for result in self.results_]
        return "\n".join([*tried, *(f"{name}:\n{account.summary()}" for name, account in self.accounts_.items())])

    @available_if(_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> NDArray[Any]:
        """What the best predicts."""
        return self._best().predict(X)  # type: ignore[no-any-return]

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """That of the best."""
        return self._best().decision_function(X)  # type: ignore[no-any-return]

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """That of the best."""
        return self._best().predict_proba(X)  # type: ignore[no-any-return]

    def score(self, X: Any, y: Any) -> float:
        """The score of the best on these data, without noise: for data that are not to be protected."""
        return float(self._best().score(X, y))

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_


def released_mean(
    values: ArrayLike, owners: NDArray[np.int64], budget: Budget, seed: int | None, account: PrivacyAccount
) -> float:
    """The mean of numbers from −½ to ½, one a row, which each worker releases with noise of its own.

    The mean minimises Σ ½(x − b)², and one step of length 1 from 0 goes there: a solve of one round, whose gradients
    −b are within ½. The mean of several such has the same noise as one at all of ρ.

    >>> account = PrivacyAccount(50.0, 1e-5)
    >>> abs(released_mean([0.5, -0.5, 0.5, 0.5] * 100, np.arange(400) % 4, account.budget, 0, account) - 0.25) < 0.02
    True
    """
    mean = _mean_of(values, owners, budget)
    account.charge(mean.ledger, "score")
    run = solve(
        mean.problem, mean.part, rounds=1, algorithm=mean.method, repetitions=RELEASES, seed=seed, record=Final()
    )
    return float(run.x.mean())


class _Mean(NamedTuple):
    """A mean that is to be released, each time at this part."""

    problem: Unmeasured
    method: ISRLDP
    part: Budget
    ledger: Ledger
    """Of all releases."""


def _mean_of(values: ArrayLike, owners: NDArray[np.int64], budget: Budget) -> _Mean:
    problem = Unmeasured(
        np.ones((len(owners), 1)),
        values,
        workers=np.unique(owners, return_inverse=True)[1],
        loss="squared",
        row_bound=1.0,
        gradient_bound=HALF,
        weighting=ROWS,
    )
    method, part = ISRLDP(step=1.0), budget.split(RELEASES)
    ledger = method.schedule(problem, part, 1).ledger
    assert ledger is not None
    return _Mean(problem, method, part, repeated(ledger, RELEASES, budget))


def _part(whole: Budget, count: int) -> Budget:
    """That of each candidate; of one alone all but what others would leave for samplers, of either side."""
    return whole.split(count) if count > 1 else replace(whole, epsilon=float(whole.epsilon) * (1 - SPARED))


def _scores(model: Any, X: Any, y: Any) -> Array:
    """Of each row, from −½ to ½: whether its label is right, or how far its target is off beside their width."""
    predicted = model.predict(X)
    if is_classifier(model):
        return np.where(predicted == y, HALF, -HALF)
    low, high = model.target_bounds
    return np.asarray(HALF - np.minimum(np.abs(y - predicted) / (high - low), 1.0))


def _rows(X: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of an array, a data frame or a sparse matrix."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.tocsr()[rows] if sparse.issparse(X) else np.asarray(X)[rows]
