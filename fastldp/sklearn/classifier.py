"""A locally private linear classifier."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from fastldp.errors import DataError
from fastldp.losses import SIGNS, Logistic, Loss, SmoothedHinge
from fastldp.methods import Method
from fastldp.privacy.account import PrivacyAccount
from fastldp.regularizers import Regularizer
from fastldp.sklearn.linear import Asked, LDPLinearModel

Array = NDArray[np.float64]

LABELS_READ = "which labels there are (classes= would say it)"


def _has_probabilities(estimator: Any) -> bool:
    if isinstance(estimator.loss, Logistic) or estimator.loss == "logistic":
        return True
    raise AttributeError(f"the loss {estimator.loss!r} has no probabilities; loss='logistic' has")


class LDPClassifier(ClassifierMixin, LDPLinearModel):  # type: ignore[misc]
    """A linear classifier whose workers send nothing that is not (ε, δ)-locally private.

    More than two classes are learnt by a training for each, one class against the rest, each at a part of ρ, so that
    all of them together spend (ε, δ).

    Parameters
    ----------
    epsilon : float
        ε of everything that a worker sends for one fit, all classes together.
    delta : float
        δ, far below one over a worker's samples.
    accounting : str
        ``"gdp"``, which is exact, ``"zcdp-tight"``, or ``"zcdp"``, the paper's.
    loss : str or Loss
        ``"logistic"``, ``"smoothed_hinge"``, or a `Loss` of labels ±1.
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
    classes : array, optional
        The labels there can be, public. Where they are not given they are read off y, and the ledger says so.
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
    coef_ : array of shape (1, d) or (k, d)
        The weights of the features as they are given; of two classes those of the second.
    intercept_ : array of shape (1,) or (k,)
        What is added to them.
    classes_ : array of shape (k,)
        The labels, sorted.
    ledger_ : Ledger
        What the fit promised and spent, all trainings together.
    n_iter_ : int
        The rounds of each training.
    n_features_in_ : int
        How many features there were.
    feature_names_in_ : array of shape (d,)
        Their names, where X had any.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 3))
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = LDPClassifier(epsilon=4.0, feature_bounds=(-1.0, 1.0), classes=["no", "yes"], workers=5, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    >>> model.ledger_.spent_epsilon <= 4.0, model.ledger_.read_off_data
    (True, '')
    """

    losses: ClassVar = {"logistic": Logistic, "smoothed_hinge": SmoothedHinge}
    labels: ClassVar[str] = SIGNS

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        accounting: str = "gdp",
        loss: Loss | str = "logistic",
        l2: float = 0.01,
        regularizer: Regularizer | None = None,
        method: Method | str = "planned",
        rounds: int | str = "planned",
        feature_bounds: Any = None,
        row_bound: float | None = None,
        gradient_bound: float | str | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        classes: Any = None,
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
        self.row_bound = row_bound
        self.gradient_bound = gradient_bound
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.classes = classes
        self.workers = workers
        self.account = account
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, groups: Any = None, **refused: Any) -> LDPClassifier:
        """Train on the rows of all workers.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (rows, d)
            The samples.
        y : array of shape (rows,)
            Their labels.
        groups : array of shape (rows,), optional
            The worker of each row, by a number or a name.
        **refused : dict
            `sample_weight`, with the reason.

        Returns
        -------
        LDPClassifier
            Itself.
        """
        asked = self._asked(X, y, refused)
        trained = self._train(asked, self._owners(asked.X.shape[0], groups))
        self.classes_, self.ledger_, self.n_iter_ = asked.classes, trained.ledger, trained.rounds
        self.coef_, self.intercept_ = self._read_back(trained.models)
        return self

    def _asked(self, X: Any, y: Any, refused: dict[str, Any]) -> Asked:
        X, y = self._checked(X, y, refused)
        check_classification_targets(y)
        classes, read = self._classes_of(y)
        positive = classes[1:] if classes.size == 2 else classes
        return Asked(X, [np.where(y == label, 1.0, -1.0) for label in positive], read, classes)

    def _classes_of(self, y: Any) -> tuple[NDArray[Any], str]:
        """The labels, and what of them was read off the data."""
        found = np.unique(y)
        if self.classes is None:
            if found.size < 2:
                raise DataError("y", found, "it has only one class; give two, or the public classes= there can be")
            return found, LABELS_READ
        classes = np.unique(self.classes)
        if classes.size < 2:
            raise DataError("classes", self.classes, "it has only one class; give all labels that there can be")
        if not np.isin(found, classes).all():
            raise DataError(
                "y", found[~np.isin(found, classes)], "no such label is among classes=; give all there can be"
            )
        return classes, ""

    def decision_function(self, X: Any) -> Array:
        """How far each sample is on the side of each class: (rows,) of two classes, of the second; or (rows, k)."""
        margins = self._margins(X)
        return margins.ravel() if self.classes_.size == 2 else margins

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each sample, from private weights: predicting spends nothing."""
        margins = self.decision_function(X)
        chosen = (margins > 0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """(rows, k): the logistic probability of each class; of more than two divided by their sum."""
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return np.column_stack([expit(-margins), expit(margins)])
        # By logarithms: where all classes are unlikely their sum vanishes.
        return np.asarray(softmax(log_expit(margins), axis=1))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """(rows, k): the logarithms of `predict_proba`."""
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return np.column_stack([log_expit(-margins), log_expit(margins)])
        return np.asarray(log_softmax(log_expit(margins), axis=1))
