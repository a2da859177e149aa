"""The estimators: what they promise and spend, what they never read off the data, and how they sit in scikit-learn."""

import copy
import os
import pickle
import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import fastldp as fl
from fastldp.datasets import hold_out
from fastldp.errors import ArgumentError, BudgetError, DataError, UnboundedGradientError, WorkersWarning
from fastldp.privacy import PrivacyAccount, rho_of
from fastldp.privacy.account import Charge
from fastldp.sklearn import LDPClassifier, LDPRegressor, LDPSearch
from fastldp.sklearn.search import RELEASES, released_mean

# Iris has a hundred and fifty rows, of which thresholds at a small ε learn little.
pytestmark = pytest.mark.filterwarnings("ignore::fastldp.errors.ClippingWarning")

X, Y = load_iris(return_X_y=True)
BOUNDS = (0.0, 8.0)
RNG = np.random.default_rng(7)
ROWS = RNG.uniform(-1, 1, (400, 3))
TARGETS = 2 * ROWS[:, 0] - ROWS[:, 1] + 0.5
SIGNS = TARGETS > 0


def classifier(**changes: Any) -> LDPClassifier:
    return LDPClassifier(**({"epsilon": 20.0, "workers": 5, "random_state": 3} | changes))


def regressor(**changes: Any) -> LDPRegressor:
    return LDPRegressor(**({"epsilon": 20.0, "workers": 5, "random_state": 3} | changes))


# What is promised and spent.


