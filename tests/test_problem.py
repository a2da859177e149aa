"""Problems: constants, objective and gradient against the oracle, optima against outside solvers, bad input."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize, sparse

import cases
import fastldp as fl
import naive
from fastldp import memory
from fastldp.errors import (
    ArgumentError,
    DataError,
    OptimumError,
    TooLargeError,
    UnboundedGradientError,
    UnknownNameError,
)

NAMES = sorted(cases.REGULARIZERS)
LOSSES = ("logistic", "squared")
LAYOUTS = ("dense", "csr")
SIZES = ((12, 12, 12), (5, 31, 1, 14))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", SIZES)
def test_constants_objective_and_gradient(loss: str, layout: str, sizes: tuple[int, ...]) -> None:
    case = cases.make("box_l1", loss=loss, layout=layout, sizes=sizes)
    problem = case.problem
    assert problem.smoothness == pytest.approx(naive.smoothness(loss, case.shards, case.l2), rel=1e-12)
    assert problem.strong_convexity == pytest.approx(naive.strong_convexity(loss, case.shards, case.l2), rel=1e-10)
    np.testing.assert_array_equal(problem.sizes, sizes)
    x = np.linspace(-0.5, 0.5, problem.d)
    assert problem.objective(x) == pytest.approx(naive.objective(loss, case.shards, case.l2, case.g, x), rel=1e-12)
    reference = np.mean([naive.full_gradient(loss, A, b, case.l2, x) for A, b in case.shards], axis=0)
    np.testing.assert_allclose(problem.gradient(x), reference, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [1e-140, 1e-155, 1e-165, 1e-300, 5e-324])
def test_rows_whose_squares_vanish_have_norms_and_are_clipped(size: float, layout: str) -> None:
    rows = np.vstack([np.eye(3), [size, 0.0, size], np.zeros(3)])
    A = rows if layout == "dense" else sparse.csr_array(rows)
    labels = [0.1, 0.1, 0.1, 1e250, 1e250]
    problem = fl.Problem(A, labels, workers=np.zeros(5, dtype=int), loss="squared", gradient_bound=1.0)
    np.testing.assert_allclose(problem.row_norms, [1, 1, 1, math.hypot(size, size), 0], rtol=1e-14)
    for repetitions in (1, 2):
        run = fl.solve(problem, rounds=1, repetitions=repetitions, algorithm=fl.PrimalDual(step=0.1))
        assert np.linalg.norm(run.x[0]) <= 0.1 * (1 + 1e-12)  # a step times the mean of gradients of norm 1 at most


def test_gradient_bounds() -> None:
    case = cases.make("zero")
    A = np.vstack([A for A, _ in case.shards])
    assert case.problem.gradient_bound == pytest.approx(naive.gradient_bound_logistic(A), rel=1e-13)
    assert case.problem.bound_source == "data"
    assert cases.make("zero", gradient_bound=0.25).problem.gradient_bound == 0.25


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"zero"}))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_squared_loss_is_bounded_on_the_set(name: str, layout: str) -> None:
    """No point of the set has a larger per-sample gradient, and some point comes within a factor of it."""
    case = cases.make(name, loss="squared", layout=layout)
    rng = np.random.default_rng(3)
    largest = 0.0
    for _ in range(300):
        x = case.problem.regularizer.prox(rng.standard_normal(case.problem.d) * 10.0 ** rng.uniform(-1, 3), 0.0)
        for A, b in case.shards:
            largest = max(largest, float((np.abs(A @ x - b) * np.linalg.norm(A, axis=1)).max()))
    assert largest <= case.problem.gradient_bound
    assert largest >= 0.4 * case.problem.gradient_bound
    assert case.problem.bound_source == "set"


def test_a_loss_without_a_bound_is_refused_before_a_private_solve() -> None:
    problem = cases.make("zero", loss="squared").problem
    with pytest.raises(UnboundedGradientError, match="gradient_bound= .* clip="):
        fl.solve(problem, fl.Budget(1.0, 1e-4), rounds=3)
    assert fl.solve(problem, rounds=3).status.ok


# Optima


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_optimum_is_certified(name: str, loss: str, layout: str) -> None:
    problem = cases.make(name, loss=loss, layout=layout, sizes=(5, 31, 1, 14)).problem
    x = problem.optimum()
    L = problem.n * problem.smoothness
    mapping = L * (x - problem.regularizer.prox(x - problem.gradient(x) / L, 1 / L))
    assert np.linalg.norm(mapping) < 1e-11
    # Computed once, and not handed out: the caller may write to what it gets.
    x[:] = 0.0
    assert np.linalg.norm(problem.optimum()) > 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", LOSSES)
def test_optimum_agrees_with_an_outside_solver(name: str, loss: str) -> None:
    case = cases.make(name, loss=loss)
    computed = case.problem.optimum()
    reference = _outside_solver(case, name)
    # scipy stops at about 1e-9 in the objective, 1e-5 in x.
    assert case.problem.objective(computed) <= case.problem.objective(reference) + 1e-12
    np.testing.assert_allclose(computed, reference, atol=2e-5)


def _outside_solver(case: cases.Case, name: str) -> Any:
    d = case.problem.d
    f: Callable[[Any], tuple[float, Any]]

    def smooth(x: Any) -> tuple[float, Any]:
        gradient = np.mean([naive.full_gradient(case.loss, A, b, case.l2, x) for A, b in case.shards], axis=0)
        return naive.objective(case.loss, case.shards, case.l2, naive.zero(), x), gradient

    if name in ("zero", "box", "box_l1", "box_l1_vector"):
        # x = u − v with u, v ≥ 0 makes the ℓ1 norm linear.
        weight = np.broadcast_to(getattr(case.problem.regularizer, "weight", 0.0), (d,))
        bound = getattr(case.problem.regularizer, "bound", None)

        def split(uv: Any) -> tuple[float, Any]:
            value, gradient = smooth(uv[:d] - uv[d:])
            return value + weight @ (uv[:d] + uv[d:]), np.concatenate([gradient + weight, -gradient + weight])

        options = {"maxiter": 20000, "maxfun": 10**6, "ftol": 1e-16, "gtol": 1e-12}
        found = optimize.minimize(split, np.zeros(2 * d), jac=True, bounds=[(0, bound)] * (2 * d), options=options)
        return np.clip(found.x[:d] - found.x[d:], -(bound or np.inf), bound or np.inf)
    radius = case.problem.regularizer.radius  # type: ignore[attr-defined]
    if name == "l2_ball":
        inside = {"type": "ineq", "fun": lambda x: radius**2 - x @ x, "jac": lambda x: -2 * x}
        start, bounds, f = np.zeros(d), None, smooth
    else:
        signed = np.r_[np.ones(d), -np.ones(d)] if name == "l1_ball" else np.ones(d)

        def of_parts(u: Any) -> tuple[float, Any]:
            value, gradient = smooth(u[:d] - u[d:] if name == "l1_ball" else u)
            return value, signed * np.tile(gradient, signed.size // d)

        f = of_parts
        kind = "ineq" if name == "l1_ball" else "eq"
        inside = {"type": kind, "fun": lambda u: radius - u.sum(), "jac": lambda u: -np.ones_like(u)}
        start, bounds = np.full(signed.size, radius / signed.size), [(0, None)] * signed.size
    found = optimize.minimize(
        f,
        start,
        jac=True,
        method="SLSQP",
        bounds=bounds,
        constraints=[inside],
        options={"maxiter": 2000, "ftol": 1e-15},
    )
    x = found.x[:d] - found.x[d:] if name == "l1_ball" else found.x
    return case.problem.regularizer.prox(x, 0.0)


def test_a_problem_without_a_minimiser_says_so() -> None:
    A = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.5]])
    separable = fl.Problem(A, np.sign(A[:, 0]), workers=1)
    with pytest.raises(OptimumError, match="add l2 or a bounded set"):
        separable.optimum()


def test_zero_curvature_directions_still_give_a_certified_optimum() -> None:
    A = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [-1.0, 0.4, 0.0], [0.3, -1.0, 0.0]])
    problem = fl.Problem(A, [1, -1, 1, 1], workers=2, regularizer=fl.Box(3.0))
    x = problem.optimum()
    L = problem.n * problem.smoothness
    assert np.linalg.norm(L * (x - problem.regularizer.prox(x - problem.gradient(x) / L, 1 / L))) < 1e-11


# Shards


def test_contiguous_shards_are_as_equal_as_possible() -> None:
    problem = fl.Problem(np.ones((11, 2)), np.ones(11), workers=4)
    assert problem.sizes.tolist() == [3, 3, 3, 2]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_worker_numbers_sort_the_rows(layout: str) -> None:
    A = np.arange(12.0).reshape(6, 2)
    owners = np.array([1, 0, 1, 2, 0, 1])
    problem = fl.Problem(sparse.csr_array(A) if layout == "csr" else A, np.ones(6), workers=owners)
    order = [1, 4, 0, 2, 5, 3]
    rows = problem.rows.toarray() if layout == "csr" else problem.rows
    np.testing.assert_array_equal(rows, -A[order])  # the label, +1 here, is folded in as −b
    assert problem.starts.tolist() == [0, 2, 5, 6]


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint64", "int8", "int64"])
def test_worker_numbers_of_any_integer_type(kind: str) -> None:
    A = np.arange(12.0).reshape(6, 2)
    problem = fl.Problem(A, np.ones(6), workers=np.array([1, 0, 1, 0, 1, 0], dtype=kind))
    np.testing.assert_array_equal(problem.rows, -A[[1, 3, 5, 0, 2, 4]])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_problem_keeps_a_copy_of_its_data(layout: str, loss: str) -> None:
    A, b = np.eye(4), np.array([1.0, -1.0, 1.0, 1.0])
    given = sparse.csr_array(A) if layout == "csr" else A
    problem = fl.Problem(given, b, workers=2, loss=loss, regularizer=fl.Box(1.0))
    before = problem.objective(np.ones(4))
    given *= 100
    b *= -1
    assert problem.objective(np.ones(4)) == before
    np.testing.assert_array_equal(np.abs(b), 1.0)


def test_precision_by_name_or_type() -> None:
    for name in ("float32", np.float32, np.dtype("float32")):
        assert fl.Problem(np.eye(2), [1, -1], workers=1, dtype=name).dtype == "float32"  # type: ignore[arg-type]


def test_sparse_data_stays_sparse_and_duplicates_are_summed() -> None:
    twice = sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    problem = fl.Problem(twice, [1, -1], workers=1)
    assert sparse.issparse(problem.rows)
    np.testing.assert_array_equal(problem.rows.toarray(), [[0, -3], [4, 0]])


@pytest.mark.thorough
def test_wide_data_uses_iterative_eigenvalues() -> None:
    A = sparse.random_array((1600, 1700), density=0.005, rng=np.random.default_rng(0), format="csr")
    problem = fl.Problem(A, np.ones(1600), workers=1)
    largest = float(np.linalg.eigvalsh((A @ A.T).toarray()).max())
    assert largest / 1600 * 0.25 <= problem.smoothness <= largest / 1600 * 0.25 * (1 + 1e-6)


# Bad input


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"A": [[np.nan, 1.0], [1.0, 1.0]]}, DataError, r"A = .*NaN or infinite.*\[0, 0\]"),
        ({"A": [[1.0, np.inf], [1.0, 1.0]]}, DataError, "NaN or infinite"),
        ({"A": sparse.csr_array([[0.0, np.nan], [1.0, 1.0]])}, DataError, "NaN or infinite"),
        ({"A": np.ones(2)}, DataError, "shape"),
        ({"A": [["a", "b"], ["c", "d"]]}, DataError, "matrix of real numbers"),
        ({"A": [[1.0], [1.0, 2.0]]}, DataError, "matrix of real numbers"),
        ({"A": np.ones((0, 2)), "b": []}, DataError, "no rows"),
        ({"A": np.ones((2, 0))}, DataError, "at least one feature"),
        ({"b": [0, 1]}, DataError, r"give 2 \* b - 1$"),
        ({"b": [1, 2]}, DataError, r"labels −1 and \+1; give np\.where\(b == 2, 1\.0, -1\.0\)$"),
        ({"b": [1, np.nan]}, DataError, "NaN"),
        ({"b": [1, -1, 1]}, DataError, "3 labels.*A has 2 rows"),
        ({"b": [[1, -1]]}, DataError, "shape"),
        ({"b": ["x", "y"]}, DataError, "^b = "),
        ({"workers": 0}, ArgumentError, "^workers = 0"),
        ({"workers": 1.5}, ArgumentError, "^workers = 1.5"),
        ({"workers": 3}, DataError, "only 2 rows"),
        ({"workers": [0, 2]}, DataError, "worker 1 has no rows"),
        ({"workers": [-1, 0]}, DataError, "from 0"),
        ({"workers": [0]}, DataError, "2 whole numbers"),
        ({"workers": [0.0, 1.0]}, DataError, "2 whole numbers"),
        ({"workers": [[0], [1, 2]]}, DataError, "2 whole numbers"),
        ({"workers": [0, 10**12]}, DataError, "worker 1 has no rows"),
        ({"workers": "two"}, ArgumentError, "^workers = 'two'"),
        ({"A": [[1j, 1.0], [1.0, 1.0]]}, DataError, "real numbers"),
        ({"A": [[1e200, 1.0], [1.0, 1.0]]}, DataError, "squares overflow"),
        ({"A": sparse.csr_array([[0.0, 1.0], [np.inf, 1.0]])}, DataError, r"the first at \[1, 0\]"),
        ({"l2": 10**400}, ArgumentError, "^l2 = "),
        ({"l2": 1j}, ArgumentError, "^l2 = 1j"),
        ({"loss": "hinge"}, UnknownNameError, "'logistic', 'squared'"),
        ({"loss": "logistc"}, UnknownNameError, "did you mean 'logistic'"),
        ({"l2": -0.1}, ArgumentError, "^l2 = -0.1"),
        ({"l2": np.nan}, ArgumentError, "^l2 = nan"),
        ({"regularizer": "l1"}, ArgumentError, "BoxL1"),
        ({"gradient_bound": 0.0}, ArgumentError, "^gradient_bound"),
        ({"gradient_bound": np.inf}, ArgumentError, "^gradient_bound"),
        ({"dtype": "float16"}, UnknownNameError, "'float64', 'float32'"),
    ],
)
def test_bad_input_is_named_before_any_work(change: dict[str, Any], error: type[Exception], message: str) -> None:
    good: dict[str, Any] = {"A": np.eye(2), "b": [1, -1], "workers": 2}
    arguments = good | change
    A, b = arguments.pop("A"), arguments.pop("b")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error, match=message) as caught:
            fl.Problem(A, b, **arguments)
    assert isinstance(caught.value, fl.FastLDPError)


@pytest.mark.parametrize("x", [np.ones(3), [1.0, np.nan], "x"])
def test_bad_points(x: Any) -> None:
    problem = fl.Problem(np.eye(2), [1, -1], workers=1)
    for method in (problem.objective, problem.gradient):
        with pytest.raises(ArgumentError, match="^x = "):
            method(x)


def test_what_cannot_fit_is_refused_before_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cases.make("zero").problem
    monkeypatch.setattr(memory, "available_bytes", lambda: 10_000)
    with pytest.raises(TooLargeError, match="GB are free"):
        fl.solve(problem, rounds=1000, repetitions=100, record=fl.Every(1))
    with pytest.raises(TooLargeError, match="sparse"):
        fl.Problem(np.ones((100, 20)), np.ones(100), workers=1)


def test_names_of_two_classes_become_numbers() -> None:
    names = np.array(["well", "sick", "well", "well"])
    with pytest.raises(DataError, match=r"as np.where\(b == 'well', 1.0, -1.0\)"):
        fl.Problem(np.ones((4, 2)), names, workers=2)
    with pytest.raises(DataError, match=r"give one real number a row$"):
        fl.Problem(np.ones((4, 2)), np.array(["a", "b", "c", "a"]), workers=2)
