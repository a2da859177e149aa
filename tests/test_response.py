"""Luck: what noise does to the error of a run, to first order, is known, and so is its mean."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, special, stats

import cases
import fastldp as fl
import naive
from fastldp.kernels.chacha import key_of
from fastldp.kernels.means import mean_normals
from fastldp.methods import Method
from fastldp.reproduction import response as response_module
from fastldp.reproduction.response import Response, backwards, curvature, lucks, response
from fastldp.sweeping import Grid, spec
from fastldp.sweeping.trials import grid_of

Array = NDArray[np.float64]

BUDGET = fl.Budget(3.0, 1e-4)
METHODS: dict[str, dict[str, Any]] = {
    "Algorithm 1": {"method": "PrimalDual", "step": 0.2},
    "Algorithm 1, planned": {"method": "PrimalDual", "step": "planned", "allocation": "planned"},
    "ISRL-DP": {"method": "ISRLDP", "step": 0.05},
    "ISRL-DP, tail": {"method": "ISRLDP", "step": 0.05, "tail_average": 20},
    "ISRL-DP, accelerated": {"method": "ISRLDP", "step": 0.01, "accelerated": True},
    "DP-FedAvg": {"method": "DPFedAvg", "step": 0.03, "local_steps": 3},
    "DP-SCAFFOLD": {"method": "DPScaffold", "step": 0.03, "local_steps": 3},
}


def problem(sizes: tuple[int, ...] = (60, 60, 60, 60), **given: Any) -> fl.Problem:
    return cases.make(sizes=sizes, **given).problem


def read(problem: fl.Problem, *methods: dict[str, Any], **given: Any) -> spec.Spec:
    """A sweep of a problem, 60 rounds unless it is said otherwise."""
    grids: list[Grid] = [grid_of(method, "", None) for method in methods]
    told: dict[str, Any] = {"budgets": BUDGET, "rounds": 60, "repetitions": 24, "seed": 3, "common_noise": True}
    return spec.read(fl.Sweep(problems={"given": problem}, methods=grids, record=fl.Final(), **told | given))


def of(found: spec.Spec) -> Response:
    made = response(found.grounds[0], found.settings[0])
    assert made is not None
    return made


def errors(problem: fl.Problem, method: Method, repetitions: int = 24) -> Array:
    """Of the same runs."""
    run = fl.solve(
        problem,
        BUDGET,
        rounds=60,
        algorithm=method,
        repetitions=repetitions,
        seed=3,
        common_noise=True,
        record=fl.Final(),
        n_jobs=1,
    )
    return np.asarray(run.optimality[:, -1])


def keys(repetitions: int, seed: int = 3) -> NDArray[np.uint32]:
    return np.stack([key_of(seed, repetition) for repetition in range(repetitions)])


@pytest.mark.parametrize(("d", "local_steps", "first"), [(3, 1, 0), (9, 2, 3), (18, 3, 1)])
def test_means_are_those_of_the_noise_at_its_addresses(d: int, local_steps: int, first: int) -> None:
    out = np.empty((5, d, 8))
    mean_normals(keys(8).T.copy(), first, local_steps, 3, *np.zeros((2, 1, d + d % 2, 8)), out)
    for s in range(5):
        t, k = divmod(first + s, local_steps)
        for repetition in (0, 7):
            drawn = [naive.normals(3, repetition, worker, t + 1, d, k) for worker in range(3)]
            np.testing.assert_allclose(out[s, :, repetition], np.mean(drawn, axis=0), rtol=1e-13, atol=1e-14)


def test_the_recursion_backwards_is_what_a_release_does_forwards() -> None:
    rng = np.random.default_rng(0)
    coefficients, rates = rng.uniform(0.1, 0.6, (7, 4)), np.array([0.3, 1.1])

    def answer(noise: Array) -> Array:
        w = a = np.zeros(2)
        for (mix, pull, length, weight), nu in zip(coefficients, noise, strict=True):
            p = w + mix * (a - w)
            w = w + pull * (p - w) - length * (rates * p + nu)
            a = a + weight * (w - a)
        return a

    kappa = backwards(coefficients, rates)
    for s in range(7):
        noise = np.zeros((7, 2))
        noise[s] = 1.0
        np.testing.assert_allclose(kappa[s], answer(noise), rtol=1e-12)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("clip", [None, 0.4])
def test_the_curvature_is_that_of_clipped_gradients(layout: str, clip: float | None) -> None:
    case = cases.make(layout=layout, sizes=(8, 20), weighting="rows", gradient_bound=clip)
    x, d = np.linspace(-0.5, 0.5, case.problem.d), case.problem.d
    bound = np.inf if clip is None else clip

    def gradient(x: Array) -> Array:
        parts = [len(b) * naive.gradient(case.loss, A, b, x, bound) for A, b in case.shards]
        return np.asarray(np.sum(parts, axis=0) / 28 + case.l2 * x)

    nudge = 1e-6
    columns = [(gradient(x + nudge * e) - gradient(x - nudge * e)) / (2 * nudge) for e in np.eye(d)]
    np.testing.assert_allclose(curvature(case.problem, x, bound), np.array(columns), atol=1e-8)


@pytest.mark.parametrize("d", [1, 2, 22])
def test_the_mean_logarithm_is_that_of_chi_squares(d: int) -> None:
    made = Response(np.eye(d), np.zeros(d), np.full((1, d), 0.3), 1, 1, 0.0)
    assert made.expected_logarithm == pytest.approx(special.digamma(d / 2) + np.log(2 * 0.3**2), abs=1e-9)


@pytest.mark.parametrize(("left", "floor"), [(0.7, 0.0), (0.0, 0.2), (3.0, 0.1)])
def test_the_mean_logarithm_is_an_integral_over_the_noise(left: float, floor: float) -> None:
    made = Response(np.eye(1), np.array([left]), np.array([[0.6], [0.8]]), 4, 1, floor)  # of variance 1/4

    def density(u: float) -> float:
        return float(np.log(floor + (left + u) ** 2) * stats.norm.pdf(u, scale=0.5))

    wanted, _ = integrate.quad(density, -8, 8, points=[-left], limit=400)
    assert made.expected_logarithm == pytest.approx(wanted, abs=1e-6)
    assert made.expected == pytest.approx(floor + left**2 + 0.25)


@pytest.mark.parametrize("given", METHODS.values(), ids=METHODS)
def test_luck_is_nearly_all_that_errors_differ_by(given: dict[str, Any]) -> None:
    some = problem()
    found = read(some, given)
    made = errors(some, found.settings[0].method)
    (luck,) = lucks([of(found)], keys(24))
    assert np.log(made / luck).std() < 0.1 * np.log(made).std()


@pytest.mark.parametrize(
    "given",
    [{"gradient_bound": 0.5}, {"sizes": (20, 40, 60, 80), "weighting": "rows"}, {"layout": "csr"}],
    ids=["clipped", "weighted by rows", "csr"],
)
@pytest.mark.parametrize("method", ["Algorithm 1", "DP-FedAvg"])
def test_whatever_the_problem(given: dict[str, Any], method: str) -> None:
    some = problem(**given)
    found = read(some, METHODS[method])
    made = errors(some, found.settings[0].method)
    (luck,) = lucks([of(found)], keys(24))
    assert np.log(made / luck).std() < 0.2 * np.log(made).std()


def test_what_luck_leaves_has_the_mean_that_errors_have() -> None:
    some = problem()
    found = read(some, METHODS["ISRL-DP"])
    made = errors(some, found.settings[0].method, 4000)
    (luck,) = lucks([of(found)], keys(4000))
    # Of these logarithms the mean is zero, whatever the runs.
    assert abs(np.log(luck).mean()) < 4 * np.log(luck).std() / np.sqrt(4000)
    assert np.log(made / luck).mean() == pytest.approx(np.log(made).mean(), abs=4 * np.log(made).std() / np.sqrt(4000))


def test_of_a_wrong_order_the_mean_is_known_as_well() -> None:
    right = of(read(problem(), METHODS["ISRL-DP"]))
    wrong = right._replace(weights=3 * right.weights[::-1], left=-right.left, floor=0.1)
    (luck,) = lucks([wrong], keys(4000))
    assert abs(np.log(luck).mean()) < 4 * np.log(luck).std() / np.sqrt(4000)


def test_runs_have_their_luck_in_whatever_company() -> None:
    several = read(problem(), METHODS["ISRL-DP"], METHODS["DP-FedAvg"])
    both = [response(several.grounds[0], setting) for setting in several.settings]
    together = lucks([one for one in both if one is not None], keys(19))
    for one, luck in zip(both, together, strict=True):
        assert one is not None
        (alone,) = lucks([one], keys(24)[5:19])
        np.testing.assert_allclose(luck[5:], alone, rtol=1e-9)


@pytest.mark.parametrize(
    ("of_problem", "method", "given"),
    [
        ({"regularizer": "box_l1"}, METHODS["Algorithm 1"], {}),
        ({"dtype": "float32"}, METHODS["Algorithm 1"], {}),
        ({"sizes": (20, 40, 60, 80)}, METHODS["Algorithm 1"], {}),
        ({}, METHODS["Algorithm 1"], {"common_noise": False}),
        ({}, METHODS["Algorithm 1"], {"budgets": None}),
        ({}, {"method": "PrimalDual", "clip": "adaptive"}, {}),
        ({}, {"method": "PrimalDual", "topology": "ring"}, {}),
        ({}, {"method": "ISRLDP", "step": 0.05, "sampling": 0.5}, {}),
        ({}, {"method": "DPFedAvg", "step": 0.05, "local_steps": 2, "server_step": 0.5}, {}),
        ({}, {"method": "DPScaffold", "step": 0.05, "local_steps": 2, "warm_start": True}, {}),
        ({}, {"method": "LDPFedEXP", "step": 0.05, "local_steps": 2}, {}),
    ],
)
def test_where_nothing_is_known_there_is_no_luck(
    of_problem: dict[str, Any], method: dict[str, Any], given: dict[str, Any]
) -> None:
    found = read(problem(**of_problem), method, **given)
    assert response(found.grounds[0], found.settings[0]) is None


def test_errors_of_a_program_are_about_what_is_expected() -> None:
    some = problem()
    for given in METHODS.values():
        found = read(some, given)
        made = errors(some, found.settings[0].method, 1600)
        assert of(found).expected == pytest.approx(made.mean(), rel=0.1)


@pytest.mark.parametrize(
    ("name", "within"),
    [
        ("ISRL-DP", 0.02),
        ("ISRL-DP, tail", 0.02),
        ("ISRL-DP, accelerated", 0.02),
        ("Algorithm 1", 0.1),  # whose workers differ
        ("DP-FedAvg", 0.1),
        ("DP-SCAFFOLD", 0.1),
    ],
)
def test_where_curvature_is_the_same_everywhere_the_first_order_is_all(name: str, within: float) -> None:
    some, budget = problem(loss="squared", gradient_bound=100.0), fl.Budget(3e3, 1e-4)
    found = read(some, METHODS[name], budgets=budget)
    made, (setting,) = of(found), found.settings
    run = fl.solve(
        some,
        budget,
        rounds=60,
        algorithm=setting.method,
        repetitions=3,
        seed=3,
        common_noise=True,
        record=fl.Final(),
        n_jobs=1,
    )
    moved = (run.x - some.optimum()) / np.linalg.norm(some.optimum()) @ made.directions - made.left
    (wanted,) = response_module._moved([made], keys(3), made.workers, made.local_steps)
    assert np.linalg.norm(moved - wanted) < within * np.linalg.norm(wanted)


def test_noise_that_is_made_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(problem(), METHODS["ISRL-DP"], METHODS["DP-FedAvg"])
    known = [response(found.grounds[0], setting) for setting in found.settings]
    made = [one for one in known if one is not None]
    made += [one._replace(weights=one.weights[:25]) for one in made]  # of different lengths
    whole = lucks(made, keys(19))
    # Seven releases of three blocks of nine coordinates.
    monkeypatch.setattr(response_module, "MOST_HELD", 7 * 3 * 9 * 8)
    for one, other in zip(whole, lucks(made, keys(19)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("method", ["Algorithm 1", "DP-FedAvg"])
def test_a_threshold_of_the_methods_own_counts(method: str) -> None:
    some = problem()
    found = read(some, METHODS[method] | {"clip": 0.5})
    (luck,) = lucks([of(found)], keys(24))
    made = errors(some, found.settings[0].method)
    assert np.log(made / luck).std() < 0.2 * np.log(made).std()
    same = of(read(problem(gradient_bound=0.5), METHODS[method]))
    np.testing.assert_allclose(of(found).weights, same.weights, rtol=1e-6)


def test_the_mean_model_alone_has_no_floor() -> None:
    some = problem()
    found = read(some, METHODS["Algorithm 1"])
    alone = response(found.grounds[0], found.settings[0], differing=False)
    assert alone is not None
    assert of(found).floor > 0 == alone.floor
    run = fl.solve(
        some,
        BUDGET,
        rounds=60,
        algorithm=found.settings[0].method,
        repetitions=24,
        seed=3,
        common_noise=True,
        record=fl.Final(),
        n_jobs=1,
    )
    (luck,) = lucks([alone], keys(24))
    made = run.distance[:, -1]
    assert np.log(made / luck).std() < 0.1 * np.log(made).std()


def test_runs_that_start_elsewhere() -> None:
    text = """
    rounds = 20
    repetitions = 24
    seed = 3
    [noise]
    common = true
    [data]
    name = "ijcnn1"
    rows = 400
    [problem]
    workers = 4
    l2 = 0.1
    start = 5.0
    [budget]
    epsilon = 3.0
    delta = 1e-4
    [[method]]
    name = "ISRLDP"
    step = 0.3
    [record]
    final = true
    """
    found = spec.read(text, synthetic=True)
    subject, (setting,) = found.grounds[0].subjects[0], found.settings
    assert np.linalg.norm(subject.start) > 5
    run = fl.solve(
        subject.problem,
        BUDGET,
        rounds=20,
        algorithm=setting.method,
        repetitions=24,
        seed=3,
        common_noise=True,
        x0=subject.start,
        record=fl.Final(),
        n_jobs=1,
    )
    (luck,) = lucks([of(found)], keys(24))
    made = run.optimality[:, -1]
    assert np.log(made / luck).std() < 0.1 * np.log(made).std()


def test_of_a_class_of_ones_own_nothing_is_known() -> None:
    class Own(fl.ISRLDP):
        pass

    assert not response_module._known(Own(0.1))
    assert response_module._known(fl.ISRLDP(0.1))


@pytest.mark.parametrize(
    "given",
    [
        {"method": "ISRLDP", "step": "planned", "prior": "exact"},
        {"method": "DPFedAvg", "step": "planned", "local_steps": 2, "prior": {"norm": 2.0, "spectrum": 0.1}},
    ],
)
def test_steps_that_were_planned_by_a_prior(given: dict[str, Any]) -> None:
    assert response((found := read(problem(), given)).grounds[0], found.settings[0]) is not None


@pytest.mark.filterwarnings("ignore::fastldp.errors.StepWarning")
@pytest.mark.parametrize(
    ("given", "rounds"),
    [
        ({"method": "ISRLDP", "step": 30.0}, 3000),  # diverges without noise
        ({"method": "ISRLDP", "step": 10.0}, 3000),  # does not, but its first order does
        ({"method": "PrimalDual", "step": 1.5}, 5),  # whose floor is negative: the formula holds below 4/3
        ({"method": "PrimalDual", "step": 1.34}, 5),
    ],
)
def test_where_the_first_order_is_not_finite_there_is_no_luck(given: dict[str, Any], rounds: int) -> None:
    found = read(problem(), given, rounds=rounds)
    made = response(found.grounds[0], found.settings[0])
    assert made is None or (made.floor >= 0 and np.isfinite(lucks([made], keys(8))).all())
