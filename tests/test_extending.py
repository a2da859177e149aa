"""Losses and regularizers of a user's own: those of the guide run from outside as ours do; bad ones are refused."""

import importlib
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import cases
import fastldp as fl
import naive
import sweeps
from fastldp import extending, lanes
from fastldp.errors import ArgumentError, ExtensionError, GridEdgeWarning, SpecError, UnboundedGradientError
from fastldp.lanes import copysign, fabs, maximum, minimum, select
from fastldp.losses import as_loss

BUDGET = fl.Budget(1.0, 1e-4)
RNG = np.random.default_rng(0)
A = RNG.standard_normal((60, 7))
Y = A @ RNG.standard_normal(7) + 0.3 * RNG.standard_normal(60)
B = np.sign(Y)


def problem(loss: Any, g: Any = None, **given: Any) -> fl.Problem:
    labels = B if as_loss(loss).labels == "signs" else Y
    return fl.Problem(given.pop("rows", A), labels, workers=4, l2=0.1, loss=loss, regularizer=g, **given)


def of_oracle(made: fl.Problem, run: fl.Solution, loss: Any, g: Any, repetition: int, **more: Any) -> Any:
    """The workers' models by the oracle, which has formulas of its own."""
    assert run.ledger is not None
    shards = [(A[k : k + 15], (B if made.loss.labels == "signs" else Y)[k : k + 15]) for k in range(0, 60, 15)]
    deviations = np.sqrt(np.broadcast_to(run.ledger.variances, (4, 9)))
    x0 = more.pop("x0", np.zeros(7))
    return naive.primal_dual(shards, loss, 0.1, g, x0, made.safe_step, deviations, 4, repetition, **more)[0][-1]


GROUPS = [0, 1, 0, 2, 2, 1, 0]
LOW = np.linspace(-0.5, 0.0, 7)
# Each with its oracle.
OURS: dict[str, tuple[fl.Loss, Any, Any, naive.Regularizer]] = {
    "huber": (fl.Huber(0.5), None, naive.huber(0.5), naive.zero()),
    "hinge": (fl.SmoothedHinge(0.5), fl.L1(0.02), naive.smoothed_hinge(0.5), naive.l1(0.02)),
    "box": (fl.Huber(2.0), fl.Box(-0.1, 0.4), naive.huber(2.0), naive.sides(-0.1, 0.4)),
    "sides": (fl.Squared(), fl.Box(LOW, 0.3), "squared", naive.sides(LOW, 0.3)),
    "groups": (
        fl.Logistic(),
        fl.GroupL2(np.array(GROUPS), np.array([0.05, 0.0, 0.2]), 0.4),
        "logistic",
        naive.group_l2(GROUPS, [0.05, 0.0, 0.2], 0.4),
    ),
    "group lasso": (
        fl.Huber(1.0),
        fl.GroupL2(np.array(GROUPS), 0.1),
        naive.huber(1.0),
        naive.group_l2(GROUPS, [0.1] * 3),
    ),
}


@pytest.mark.parametrize("name", sorted(OURS))
@pytest.mark.parametrize(("layout", "repetitions"), [("dense", 1), ("dense", 3), ("csr", 1), ("csr", 17)])
def test_new_losses_and_regularizers_are_the_oracles(name: str, layout: str, repetitions: int) -> None:
    loss, g, slope, prox = OURS[name]
    made = problem(loss, g, rows=A if layout == "dense" else sparse.csr_array(A))
    run = fl.solve(made, BUDGET, rounds=9, repetitions=repetitions, seed=4, common_noise=True)
    reference = of_oracle(made, run, slope, prox, repetitions - 1)
    np.testing.assert_allclose(run.workers[-1], reference, rtol=1e-10, atol=1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(OURS))
def test_new_ones_converge_to_the_certified_optimum(name: str) -> None:
    loss, g, *_ = OURS[name]
    run = fl.solve(problem(loss, g), rounds=9000)
    assert run.distance[0, -1] < 1e-16
    assert run.consensus[0, -1] < 1e-16


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(OURS))
def test_single_precision(name: str) -> None:
    loss, g, *_ = OURS[name]
    double, single = (
        fl.solve(problem(loss, g, dtype=dtype), rounds=60, repetitions=2).x for dtype in ("float64", "float32")
    )
    np.testing.assert_allclose(single, double, rtol=1e-3, atol=1e-5)


