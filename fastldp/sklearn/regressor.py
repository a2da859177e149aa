"""A locally private linear regression."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from fastldp.losses import NUMBERS, Huber, Loss, Squared
from fastldp.methods import Method
from fastldp.privacy.account import PrivacyAccount
from fastldp.regularizers import Regularizer
from fastldp.sklearn.linear import Asked, LDPLinearModel
from fastldp.sklearn.ranges import Ranges

Array = NDArray[np.float64]


class LDPRegressor(RegressorMixin, LDPLinearModel):  # type: ignore[misc]
    """A linear regression whose workers send nothing that is not (ε, δ)-locally private.

    Parameters
    ----------
    epsilon : float
        ε of everything that a worker sends for one fit.
    delta : float
        δ, far below one over a worker's samples.
    accounting : str
        ``"gdp"``, which is exact, ``"zcdp-tight"``, or ``"zcdp"``, the paper's.
    loss : str or Loss
        ``"squared"``, ``"huber"``, which is `Huber(1.0)`, or a `Loss` of numbers.
    l2 : float
        The weight of ½‖x‖², the intercept included.
    regularizer : Regularizer, optional
        g of the weights, and of the intercept as the last of them; `Zero()` where it is not given.
    method : str or Method
        ``"planned"``: step, allocation and clipping are planned from public numbers and noisy counts. Or a method such
        as ``PrimalDual(step="planned", allocation="planned", clip=0.5)``; one that would read numbers off the data is
        refused.
    rounds : int or str
        The horizon; ``"planned"`` takes the fewest that suffice.
    feature_bounds : tuple of float or of arrays, optional
        Public (low, high) of all features, or of each. Values are clipped to them for fitting, and mapped to [−1, 1].
        Where they are not given, features are used as they are.
    target_bounds : tuple of float, optional
        Public (low, high) of y, which is clipped to them for fitting and mapped to [−1, 1]; used as it is where they
        are not given.
    row_bound : float, optional
        A public bound on the norm of each row, the intercept's column included, after the features are mapped; longer
        rows are scaled down.
    gradient_bound : float or str, optional
        A public bound on each sample's gradient, enforced by clipping, or ``"half"`` of the row bound, as of `Problem`;
        where clipping adapts the threshold keeps to it.
    fit_intercept : bool
        Whether the rows have a column of `intercept_scaling` more. Its weight is private and regularized as all others.
    intercept_scaling : float
        That public number: the larger, the less the intercept is regularized, and the longer are the rows.
    workers : int or str, optional
        Without groups: how many workers with contiguous shards are simulated, or ``"rows"``, each row a worker's own.
        Where neither is given ten are simulated, with a `WorkersWarning`.
    account : PrivacyAccount, optional
        What each fit is charged to before it begins, of this estimator and of its clones.
    random_state : int or RandomState, optional
        The seed of the noise, for experiments: who knows it can take the noise off, and the ledger says so. None takes
        a key from the operating system, as a deployment should.
    n_jobs : int, optional
        How many cores may be used; all of them by default.

    Attributes
    ----------
    coef_ : array of shape (d,)
        The weights of the features as they are given.
    intercept_ : float
        What is added to them.
    ledger_ : Ledger
        What the fit promised and spent, all trainings together.
    n_iter_ : int
        The rounds of the training.
    n_features_in_ : int
        How many features there were.
    feature_names_in_ : array of shape (d,)
        Their names, where X had any.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (4000, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + 5
    >>> model = LDPRegressor(4.0, feature_bounds=(-1.0, 1.0), target_bounds=(0.0, 10.0), workers=5, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.8
    True
    """

    losses: ClassVar = {"squared": Squared, "huber": Huber}
    labels: ClassVar[str] = NUMBERS

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        accounting: str = "gdp",
        loss: Loss | str = "squared",
        l2: float = 0.01,
        regularizer: Regularizer | None = None,
        method: Method | str = "planned",
        rounds: int | str = "planned",
        feature_bounds: Any = None,
        target_bounds: Any = None,
        row_bound: float | None = None,
        gradient_bound: float | str | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        workers: int | str | None = None,
        account: PrivacyAccount | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.accounting = accounting
        self.loss = loss
        self.l2 = l2
        self.regularizer = regularizer
        self.method = method
        self.rounds = rounds
        self.feature_bounds = feature_bounds
        self.target_bounds = target_bounds
        self.row_bound = row_bound
        self.gradient_bound = gradient_bound
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.workers = workers
        self.account = account
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, groups: Any = None, **refused: Any) -> LDPRegressor:
        """Train on the rows of all workers.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (rows, d)
            The samples.
        y : array of shape (rows,)
            Their targets.
        groups : array of shape (rows,), optional
            The worker of each row, by a number or a name.
        **refused : dict
            `sample_weight`, with the reason.

        Returns
        -------
        LDPRegressor
            Itself.
        """
        asked = self._asked(X, y, refused)
        trained = self._train(asked, self._owners(asked.X.shape[0], groups))
        self.ledger_, self.n_iter_ = trained.ledger, trained.rounds
        coef, intercept = self._read_back(trained.models)
        ranges = self._target_ranges()
        if ranges is not None:
            coef, intercept = coef * ranges.half, intercept * ranges.half + ranges.middle
        self.coef_, self.intercept_ = coef[0], float(intercept[0])
        return self

    def _asked(self, X: Any, y: Any, refused: dict[str, Any]) -> Asked:
        X, y = self._checked(X, y, refused, y_numeric=True)
        y, ranges = np.asarray(y, dtype=np.float64), self._target_ranges()
        return Asked(X, [y if ranges is None else ranges.mapped(y[:, None])[:, 0]])

    def _target_ranges(self) -> Ranges | None:
        return Ranges.of("target_bounds", self.target_bounds, 1)

    def predict(self, X: Any) -> Array:
        """The target of each sample, from private weights: predicting spends nothing."""
        return self._margins(X)