@pytest.mark.parametrize("accounting", fl.privacy.METHODS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("parts", [1, 2, 3, 17, 400])
def test_the_parts_of_a_budget_add_up_to_no_more(accounting: str, epsilon: float, parts: int) -> None:
    whole = fl.Budget(epsilon, 1e-6, accounting)
    part = whole.split(parts)
    assert part.delta == whole.delta
    assert part.accounting == accounting
    assert parts * part.rho <= whole.rho
    assert parts * part.rho > 0.999 * whole.rho


def test_a_budget_of_each_worker_is_split_for_each() -> None:
    part = fl.Budget(np.array([1.0, 2.0]), 1e-5).split(4)
    rhos = np.atleast_1d(np.asarray(part.rho)).tolist()
    assert all(4 * rho < rho_of(epsilon, 1e-5) for rho, epsilon in zip(rhos, (1.0, 2.0), strict=True))


@pytest.mark.parametrize("parts", [0, -1, 2.0, True])
def test_parts_that_are_no_number_are_refused(parts: Any) -> None:
    with pytest.raises(ArgumentError, match="parts"):
        fl.Budget(1.0, 1e-5).split(parts)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("accounting", ["gdp", "zcdp"])
def test_all_trainings_together_keep_to_the_budget(epsilon: float, accounting: str) -> None:
    model = classifier(epsilon=epsilon, accounting=accounting, feature_bounds=BOUNDS).fit(X, Y)
    ledger = model.ledger_
    # Summed over all releases of three trainings, by the definition.
    of_gradients = (ledger.sensitivity**2 / (2 * ledger.variances)).sum()
    of_counts = (ledger.count_sensitivity**2 / (2 * ledger.count_factors.max() * ledger.count_variances)).sum()
    assert ledger.releases == 3 * model.n_iter_
    assert ledger.counts == 3 * 40
    assert of_gradients + of_counts <= rho_of(epsilon, 1e-5, accounting)
    assert ledger.total_epsilon <= epsilon
    assert ledger.total_epsilon > 0.999 * epsilon
    assert ledger.epsilon == epsilon
    assert "3 trainings at 1/3 of ρ" in ledger.summary()


def test_each_class_is_a_solve_of_its_own_at_its_part_of_the_budget() -> None:
    model = classifier(feature_bounds=BOUNDS).fit(X, Y)
    rows = np.hstack([np.clip(X, 0, 8) / 4 - 1, np.ones((len(X), 1))])
    part = fl.Budget(20.0, 1e-5, "gdp").split(3)
    for label in range(3):
        labels, owners = np.where(label == Y, 1.0, -1.0), np.arange(150) // 30
        problem = fl.Problem(rows, labels, workers=owners, l2=0.01, weighting="rows")
        run = fl.solve(problem, part, seed=3)
        w = run.x[0]
        np.testing.assert_allclose(model.coef_[label], w[:4] / 4, rtol=1e-12)
        np.testing.assert_allclose(model.intercept_[label], w[4] - w[:4].sum(), rtol=1e-12)


def test_labels_that_are_read_off_the_data_are_named() -> None:
    ledger = classifier().fit(ROWS, SIGNS).ledger_
    assert "labels" in ledger.read_off_data
    assert "classes= of an estimator" in ledger.summary()
    assert classifier(classes=[False, True]).fit(ROWS, SIGNS).ledger_.read_off_data == ""
    assert regressor().fit(ROWS, TARGETS).ledger_.read_off_data == ""


def test_nothing_else_is_read_off_the_data() -> None:
    with pytest.raises(ArgumentError, match="gradient bound"):
        classifier(method=fl.PrimalDual(), rounds=30).fit(ROWS, SIGNS)
    with pytest.raises(ArgumentError, match="the prior"):
        classifier(method=fl.PrimalDual("planned", "planned", clip=0.5, prior="exact")).fit(ROWS, SIGNS)
    with pytest.raises(UnboundedGradientError):
        regressor(method=fl.PrimalDual(step=0.1), rounds=30).fit(ROWS, TARGETS)
    ledger = classifier(method=fl.PrimalDual(), rounds=30, row_bound=2.0, classes=[0, 1]).fit(ROWS, SIGNS).ledger_
    assert (ledger.bound, ledger.bound_source, ledger.read_off_data) == (2.0, "public", "")


def test_where_the_noise_came_from_is_said() -> None:
    assert classifier().fit(ROWS, SIGNS).ledger_.noise == "seeded"
    drawn = classifier(random_state=None)
    assert drawn.fit(ROWS, SIGNS).ledger_.noise == "os"
    assert (drawn.coef_ != clone(drawn).fit(ROWS, SIGNS).coef_).all()


def test_a_seed_gives_the_same_bits_and_a_generator_goes_on() -> None:
    first = classifier().fit(ROWS, SIGNS)
    np.testing.assert_array_equal(first.coef_, clone(first).fit(ROWS, SIGNS).coef_)
    generator = np.random.RandomState(5)
    model = classifier(random_state=generator)
    before = model.fit(ROWS, SIGNS).coef_
    assert (before != model.fit(ROWS, SIGNS).coef_).all()
    with pytest.raises(ValueError, match="-1"):
        classifier(random_state=-1).fit(ROWS, SIGNS)


# Who holds which rows.


def test_without_groups_workers_are_simulated_and_it_is_said() -> None:
    with pytest.warns(WorkersWarning, match="10 workers .* not from the worker that holds it"):
        simulated = classifier(workers=None).fit(ROWS, SIGNS)
    np.testing.assert_array_equal(simulated.coef_, classifier(workers=10).fit(ROWS, SIGNS).coef_)


def test_groups_are_names_or_numbers() -> None:
    owners = np.arange(len(X)) % 4
    named = np.array(["d", "a", "c", "b"])[owners]
    given = classifier(workers=None)
    by_name = given.fit(X, Y, groups=named).coef_
    np.testing.assert_array_equal(by_name, given.fit(X, Y, groups=pd.Series(np.array([3, 0, 2, 1])[owners])).coef_)
    assert (by_name != classifier(workers=4).fit(X, Y).coef_).all()


@pytest.mark.parametrize(
    ("first", "others"),
    [(np.nan, 1.0), (np.nan, "a"), (None, "a"), (pd.NA, 1), (pd.NA, "a"), (pd.NaT, pd.Timestamp(0)), (7, "a")],
)
def test_a_row_without_a_worker_is_refused(first: Any, others: Any) -> None:
    owners = pd.Series([first, *[others] * (len(X) - 1)])
    with pytest.raises(DataError, match="groups = .*every row needs its worker"):
        classifier(workers=None).fit(X, Y, groups=owners)


@pytest.mark.parametrize("workers", [3, "rows"])
def test_workers_beside_groups_are_refused(workers: Any) -> None:
    with pytest.raises(ArgumentError, match="one of the two"):
        classifier(workers=workers).fit(X, Y, groups=np.zeros(len(X)))


def test_each_row_may_be_a_workers_own() -> None:
    ledger = regressor(workers="rows").fit(ROWS, TARGETS).ledger_
    assert ledger.factors.size == len(ROWS)
    with pytest.raises(ArgumentError, match="workers"):
        regressor(workers="row").fit(ROWS, TARGETS)


# Public ranges.


@pytest.mark.parametrize("bounds", [(0.0, 8.0), ([4, 2, 1, 0], [8, 5, 7, 3])])
def test_ranges_are_clipped_to_and_mapped_and_weights_are_of_features_as_given(bounds: Any) -> None:
    low, high = (np.broadcast_to(np.asarray(bound, dtype=float), (4,)) for bound in bounds)
    middle, half = (low + high) / 2, (high - low) / 2
    inside = np.clip(X, low, high)
    bounded = classifier(feature_bounds=bounds).fit(X, Y)
    plain = classifier().fit((inside - middle) / half, Y)
    np.testing.assert_allclose(
        bounded.decision_function(X), plain.decision_function((X - middle) / half), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(bounded.decision_function(X), X @ bounded.coef_.T + bounded.intercept_)


def test_ranges_of_targets_too() -> None:
    given = 100 + 10 * TARGETS
    bounded = regressor(target_bounds=(70.0, 130.0)).fit(ROWS, given)
    plain = regressor().fit(ROWS, (np.clip(given, 70, 130) - 100) / 30)
    np.testing.assert_allclose(bounded.predict(ROWS), 100 + 30 * plain.predict(ROWS))
    assert bounded.score(ROWS, given) > 0.8


@pytest.mark.parametrize(
    "bounds",
    [
        *[(-1.7e308, 1.7e308), (0.0, 5e-324), (0.0, 1e-310)],
        *[3.0, (1.0, 1.0), (1.0, -1.0), (0.0, np.inf), ([0, 0], [1, 1]), (0, 1, 2), ("a", "b"), (0.0, None)],
    ],
)
def test_ranges_that_are_none_are_refused(bounds: Any) -> None:
    with pytest.raises(ArgumentError, match="feature_bounds"):
        classifier(feature_bounds=bounds).fit(X, Y)


def test_sparse_rows_stay_sparse_and_are_the_same_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse_rows = sparse.csr_matrix(np.where(np.abs(ROWS) > 0.3, ROWS, 0.0))
    solved: list[fl.Problem] = []

    def watched(problem: fl.Problem, *args: Any, **given: Any) -> fl.Solution:
        solved.append(problem)
        return fl.solve(problem, *args, **given)

    monkeypatch.setattr("fastldp.sklearn.linear.solve", watched)
    for bounds in (None, (-0.7, 0.7)):
        model = classifier(rounds=100, row_bound=1.2, feature_bounds=bounds, method=fl.PrimalDual())
        clone(model).fit(sparse_rows.toarray(), SIGNS)
        model.fit(sparse_rows, SIGNS)
        dense, same = solved[-2:]
        assert sparse.issparse(same.rows)
        # Norms of longer rows, which are scaled, are sums in another order.
        np.testing.assert_allclose(same.rows.toarray(), dense.rows, rtol=1e-15)
        np.testing.assert_array_equal(same.sizes, dense.sizes)
        assert (same.l2, same.gradient_bound) == (dense.l2, dense.gradient_bound)
        np.testing.assert_allclose(model.predict_proba(sparse_rows), model.predict_proba(sparse_rows.toarray()))
    with pytest.raises(DataError, match="symmetric"):
        classifier(feature_bounds=(0.0, 1.0)).fit(sparse_rows, SIGNS)


def test_the_intercept_is_a_column_that_is_regularized() -> None:
    faint = {"epsilon": 1e4, "rounds": 2000, "row_bound": 4.0, "gradient_bound": 9.0, "method": fl.PrimalDual()}
    small, large = (regressor(intercept_scaling=s, l2=0.5, **faint).fit(ROWS, TARGETS + 3) for s in (1.0, 3.0))
    assert 0 < small.intercept_ < large.intercept_ < 3.6
    assert regressor(fit_intercept=False).fit(ROWS, TARGETS).intercept_ == 0
    with pytest.raises(ArgumentError, match="intercept_scaling"):
        regressor(intercept_scaling=0.0).fit(ROWS, TARGETS)


# What is predicted.


def test_probabilities_are_of_the_classes() -> None:
    for labels in (Y, Y > 0):
        model = classifier(feature_bounds=BOUNDS).fit(X, labels)
        p = model.predict_proba(X)
        assert p.shape == (150, np.unique(labels).size)
        np.testing.assert_allclose(p.sum(axis=1), 1)
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p)
    far = model.predict_proba(np.full((1, 4), 1e6))
    assert np.isfinite(far).all()


def test_only_the_logistic_loss_has_probabilities() -> None:
    assert not hasattr(classifier(loss="smoothed_hinge"), "predict_proba")
    assert not hasattr(classifier(loss=fl.SmoothedHinge(0.5)), "predict_log_proba")
    assert hasattr(classifier(loss=fl.Logistic()), "predict_proba")


@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge", fl.SmoothedHinge(0.5)])
def test_losses_of_labels(loss: Any) -> None:
    assert classifier(loss=loss).fit(ROWS, SIGNS).score(ROWS, SIGNS) > 0.85


@pytest.mark.parametrize("loss", ["squared", "huber", fl.Huber(0.3)])
def test_losses_of_numbers(loss: Any) -> None:
    assert regressor(loss=loss, target_bounds=(-3.0, 4.0)).fit(ROWS, TARGETS).score(ROWS, TARGETS) > 0.8


@pytest.mark.parametrize("loss", ["huber", fl.Huber(1.0), "hinge"])
def test_losses_of_other_labels_are_refused(loss: Any) -> None:
    with pytest.raises(ArgumentError, match="loss"):
        classifier(loss=loss).fit(ROWS, SIGNS)


def test_a_regularizer_is_of_the_intercept_too() -> None:
    model = regressor(regularizer=fl.Box(0.25)).fit(ROWS, TARGETS)
    assert np.abs([*model.coef_, model.intercept_]).max() <= 0.25


def test_labels_are_of_the_public_classes() -> None:
    model = classifier(classes=["no", "yes", "unseen"]).fit(ROWS, np.where(SIGNS, "yes", "no"))
    assert model.classes_.tolist() == ["no", "unseen", "yes"]
    assert model.coef_.shape == (3, 3)
    with pytest.raises(DataError, match="no such label"):
        classifier(classes=["no", "maybe"]).fit(ROWS, np.where(SIGNS, "yes", "no"))
    with pytest.raises(DataError, match="one class"):
        classifier(classes=["no"]).fit(ROWS, np.where(SIGNS, "yes", "no"))


# In scikit-learn.


def test_sample_weights_are_refused_with_the_reason() -> None:
    for model, y in ((classifier(), SIGNS), (regressor(), TARGETS)):
        assert model.fit(ROWS, y, sample_weight=None) is model
        with pytest.raises(ArgumentError, match="twice the noise"):
            model.fit(ROWS, y, sample_weight=np.ones(len(y)))
        with pytest.raises(TypeError, match="wieghts"):
            model.fit(ROWS, y, wieghts=None)


def test_pipelines_frames_and_names() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    pipeline = make_pipeline(MaxAbsScaler().set_output(transform="pandas"), classifier(workers=None))
    pipeline.fit(frame, Y, ldpclassifier__groups=np.arange(150) % 3)
    assert pipeline[-1].feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert pipeline.score(frame, Y) > 0.5
    with pytest.raises(ValueError, match="feature names"):
        pipeline[-1].predict(frame.rename(columns={"a": "z"}))
    search = LDPSearch(classifier(workers=None), {"l2": [0.5, 0.25]})
    searched = make_pipeline(MaxAbsScaler().set_output(transform="pandas"), search)
    searched.fit(frame, Y, ldpsearch__groups=np.arange(150) % 3)
    assert searched.predict(frame).shape == Y.shape


def test_a_fitted_estimator_travels() -> None:
    account = PrivacyAccount(20.0, 1e-5)
    model = classifier(feature_bounds=BOUNDS, account=account).fit(X, Y)
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    assert other.ledger_.summary() == model.ledger_.summary()
    assert other.account.spent_epsilon == account.spent_epsilon > 0
    with pytest.raises(BudgetError, match="another process"):
        other.fit(X, Y)


def test_parameters_that_are_none_are_refused_before_work() -> None:
    for changes in (
        {"epsilon": 0.0},
        {"epsilon": [1.0, 2.0]},
        {"delta": 1.0},
        {"method": "best"},
        {"rounds": 0},
        {"rounds": "many"},
        {"workers": 0},
        {"account": 1.0},
        {"row_bound": -1.0},
    ):
        with pytest.raises(ValueError, match=next(iter(changes))):
            classifier(**changes).fit(ROWS, SIGNS)


# Accounts.


def test_fits_that_share_an_account_keep_to_it_together() -> None:
    account = PrivacyAccount(1.0, 1e-5)
    model = classifier(epsilon=account.each(3).epsilon, account=account)
    for labels in (Y, Y > 0, Y > 1):
        clone(model).fit(X, labels)
    assert 0.999 < account.spent_epsilon <= account.total_epsilon <= 1.0
    assert account.spent_rho <= rho_of(1.0, 1e-5, "gdp")
    spent = account.spent_rho
    with pytest.raises(BudgetError, match="4 runs"):
        model.fit(X, Y)
    assert account.spent_rho == spent
    assert account.summary().count("LDPClassifier") == 3
    assert copy.deepcopy(account) is copy.copy(account) is clone(account, safe=False) is account


def test_a_grid_search_of_scikit_learn_is_refused_once_the_account_is_spent() -> None:
    account = PrivacyAccount(1.0, 1e-5)
    search = GridSearchCV(classifier(epsilon=1.0, account=account), {"l2": [0.1, 0.01]}, cv=2, error_score="raise")
    with pytest.raises(BudgetError, match="2 runs"):
        search.fit(ROWS, SIGNS)
    assert len(account.charges) == 1


def test_an_account_in_a_forked_process_refuses_charges(monkeypatch: pytest.MonkeyPatch) -> None:
    account = PrivacyAccount(1.0, 1e-5)
    model = classifier(epsilon=0.5, account=account).fit(ROWS, SIGNS)
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    with pytest.raises(BudgetError, match="another process"):
        account.charge(model.ledger_)
    assert len(account.charges) == 1


def test_an_account_counts_samplers_at_its_own_epsilon() -> None:
    account = PrivacyAccount(50.0, 1e-5)
    problem = fl.Problem(ROWS, np.where(SIGNS, 1.0, -1.0), workers=4, row_bound=2.0)
    ledger = fl.PrimalDual().schedule(problem, account.each(40), 5).ledger
    assert ledger is not None
    for _ in range(40):
        account.charge(ledger)
    at_all = replace(ledger, promised_epsilon=np.full(4, 50.0))
    least = account.spent_epsilon + 40 * np.max(at_all.sampler_epsilon)
    assert 40 * np.max(ledger.sampler_epsilon) < 40 * np.max(at_all.sampler_epsilon)
    assert least <= account.total_epsilon <= 50.0


def test_an_account_takes_runs_of_its_own_kind_alone() -> None:
    account = PrivacyAccount(1.0, 1e-5)
    for changes in ({"delta": 1e-6}, {"accounting": "zcdp"}):
        with pytest.raises(ArgumentError, match="all runs need the account's"):
            classifier(epsilon=0.5, account=account, **changes).fit(ROWS, SIGNS)
    problem = fl.Problem(ROWS, np.where(SIGNS, 1.0, -1.0), workers=4, row_bound=2.0, dtype="float32")
    ledger = fl.PrimalDual().schedule(problem, account.each(2), 5).ledger
    assert ledger is not None
    with pytest.raises(ArgumentError, match="single precision"):
        account.charge(ledger)
    assert not account.charges
    assert account.spent_epsilon == account.total_epsilon == 0.0
    with pytest.raises(BudgetError, match="one number"):
        PrivacyAccount(np.array([1.0, 2.0]), 1e-5)  # type: ignore[arg-type]


# The search.


def test_a_search_costs_what_its_estimator_promises() -> None:
    model = classifier(epsilon=2.0, feature_bounds=BOUNDS, classes=[0, 1, 2])
    search = LDPSearch(model, {"l2": [0.01, 0.1], "intercept_scaling": [1.0, 2.0]}, random_state=1)
    search.fit(X, Y)
    for account in search.accounts_.values():
        assert len(account.charges) == 4
        assert 1.99 < account.total_epsilon <= search.total_epsilon_ <= 2.0
        assert account.spent_rho <= rho_of(2.0, 1e-5, "gdp")
    best = max(search.results_, key=lambda result: result["score"])
    assert (search.best_params_, search.best_score_) == (best["params"], best["score"])
    assert search.best_estimator_.l2 == best["params"]["l2"]
    np.testing.assert_array_equal(search.predict(X), search.best_estimator_.predict(X))
    np.testing.assert_array_equal(search.classes_, [0, 1, 2])
    assert search.predict_proba(X).shape == search.decision_function(X).shape == (150, 3)
    assert "rows held out" in search.summary()


def test_a_search_finds_what_is_far_better() -> None:
    model = regressor(epsilon=50.0, target_bounds=(-4.0, 4.0))
    search = LDPSearch(model, {"l2": [10.0, 0.01]}, held_out=0.3, random_state=1)
    assert search.fit(ROWS, TARGETS).best_params_ == {"l2": 0.01}
    assert not hasattr(search, "predict_proba")


def test_what_a_search_cannot_pay_for_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(ArgumentError, match="epsilon"):
        LDPSearch(classifier(), {"epsilon": [0.5, 1.0]}).fit(ROWS, SIGNS)
    with pytest.raises(ValueError, match="l3"):
        LDPSearch(classifier(), {"l3": [0.5, 1.0]}).fit(ROWS, SIGNS)
    with pytest.raises(ArgumentError, match="target_bounds"):
        LDPSearch(regressor(), {"l2": [0.5, 1.0]}).fit(ROWS, TARGETS)
    with pytest.raises(ArgumentError, match="account"):
        LDPSearch(classifier(account=PrivacyAccount(1.0, 1e-5)), {"l2": [0.5]}).fit(ROWS, SIGNS)
    with pytest.raises(ArgumentError, match="estimator"):
        LDPSearch(MaxAbsScaler(), {"copy": [True]}).fit(ROWS, SIGNS)


def test_rows_held_out_are_looked_at_before_anything_is_spent() -> None:
    held = hold_out(len(ROWS), 0.25).test[0]
    rows, labels, targets = ROWS.copy(), np.where(SIGNS, "yes", "no").astype(object), TARGETS.copy()
    rows[held, 0], labels[held], targets[held] = np.nan, "perhaps", np.nan
    searched = LDPSearch(classifier(), {"l2": [0.5]}), LDPSearch(regressor(target_bounds=(-3.0, 3.0)), {"l2": [0.5]})
    with pytest.raises(ValueError, match="NaN"):
        searched[0].fit(rows, SIGNS)
    with pytest.raises(ValueError, match="NaN"):
        searched[1].fit(ROWS, targets)
    with pytest.raises(DataError, match="perhaps"):
        LDPSearch(classifier(classes=["no", "yes"]), {"l2": [0.5]}).fit(ROWS, labels)
    assert not any(hasattr(search, "results_") for search in searched)


@pytest.mark.parametrize(
    ("name", "value"), [("l2", -1.0), ("rounds", 0), ("n_jobs", 0), ("row_bound", -1.0), ("loss", "huber")]
)
def test_a_bad_value_of_a_later_candidate_is_refused_before_anything_is_spent(name: str, value: Any) -> None:
    account = PrivacyAccount(2.0, 1e-5)
    good = getattr(classifier(), name)
    search = LDPSearch(classifier(epsilon=2.0), {name: [good, value]}, account=account)
    with pytest.raises(ArgumentError, match=name):
        search.fit(ROWS, SIGNS)
    assert not account.charges
    assert not hasattr(search, "results_")


def test_what_a_search_has_spent_is_known_where_a_later_candidate_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    account = PrivacyAccount(2.0, 1e-5)
    search = LDPSearch(classifier(epsilon=1.0), {"l2": [0.5, 0.25]}, account=account, random_state=0)
    search.fit(ROWS, SIGNS)
    fit = LDPClassifier.fit

    def broken(model: LDPClassifier, *given: Any) -> LDPClassifier:
        if model.l2 == 0.25:
            raise OSError("no power")
        return fit(model, *given)

    monkeypatch.setattr(LDPClassifier, "fit", broken)
    with pytest.raises(OSError, match="no power"):
        search.fit(ROWS, SIGNS)
    assert [len(spent.charges) for spent in search.accounts_.values()] == [1, 1]
    # All that was set aside stays charged, and nothing of the first fit stands beside what the second found.
    assert len(account.charges) == 2
    assert not any(hasattr(search, name) for name in ("best_estimator_", "best_params_", "total_epsilon_"))
    with pytest.raises(NotFittedError):
        search.predict(ROWS)


def test_searches_and_fits_add_up_on_one_account() -> None:
    account = PrivacyAccount(2.0, 1e-5)
    model = classifier(epsilon=account.each(3).epsilon)
    search = LDPSearch(model, {"l2": [0.5, 0.25]}, account=account)
    clone(model).set_params(account=account).fit(ROWS, SIGNS)
    assert "in 1 run\n" in account.summary()
    for _ in range(2):
        clone(search).fit(ROWS, SIGNS)
    assert len(account.charges) == 3
    assert 1.998 < account.total_epsilon <= 2.0
    assert "set aside for 2 or 2 runs" in account.summary()
    with pytest.raises(BudgetError, match="4 runs"):
        search.fit(ROWS, SIGNS)
    assert not hasattr(search, "results_")
    assert len(account.charges) == 3
    with pytest.raises(ArgumentError, match="account"):
        clone(search).set_params(account=2.0).fit(ROWS, SIGNS)


@pytest.mark.parametrize("epsilon", [0.1, 2.0])
@pytest.mark.parametrize("count", [1, 3])
def test_what_an_account_sets_aside_for_a_search_is_no_less_than_either_side_spends(epsilon: float, count: int) -> None:
    account = PrivacyAccount(epsilon, 1e-5)
    # Of one round: a score then takes more of samplers, and a training more of ρ.
    model = classifier(epsilon=epsilon, method=fl.PrimalDual(), rounds=1, row_bound=2.0)
    search = LDPSearch(model, {"l2": [0.5, 0.25, 0.1][:count]}, account=account)
    search.fit(ROWS, SIGNS)
    (reserve,) = account.charges
    for side in search.accounts_.values():
        assert side.spent_rho <= reserve.rho
        of_epsilon, of_delta = np.sum([charge.sampler(epsilon) for charge in side.charges], axis=0)
        assert of_epsilon <= reserve.sampler(epsilon)[0]
        assert of_delta <= reserve.sampler(epsilon)[1]
        assert side.total_epsilon <= account.total_epsilon <= epsilon
    assert account.total_epsilon > 0.999 * epsilon


def test_a_search_without_candidates_is_refused() -> None:
    with pytest.raises(ArgumentError, match="candidates"):
        LDPSearch(classifier(), []).fit(ROWS, SIGNS)


def test_a_released_mean_has_the_noise_that_its_promise_needs() -> None:
    budget, owners = fl.Budget(1.0, 1e-5, "gdp"), np.arange(120) % 6
    values = np.where(np.arange(120) % 3 == 0, 0.5, -0.5)
    account = PrivacyAccount(1.0, 1e-5)
    found = []
    for seed in range(300):
        account.charges.clear()
        found.append(released_mean(values, owners, budget, seed, account))
    # Where one row changes, a worker's part of the mean over all moves by 1/120; six workers' noises add up.
    deviation = np.sqrt(6) / 120 / np.sqrt(2 * rho_of(1.0, 1e-5, "gdp"))
    assert abs(np.mean(found) - values.mean()) < 4 * deviation / np.sqrt(300)
    assert abs(np.std(found) / deviation - 1) < 4 / np.sqrt(600)
    (charge,) = account.charges
    assert isinstance(charge, Charge)
    assert charge.ledger.releases == RELEASES
    assert charge.ledger.read_off_data == ""


# Where scikit-learn is not there.


def test_fastldp_does_not_import_scikit_learn() -> None:
    code = "import sys, fastldp; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_scikit_learn_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['sklearn'] = None\nimport fastldp.sklearn"
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "scikit-learn is not installed; pip install 'fastldp[sklearn]'" in found.stderr


def test_a_fit_warns_of_nothing_else() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier(feature_bounds=BOUNDS).fit(X, Y)