def test_values_of_new_losses() -> None:
    z, b = np.array([-3.0, -1.0, -0.75, 0.0, 0.4, 5.0]), np.zeros(6)
    np.testing.assert_allclose(fl.Huber(0.5).value(z, b), [1.375, 0.375, 0.25, 0.0, 0.08, 2.375])
    np.testing.assert_allclose(fl.SmoothedHinge(0.5).value(z, b), [0.0, 0.0, 0.0625, 0.75, 1.15, 5.75])
    for loss in (fl.Huber(0.5), fl.SmoothedHinge(0.5), fl.Logistic(), fl.Squared()):
        h = 1e-6
        between = z + 0.011  # off the corners of the slopes
        slopes = (loss.value(between + h, b) - loss.value(between - h, b)) / (2 * h)
        np.testing.assert_allclose(loss.slope(between, b), slopes, atol=1e-8)
        np.testing.assert_allclose(loss.bend(between, b), fl.Loss.bend(loss, between, b), atol=1e-6)


def test_strings_stay() -> None:
    for word, kind in (("logistic", fl.Logistic), ("squared", fl.Squared)):
        by_word, by_class = (problem(loss, fl.Box(1.0)) for loss in (word, kind()))
        assert by_word.definition == by_class.definition
        assert by_word.parameters["loss"] == word


def test_runs_of_other_parameters_share_a_block(tmp_path: Path) -> None:
    """A number of the loss and one of the regularizer in each lane: the bits are those of the runs by themselves."""
    text = sweeps.spec(
        'name = "PrimalDual"\nstep = 0.1',
        rounds="20",
        problem='loss = {name = "Huber", delta = [0.3, 0.6]}\nregularizer = {name = "L1", weight = [0.01, 0.2]}',
    )
    sweeps.run(text, tmp_path / "r.h5")
    found = fl.results(tmp_path / "r.h5")
    assert len(found) == 12
    for run in found:
        about = run.parameters
        made = fl.Problem(
            *sweeps.DATA["tiny"],
            workers=4,
            l2=0.1,
            loss=fl.Huber(about["loss_delta"]),
            regularizer=fl.L1(about["regularizer_weight"]),
        )
        budget = fl.Budget(4.0, 1e-3)
        solved = fl.solve(made, budget, rounds=20, algorithm=fl.PrimalDual(0.1), repetitions=3, seed=3)
        np.testing.assert_array_equal(run.x, solved.x[run.repetition])


# From outside.


def elastic_net(weight: float, ridge: float) -> naive.Regularizer:
    """The soft threshold of the ℓ1 part, over 1 + s·ridge."""
    return naive.Regularizer(lambda x: np.nan, lambda z, s: naive.l1(weight).prox(z, s) / (1 + s * ridge))


GUIDES: dict[str, tuple[tuple[float, ...], Any, Any]] = {
    "mylosses:LogCosh": ((0.5,), lambda z, b: 0.5 * np.tanh((z - b) / 0.5), naive.l2_ball(3.0)),
    "mypenalties:ElasticNet": ((0.02, 0.1), naive.huber(1.0), elastic_net(0.02, 0.1)),
    "mypenalties:Norm": ((0.05,), naive.huber(1.0), naive.group_l2([0] * 7, [0.05])),
}


@pytest.mark.parametrize("name", sorted(GUIDES))
def test_the_guides_classes_run_as_ours_do(name: str, outside: Path) -> None:
    given, slope, prox = GUIDES[name]
    module, _, kind = name.partition(":")
    mine = getattr(importlib.import_module(module), kind)(*given)
    loss, g = (mine, fl.L2Ball(3.0)) if isinstance(mine, fl.Loss) else (fl.Huber(1.0), mine)
    for rows in (A, sparse.csr_array(A)):
        made = problem(loss, g, rows=rows)
        run = fl.solve(made, BUDGET, rounds=9, repetitions=3, seed=4, common_noise=True)
        np.testing.assert_allclose(run.workers[2], of_oracle(made, run, slope, prox, 2), rtol=1e-10, atol=1e-11)
    assert fl.solve(made, rounds=9000).distance[0, -1] < 1e-16
    with pytest.warns(GridEdgeWarning):  # of two steps either is an edge
        tuned = fl.tune(made, BUDGET, fl.grid(fl.PrimalDual, step=[0.1, 0.2]), rounds=30, seed=1)
    assert len(tuned.trials) == 2
    found = fl.audit(made.replace(gradient_bound=1.0), fl.Budget(4.0, 1e-3), rounds=3, transcripts=4000)
    assert found.passed, found.summary()


