"""Public bounds: rows scaled to one, gradients clipped to half of it, and what follows for steps, plans and ledgers."""

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import fastldp as fl
import naive
from fastldp.cli import main
from fastldp.errors import ArgumentError, StepWarning
from fastldp.sweeping import spec

LAYOUTS = pytest.mark.parametrize("layout", ["dense", "csr"])
BUDGET = fl.Budget(1.0, 1e-3)
R = 1.5


def data(layout: str = "dense") -> tuple[Any, NDArray[np.float64]]:
    rng = np.random.default_rng(4)
    A = rng.standard_normal((40, 5)) * rng.uniform(0.1, 2.0, (40, 1))
    A[7] = 0.0
    return (sparse.csr_array(A) if layout == "csr" else A), np.where(rng.random(40) < 0.5, 1.0, -1.0)


def make(layout: str = "dense", **given: Any) -> fl.Problem:
    A, b = data(layout)
    return fl.Problem(A, b, **({"workers": 4, "l2": 0.1} | given))


@LAYOUTS
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_longer_rows_are_scaled_down_and_no_others(layout: str, loss: str) -> None:
    plain, bounded = make(layout, loss=loss), make(layout, loss=loss, row_bound=R)
    before, after = ((p.rows.toarray() if layout == "csr" else p.rows) for p in (plain, bounded))
    norms = np.linalg.norm(before, axis=1)
    assert (norms > R).sum() > 5
    np.testing.assert_array_equal(after[norms < R], before[norms < R])
    np.testing.assert_allclose(after[norms > R], before[norms > R] * (R / norms[norms > R])[:, None], rtol=1e-13)
    assert bounded.row_norms.max() <= R
    assert not np.shares_memory(data(layout)[0].data, before)


def test_rows_of_all_sizes_are_scaled() -> None:
    A = np.array([[1e139, -1e139], [5e-324, 0.0], [0.0, 0.0], [1e-200, 1e-200], [3.0, 4.0]])
    problem = fl.Problem(A, np.ones(5), workers=1, row_bound=1.0)
    np.testing.assert_allclose(-problem.rows[0], np.array([1, -1]) / np.sqrt(2), rtol=1e-14)
    np.testing.assert_array_equal(-problem.rows[1:4], A[1:4])
    assert problem.row_norms.max() <= 1.0


def test_what_follows_for_the_logistic_loss() -> None:
    whole, half, less, more = (make(row_bound=R, gradient_bound=bound) for bound in (None, "half", 0.2, 9.0))
    assert [p.gradient_bound for p in (whole, half, less, more)] == [R, R / 2, 0.2, R]
    for problem in (whole, half, less, more):
        assert problem.bound_source == "public"
        assert problem.facts.radius == R
        # A step by the rows, whatever gradients are clipped to.
        assert problem.safe_step == problem.facts.step_limit == min(0.25, 4 / (R**2 / 4 + 0.1))
        assert problem.safe_step <= problem.step_limit
    assert half.facts.bound == R / 2


def test_nothing_is_clipped_at_zero_and_all_is_as_the_oracle_has_it_elsewhere() -> None:
    half, whole = make(row_bound=R, gradient_bound="half"), make(row_bound=R)
    runs = [fl.solve(p, rounds=1, algorithm=fl.PrimalDual(step=0.2)) for p in (half, whole)]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    start = np.full(5, 3.0)
    x = fl.solve(half, rounds=1, x0=start, algorithm=fl.ISRLDP(step=0.2)).x[0]
    gradients = [
        naive.gradient("logistic", -half.rows[a:b], np.ones(b - a), start, R / 2) + 0.1 * start
        for a, b in zip(half.starts[:-1], half.starts[1:], strict=True)
    ]
    np.testing.assert_allclose(x, start - 0.2 * np.mean(gradients, axis=0), rtol=1e-12)


@pytest.mark.parametrize("allocation", ["dynamic", "static", "planned"])
def test_half_of_the_bound_is_a_quarter_of_the_variance(allocation: str) -> None:
    step = None if allocation == "dynamic" else 0.2
    method = fl.PrimalDual(step, allocation)
    whole, half = (
        fl.solve(make(row_bound=R, gradient_bound=bound), BUDGET, rounds=20, algorithm=method, seed=1).ledger
        for bound in (None, "half")
    )
    assert whole is not None
    assert half is not None
    np.testing.assert_allclose(half.variances, whole.variances / 4, rtol=1e-12)
    assert half.read_off_data == whole.read_off_data == ""
    assert "nothing" in half.summary()


def test_summaries_say_which_bounds_these_are() -> None:
    run = fl.solve(make(row_bound=R, gradient_bound="half"), BUDGET, rounds=3, seed=0)
    assert "rows scaled to norms ≤ 1.5, gradients clipped to half of that" in run.summary()
    assert "scaled" not in repr(make())
    assert "clipped" not in repr(make(row_bound=R))