SWEEP = """
rounds = 12
repetitions = 2
[data]
given = "mine"
[problem]
workers = 4
l2 = 0.1
loss = {name = "mylosses:LogCosh", scale = [0.5, 1.0]}
regularizer = {name = "mypenalties:ElasticNet", weight = 0.01, ridge = 0.1}
[budget]
epsilon = 1.0
delta = 1e-4
[method]
name = "PrimalDual"
"""


def swept(text: str, path: Path, **given: Any) -> fl.sweeping.Results:
    sweeps.run(text, path, given={"mine": (A, Y)}, **given)
    return fl.results(path)


@pytest.mark.parametrize("backend", ["threads", pytest.param("loky", marks=pytest.mark.thorough)])
def test_sweeps_know_them_by_module_and_name(backend: str, outside: Path, tmp_path: Path) -> None:
    found = swept(SWEEP, tmp_path / "r.h5", backend=backend, n_jobs=2)
    assert len(found) == 4
    kind = importlib.import_module("mylosses").LogCosh
    net = importlib.import_module("mypenalties").ElasticNet(0.01, 0.1)
    for run in found:
        solved = fl.solve(problem(kind(run.parameters["loss_scale"]), net), BUDGET, rounds=12, repetitions=2, seed=0)
        np.testing.assert_array_equal(run.x, solved.x[run.repetition])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:LogCosh", "cannot be imported"),
        ("mylosses:Nothing", "cannot be imported"),
        ("mylosses:fl", "no subclass of fastldp.Loss"),
        ("mypenalties:Norm", "no subclass of fastldp.Loss"),
        ("LogCosh", "use one of"),
    ],
)
def test_names_of_no_loss(name: str, said: str, outside: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=said) as caught:
        swept(SWEEP.replace("mylosses:LogCosh", name), tmp_path / "r.h5")
    assert "problem.loss" in str(caught.value)


EDITED = """
import numpy as np, sys
import fastldp as fl
from edited import Mine
A = np.random.default_rng(0).standard_normal((40, 5))
problem = fl.Problem(A, np.sign(A[:, 0]), workers=2, l2=0.1, loss=Mine())
print(repr(fl.solve(problem, rounds=5, repetitions=2).x[0, 0]), problem.definition)
"""


@pytest.mark.thorough
def test_an_edited_class_never_runs_stale_code(tmp_path: Path) -> None:
    """The same module, in processes of their own with one cache: a factor in a helper's module is changed."""
    helper, module = tmp_path / "helping.py", tmp_path / "edited.py"
    module.write_text(
        "import numba\nfrom dataclasses import dataclass\nimport fastldp as fl\nfrom helping import FACTOR, times\n"
        "times = numba.njit(times)\n\n\n@dataclass(frozen=True)\nclass Mine(fl.Loss):\n    labels = 'signs'\n"
        "    curvature = FACTOR\n    def value(self, z, b):\n        return 0.5 * FACTOR * z * z + z\n"
        "    def slope(self, z, b):\n        return times(z) + 1.0\n"
    )
    printed = []
    for factor in ("1.0", "1.0", "2.0"):
        helper.write_text(f"FACTOR = {factor}\ndef times(z):\n    return FACTOR * z\n")
        command = [sys.executable, "-B", "-c", EDITED]
        path = os.pathsep.join([str(tmp_path), *sys.path])
        found = subprocess.run(
            command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path}, cwd=tmp_path
        )
        assert found.returncode == 0, found.stderr[-2000:]
        printed.append(found.stdout.split())
    assert printed[0] == printed[1]
    assert printed[0][0] != printed[2][0]  # other models
    assert printed[0][1] != printed[2][1]  # and another key: results of the one are not taken for the other's


def test_the_code_of_a_class_is_all_that_it_uses() -> None:
    def made(factor: float) -> type[fl.Loss]:
        @dataclass(frozen=True)
        class Mine(fl.Loss):
            curvature = 3.0

            def value(self, z: Any, b: Any) -> Any:
                return 0.5 * factor * (z - b) ** 2

            def slope(self, z: Any, b: Any) -> Any:
                return factor * (z - b)

        return Mine

    first, again, other = (extending.code_of(made(factor)) for factor in (1.0, 1.0, 2.0))
    assert first == again != other