def test_the_squared_loss_has_a_public_step_of_its_rows() -> None:
    problem = make(loss="squared", row_bound=R, gradient_bound=0.5)
    assert problem.safe_step == min(0.25, 4 / (R**2 + 0.1)) <= problem.step_limit
    assert problem.facts.radius == R
    ledger = fl.solve(problem, BUDGET, rounds=3, seed=0).ledger
    assert ledger is not None
    assert ledger.read_off_data == ""
    clipped = make(loss="squared", row_bound=R, regularizer=fl.Box(1.0))
    planned = fl.solve(clipped, BUDGET, rounds=9, algorithm=fl.ISRLDP("planned", clip=0.5), seed=0).ledger
    assert planned is not None
    assert planned.read_off_data == ""


def test_alike_and_parameters() -> None:
    problem = make(row_bound=R, gradient_bound="half")
    other = problem.replace(l2=0.3)
    assert (other.gradient_bound, other.row_bound, other.rows is problem.rows) == (R / 2, R, True)
    assert problem.replace(gradient_bound=None).gradient_bound == R
    assert problem.replace(gradient_bound=0.1).replace(gradient_bound="half").gradient_bound == R / 2
    assert problem.parameters | {"row_bound": R, "gradient_bound": "half"} == problem.parameters
    assert "row_bound" not in make().parameters
    assert problem.fingerprint != make().fingerprint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gradient_bound": "half"}, "^gradient_bound = 'half': of what.*row_bound="),
        ({"gradient_bound": "half", "row_bound": R, "loss": "squared"}, "^gradient_bound = 'half'.*give a number"),
        ({"gradient_bound": "third", "row_bound": R}, "^gradient_bound = 'third'.*half"),
        ({"row_bound": 0.0}, "^row_bound"),
        ({"row_bound": "half"}, "^row_bound"),
        ({"row_bound": 1e-30, "dtype": "float32"}, "^row_bound = 1e-30.*1e-20 to"),
        ({"row_bound": 1e-20, "gradient_bound": "half", "dtype": "float32"}, "^gradient_bound = 5e-21"),
    ],
)
def test_what_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make(**given)


@pytest.mark.parametrize("step", [None, "planned"])
def test_steps_too_long_for_rows_beyond_the_bound_are_warned_of(step: str | None) -> None:
    """All rows alike, so that they bend as much as rows of their length can."""
    method = fl.PrimalDual(step, "planned" if step else "dynamic")

    def schedule(**given: Any) -> None:
        problem = fl.Problem(np.full((40, 1), 40.0), np.ones(40), workers=4, l2=0.1, **given)
        method.schedule(problem, fl.Budget(500.0, 1e-3), 5000)

    with pytest.warns(StepWarning, match=r"rows .* longer.*1/L_f.*row_bound="):
        schedule(gradient_bound=1.0)
    schedule(gradient_bound=20.0, row_bound=40.0)
    schedule(gradient_bound="half", row_bound=2.0)


SPEC = """
rounds = 3
[data]
given = "mine"
[problem]
workers = 4
row_bound = [1.5, 2.0]
gradient_bound = ["half", 0.2]
[budget]
epsilon = 1.0
delta = 1e-3
[[method]]
name = "PrimalDual"
"""


def test_sweeps_have_both_bounds() -> None:
    read = spec.read(SPEC, {"mine": data()})
    problems = [card.parameters["problem"] for card in read.cards.values()]
    assert {(p["row_bound"], p["gradient_bound"]) for p in problems} == {
        (1.5, "half"), (1.5, 0.2), (2, "half"), (2, 0.2),
    }  # fmt: skip
    assert len(read.grounds) == 2
    assert {s.problem.gradient_bound for ground in read.grounds for s in ground.subjects} == {0.75, 1.0, 0.2}


@pytest.mark.thorough
def test_the_command_has_both_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["solve", "--rounds", "3", "--repetitions", "1", "--json", "--step", "theorem", "--row-bound", "3.75"]
    assert main([*few, "--gradient-bound", "half"]) == 0
    ledger = json.loads(capsys.readouterr().out)["ledger"]
    assert (ledger["gradient_bound"], ledger["bound_source"]) == (1.875, "public")
    assert main([*few[:-2]]) == 0
    assert json.loads(capsys.readouterr().out)["ledger"]["bound_source"] == "data"
    assert main([argument.replace("--json", "--details") for argument in few[:-2]]) == 0
    assert "give a public --row-bound, with --gradient-bound half" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*few, "--gradient-bound", "much"])
    assert "'much' is no number, nor half" in capsys.readouterr().err