def test_no_constant_hides_behind_an_equal_one() -> None:
    """A number that occurs elsewhere in the class too, and what is inside of dicts, partials and nested functions."""

    def made(d: float, e: float) -> type[fl.Loss]:
        inner, table = partial(max, d), {"bound": [d]}

        @dataclass(frozen=True)
        class Mine(fl.Loss):
            first, second, curvature = 2.0, 4.0, 9.0

            def value(self, z: Any, b: Any) -> Any:
                return (lambda: inner(e) * table["bound"][0])() * (z - b) ** 2

            def slope(self, z: Any, b: Any, *, more: float = e) -> Any:
                return more * (z - b)

        return Mine

    found = {extending.code_of(made(d, e)) for d in (2.0, 4.0) for e in (2.0, 4.0)}
    assert len(found) == 4
    assert extending.code_of(made(2.0, 4.0)) == extending.code_of(made(2.0, 4.0))


def test_what_our_losses_do_faster_is_not_inherited() -> None:
    """A subclass of ours with a slope of its own is solved with that slope, and limited as any other is."""

    @dataclass(frozen=True)
    class Half(fl.Logistic):
        def value(self, z: Any, b: Any) -> Any:
            return 0.5 * np.logaddexp(0.0, z)

        def slope(self, z: Any, b: Any) -> Any:
            return 0.5 * lanes.sigmoid(z)

    made = problem(Half())
    for repetitions in (1, 3):
        run = fl.solve(made, BUDGET, rounds=9, repetitions=repetitions, seed=4, common_noise=True)

        def slope(margin: float, label: float) -> float:
            return 0.5 * naive.slope("logistic", margin, label)

        reference = of_oracle(made, run, slope, naive.zero(), repetitions - 1)
        np.testing.assert_allclose(run.workers[-1], reference, rtol=1e-10, atol=1e-11)
    assert made.enforced_bound == made.gradient_bound


# What is wrong with a class is said when an object or a problem is made of it.


def a_loss(**parts: Any) -> Any:
    """A squared loss with some of its parts replaced, or left out where they are None."""
    whole: dict[str, Any] = {
        "curvature": 1.0,
        "value": lambda self, z, b: 0.5 * (z - b) ** 2,
        "slope": lambda self, z, b: z - b,
    }
    return type("Mine", (fl.Loss,), {name: part for name, part in (whole | parts).items() if part is not None})


@pytest.mark.parametrize("part", ["value", "slope", "curvature"])
def test_a_loss_that_lacks_something(part: str) -> None:
    with pytest.raises(ExtensionError, match=f"class Mine: it lacks {part}"):
        a_loss(**{part: None})()


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"slope": lambda self, z, b: 1.1 * (z - b)}, "value's differences"),
        ({"slope": lambda self, z, b: (z - b) / (b - b)}, "slope gives no number at b"),
        ({"value": lambda self, z, b: np.log(z)}, "value gives no number"),
        ({"slope": lambda self, z, b: 1.0}, "another shape"),
        ({"slope_bound": 2.0}, "slope_bound = 2, but slope has"),
        ({"curvature": 0.5}, "curvature = 0.5"),
        ({"least_curvature": 1.5, "curvature": 2.0}, "least_curvature"),
        ({"value": lambda self, z, b: -0.5 * (z - b) ** 2, "slope": lambda self, z, b: b - z}, "not convex"),
        ({"slope": lambda self, z, b: z - b if z > 0 else b - z}, "select"),
        ({"slope": lambda self, z, b: z - b - self.missing}, "a formula fails: AttributeError"),
    ],
)
def test_a_loss_whose_parts_contradict_each_other(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(ExtensionError, match=said):
        problem(a_loss(**parts)())


def test_a_loss_without_a_slope_bound_is_private_only_where_gradients_are_bounded() -> None:
    loss = a_loss()()
    with pytest.raises(UnboundedGradientError, match='grows without limit.*clip="adaptive" of the method'):
        fl.solve(problem(loss), BUDGET, rounds=3)
    with pytest.raises(UnboundedGradientError):
        fl.solve(problem(loss, fl.L1(0.1)), BUDGET, rounds=3)
    for bounded in (problem(loss, fl.L2Ball(1.0)), problem(loss, gradient_bound=2.0)):
        assert fl.solve(bounded, BUDGET, rounds=3, algorithm=fl.PrimalDual(step=0.1)).status.ok


def test_a_slope_bound_that_is_a_lie_spoils_no_promise() -> None:
    """It holds at the margins that a loss is tried at, and not far out: kernels limit slopes all the same."""
    loss = a_loss(slope_bound=40.0)()
    made = problem(loss)
    far = np.full(7, 50.0)
    assert np.abs(loss.slope(A @ far, Y)).max() > 100
    run = fl.solve(made, BUDGET, rounds=9, repetitions=3, seed=4, common_noise=True, x0=far)
    assert run.ledger is not None
    assert run.ledger.bound == made.gradient_bound == pytest.approx(40 * made.row_norms.max())
    reference = of_oracle(made, run, "squared", naive.zero(), 2, x0=far, clip=made.gradient_bound)
    np.testing.assert_allclose(run.workers[2], reference, rtol=1e-10)


def test_shortcuts_of_a_class_from_outside_are_not_taken() -> None:
    """Those by which our own losses are faster would let it past the limit."""
    liar = {
        "reach": {"float64": 700.0},
        "short_slope": lambda self, z, b: 50.0 * z,
        "unit": 3.0,
        "keeps_to_bound": True,
    }
    made = problem(a_loss(slope_bound=40.0, **liar)())
    for repetitions in (1, 3):
        run = fl.solve(made, BUDGET, rounds=9, repetitions=repetitions, seed=4, common_noise=True)
        reference = of_oracle(made, run, "squared", naive.zero(), repetitions - 1, clip=made.gradient_bound)
        np.testing.assert_allclose(run.workers[-1], reference, rtol=1e-10, atol=1e-11)
    assert made.enforced_bound == made.gradient_bound


def test_fields_that_would_be_ignored_and_classes_for_instances() -> None:
    class Forgot(fl.Regularizer):
        weight: float = 1.0

        def value(self, x: Any) -> float:
            return 0.0

        def shrink(self, z: Any, scale: Any) -> Any:
            return z

    with pytest.raises(ExtensionError, match=r"weight would be ignored: put @dataclass"):
        Forgot()
    with pytest.raises(ArgumentError, match="give an instance, as Huber"):
        problem(fl.Huber)


def a_regularizer(shrink: Any, value: Any = None) -> Any:
    return type(
        "Mine", (fl.Regularizer,), {"value": value or (lambda self, x: float(np.abs(x).sum())), "shrink": shrink}
    )


@pytest.mark.parametrize(
    ("g", "said"),
    [
        (lambda: type("Mine", (fl.Regularizer,), {"value": lambda self, x: 0.0})(), "it lacks shrink"),
        (lambda: type("Mine", (fl.Regularizer,), {"shrink": lambda self, z, scale: z})(), "it lacks value"),
        (a_regularizer(lambda self, z, scale: z * 0.5), "not that of its value"),
        (
            a_regularizer(lambda self, z, scale: z, lambda self, x: 0.0 if np.abs(x).max() <= 1 else np.inf),
            "leaves its set",
        ),
        (a_regularizer(lambda self, z, scale: z / 0.0), "leaves its set"),
        # The scale forgotten, whatever it is; and a penalty that pays for being large.
        (a_regularizer(lambda self, z, scale: copysign(maximum(0.0, fabs(z) - 1.0), z)), "not that of its value"),
        (
            a_regularizer(lambda self, z, scale: copysign(fabs(z) + scale, z), lambda self, x: -float(np.abs(x).sum())),
            "not convex",
        ),
    ],
)
def test_regularizers_that_are_none(g: Any, said: str) -> None:
    with np.errstate(all="ignore"), pytest.raises(ExtensionError, match=said):
        problem("squared", g())


def uncompiled(z: Any) -> Any:
    return z


def test_formulas_that_cannot_be_compiled_are_named() -> None:
    loss = a_loss(slope=lambda self, z, b: uncompiled(z) - b)()
    with pytest.raises(ExtensionError, match=r"class Mine: a formula cannot be compiled: .*uncompiled.*@numba.njit"):
        fl.solve(problem(loss), rounds=3)


def test_a_regularizer_is_never_left_out() -> None:
    """One that kernels could not know once was solved without it, status completed."""
    mine = a_regularizer(lambda self, z, scale: copysign(maximum(0.0, fabs(z) - scale), z))()
    made = problem("squared", mine)
    assert fl.solve(made, rounds=9000).distance[0, -1] < 1e-16
    reference = problem("squared", fl.L1(1.0)).optimum()
    np.testing.assert_allclose(made.optimum(), reference, atol=1e-10)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fl.Huber(0.0), "delta = 0.0"),
        (lambda: fl.SmoothedHinge(np.nan), "width = nan"),
        (lambda: fl.Box(1.0, -1.0), "the box is empty"),
        (lambda: fl.Box(np.zeros(3), np.ones(2)), "give as many"),
        (lambda: fl.Box(1.0, bound=2.0), "it is for both sides"),
        (lambda: fl.L1(-1.0), "weight = -1.0"),
        (lambda: fl.GroupL2(np.array([0, -1]), 1.0), "from 0"),
        (lambda: fl.GroupL2(np.array([0, 2]), np.ones(2)), "one for each of 3 groups"),
        (lambda: problem("squared", fl.GroupL2(np.array([0, 1]), 1.0)), "each of the 7 coordinates"),
        (lambda: problem("squared", fl.Box(np.zeros(3), 1.0)), "each of the 7 coordinates"),
        (lambda: problem(fl.SmoothedHinge(1.0), row_bound=1.0, gradient_bound="half"), "at 0 are within R/2"),
    ],
)
def test_bad_parameters(make: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        make()


# Those of arrays, of masks and of methods are tried where these are.
OTHERS = {"load", "store", "any_lane", "all_lanes", "broadcast", "prox", "mean_over_workers", "weighted_mean"}
OTHERS |= {"apart", "mix"}


@pytest.mark.parametrize("name", sorted(set(lanes.__all__) - OTHERS))
def test_lane_functions_are_the_same_in_kernels_and_in_python(name: str) -> None:
    function = getattr(lanes, name)
    count = function.__code__.co_argcount
    arguments = [RNG.uniform(0.1, 3.0, (1, 5, 8)) for _ in range(count)]
    if name == "select":
        kind = type("Mine", (fl.Regularizer,), {"value": None, "shrink": lambda self, z, s: select(z > 1.0, z, -z)})
        expected = np.where(arguments[1] > 1.0, arguments[1], -arguments[1])
    elif count == 1:
        kind = type("Mine", (fl.Regularizer,), {"value": None, "shrink": lambda self, z, s: function(z)})
        expected = function(arguments[0])
    elif count == 2:
        kind = type("Mine", (fl.Regularizer,), {"value": None, "shrink": lambda self, z, s: function(z, 1.0)})
        expected = function(arguments[0], 1.0)
    else:
        kind = type("Mine", (fl.Regularizer,), {"value": None, "shrink": lambda self, z, s: function(z, z, 1.0)})
        expected = function(arguments[0], arguments[0], 1.0)
    z = arguments[1] if name == "select" else arguments[0]
    found = cases.prox_in_lanes([kind()] * 8, z, np.ones(8))
    np.testing.assert_allclose(found, expected, rtol=4e-16 if name != "exp" else 1e-15)


def test_of_a_nan_minimum_and_maximum_take_the_second() -> None:
    for function in (minimum, maximum):
        assert np.isnan(function(1.0, np.nan))
        assert function(np.nan, 1.0) == 1.0


def test_regularizers_without_a_bound_have_seeds(tmp_path: Path) -> None:
    """Keys are made of all parameters, and an infinite one is no number of JSON."""
    A = np.random.default_rng(0).standard_normal((40, 4))
    groups = fl.GroupL2(np.array([0, 0, 1, 1]), 0.01)
    problem = fl.Problem(A, np.sign(A[:, 0]), workers=4, l2=0.1, regularizer=groups)
    run = fl.solve(problem, fl.Budget(1.0, 1e-4), rounds=3, seed=1)
    assert np.isfinite(run.x).all()
    text = f"""
rounds = 3
repetitions = 1
seed = 1
data.synthetic = "ijcnn1"
data.rows = 40
problem.workers = 4
problem.regularizer = {{name = "GroupL2", groups = [{[0] * 21 + [1]}], weight = 0.01}}
method = [{{step = 0.1}}]
"""
    (found,) = swept(text, tmp_path / "runs.h5")
    assert found.parameters["regularizer_bound"] == "inf"


@pytest.mark.parametrize(
    "loss",
    [fl.Logistic(), fl.Squared(), fl.Huber(0.5), fl.Huber(3.0), fl.SmoothedHinge(0.5), fl.SmoothedHinge(3.0)],
    ids=str,
)
def test_bounds_of_losses_hold_and_are_the_least(loss: fl.Loss) -> None:
    """Noise is calibrated to one and steps to the other: neither may be too small, nor need it be larger."""
    z = np.linspace(-40.0, 40.0, 80_001)
    slopes = loss.slope(z, np.ones(z.size))
    bends = np.diff(slopes) / np.diff(z)
    assert bends.max() == pytest.approx(loss.curvature, rel=1e-6)
    assert bends.min() >= loss.least_curvature - 1e-9
    if loss.slope_bound is not None:
        assert np.abs(slopes).max() == pytest.approx(loss.slope_bound, rel=1e-9)
