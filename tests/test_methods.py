"""Methods of a user's own: those of the guide run from outside as ours do, are audited, and bad ones are refused."""

import importlib
import os
import pickle
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numba
import numpy as np
import pytest

import cases
import fastldp as fl
import naive
import sweeps
from fastldp.errors import ArgumentError, ExtensionError, GridEdgeWarning, SpecError
from fastldp.lanes import fma, load, mean_over_workers, prox, store
from fastldp.methods.base import View

BUDGET = fl.Budget(1.0, 1e-4)


def mine(name: str) -> Any:
    return getattr(importlib.import_module("mymethods"), name)


# The oracles of the guide's methods: recursions as their docstrings have them.


def heavy_ball(case: Any, deviations: Any, rounds: int, repetition: int, step: float, momentum: float) -> Any:
    n, x = len(case.shards), np.zeros((rounds + 1, case.problem.d))
    for t in range(rounds):
        total = np.zeros(case.problem.d)
        for i in range(n):
            at = naive.Address(4, repetition, i, t + 1, case.problem.d)
            weighted = case.loss, case.shards[i], x[t], 1.0, float(deviations[i]), at, True, np.inf
            total += naive.released_gradient(*weighted) / n
        last = x[max(t - 1, 0)]
        x[t + 1] = case.g.prox(x[t] - step * (total + case.l2 * x[t]) + momentum * (x[t] - last), step)
    return x[-1]


def anchored(case: Any, deviations: Any, rounds: int, repetition: int, step: float, steps: int, pull: float) -> Any:
    n, x = len(case.shards), np.zeros(case.problem.d)
    for t in range(rounds):
        ends = []
        for i in range(n):
            y = x
            for k in range(steps):
                at = naive.Address(4, repetition, i, t + 1, case.problem.d, k)
                weighted = case.loss, case.shards[i], y, 1.0, float(deviations[i]), at, True, np.inf
                y = y - step * (naive.released_gradient(*weighted) + case.l2 * y + pull * (y - x))
            ends.append(y)
        x = np.mean(ends, axis=0)
    return x


@pytest.mark.parametrize("repetitions", [1, *(pytest.param(count, marks=pytest.mark.thorough) for count in (3, 11))])
@pytest.mark.parametrize("layout", ["dense", pytest.param("csr", marks=pytest.mark.thorough)])
def test_the_guides_methods_are_their_oracles(layout: str, repetitions: int, outside: Path) -> None:
    """Alone in sample lanes, in a line of run lanes, and in two."""
    case = cases.make("box_l1", layout=layout)
    run = fl.solve(
        case.problem,
        BUDGET,
        rounds=9,
        algorithm=mine("HeavyBall")(0.2),
        repetitions=repetitions,
        seed=4,
        common_noise=True,
    )
    assert run.ledger is not None
    deviations = np.sqrt(np.broadcast_to(run.ledger.variances, (case.problem.n, 9)))[:, 0]
    reference = heavy_ball(case, deviations, 9, repetitions - 1, 0.2, 0.5)
    np.testing.assert_allclose(run.x[-1], reference, rtol=1e-9, atol=1e-10)
    smooth = cases.make("zero", layout=layout)
    run = fl.solve(
        smooth.problem,
        BUDGET,
        rounds=5,
        algorithm=mine("Anchored")(0.1, 3),
        repetitions=repetitions,
        seed=4,
        common_noise=True,
    )
    assert run.ledger is not None
    assert run.ledger.releases == 15
    deviations = np.sqrt(np.broadcast_to(run.ledger.variances, (smooth.problem.n, 15)))[:, 0]
    reference = anchored(smooth, deviations, 5, repetitions - 1, 0.1, 3, 0.1)
    np.testing.assert_allclose(run.x[-1], reference, rtol=1e-9, atol=1e-10)


@pytest.mark.thorough
def test_bits_depend_on_neither_packing_nor_threads_nor_precision_of_neighbours(outside: Path) -> None:
    problem = cases.make("box_l1").problem
    method = mine("HeavyBall")(0.2)
    given: dict[str, Any] = {"rounds": 30, "algorithm": method, "seed": 1}
    among = fl.solve(problem, BUDGET, repetitions=20, **given).x
    np.testing.assert_array_equal(among[:3], fl.solve(problem, BUDGET, repetitions=3, n_jobs=1, **given).x)
    in_single = cases.make("box_l1", dtype="float32").problem
    single = fl.solve(in_single, None, repetitions=3, rounds=30, algorithm=method).x
    np.testing.assert_allclose(single, fl.solve(problem, None, repetitions=3, rounds=30, algorithm=method).x, atol=1e-4)


@pytest.mark.parametrize("name", ["HeavyBall", pytest.param("Anchored", marks=pytest.mark.thorough)])
def test_they_are_tuned_audited_and_known_by_their_code(name: str, outside: Path) -> None:
    more = {} if name == "HeavyBall" else {"local_steps": 2}
    problem = cases.make("zero").problem
    with pytest.warns(GridEdgeWarning):  # of two steps either is an edge
        tuned = fl.tune(problem, BUDGET, fl.grid(mine(name), step=[0.05, 0.2], **more), rounds=20, seed=1)
    assert len(tuned.trials) == 2
    found = fl.audit(
        problem.replace(gradient_bound=1.0),
        fl.Budget(4.0, 1e-3),
        rounds=3,
        transcripts=3000,
        algorithm=mine(name)(0.1, **more),
    )
    assert found.passed, found.summary()
    assert f"{name}(step=0.1" in fl.solve(problem, rounds=5, algorithm=mine(name)(0.1, **more)).description


SWEEP = sweeps.spec('name = ["mymethods:HeavyBall", "ISRLDP"]\nstep = [0.1, 0.2]', rounds="20")


@pytest.mark.parametrize("backend", ["threads", pytest.param("loky", marks=pytest.mark.thorough), *sweeps.CLUSTERS])
def test_sweeps_know_them_on_every_backend(backend: str, outside: Path, tmp_path: Path) -> None:
    sweeps.run(SWEEP, tmp_path / "r.h5", backend=backend, n_jobs=2)
    found = fl.results(tmp_path / "r.h5")
    assert {run.outcome for run in found} == {"completed"}, [run.message for run in found]
    problem = fl.Problem(*sweeps.DATA["tiny"], workers=4, l2=0.1)
    own = [run for run in found if run.parameters["method"] == "mymethods:HeavyBall"]
    assert len(own) == 6
    for run in own:
        method = mine("HeavyBall")(run.parameters["step"])
        solved = fl.solve(problem, fl.Budget(4.0, 1e-3), rounds=20, algorithm=method, repetitions=3, seed=3)
        np.testing.assert_array_equal(run.x, solved.x[run.repetition])


EDITED = """
import numpy as np
import fastldp as fl
from fastldp.noise import identity
from edited import Mine
A = np.random.default_rng(0).standard_normal((40, 5))
problem = fl.Problem(A, np.sign(A[:, 0]), workers=2, l2=0.1)
run = fl.solve(problem, rounds=5, repetitions=2, algorithm=Mine(0.1))
print(repr(run.x[0, 0]), identity(problem, Mine(0.1), None, 5, np.zeros(5)).hex())
"""


@pytest.mark.thorough
def test_an_edited_method_never_runs_stale_code(tmp_path: Path) -> None:
    text = (
        "from dataclasses import dataclass\nimport fastldp as fl\n"
        "from fastldp.lanes import load, mean_over_workers, store\n"
        "@dataclass(frozen=True)\nclass Mine(fl.Method):\n    step: float\n    def serve(self, run):\n"
        "        for j in range(run.d):\n"
        "            h = mean_over_workers(run.release, j)\n"
        "            store(load(run.model, 0, j) - FACTOR * self.step * h, run.model, 0, j)\n"
    )
    printed = []
    for factor in ("1.0", "1.0", "2.0"):
        (tmp_path / "edited.py").write_text(text.replace("FACTOR", factor))
        path = os.pathsep.join([str(tmp_path), *sys.path])
        found = subprocess.run(
            [sys.executable, "-B", "-c", EDITED],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": path},
            cwd=tmp_path,
        )
        assert found.returncode == 0, found.stderr[-2000:]
        printed.append(found.stdout.split())
    assert printed[0] == printed[1]
    assert printed[0][0] != printed[2][0]
    assert printed[0][1] != printed[2][1]


# What is refused.


@dataclass(frozen=True)
class Descent(fl.Method):
    """Noisy gradient descent, for what follows to spoil."""

    step: float = 0.1

    def serve(self, run: Any) -> None:
        for j in range(run.d):
            x = load(run.model, 0, j)
            store(x - self.step * fma(run.l2, x, mean_over_workers(run.release, j)), run.model, 0, j)


@dataclass(frozen=True)
class Peeking(Descent):
    """Begins, in a number of its own, at the mean of the first worker's first feature: data past the release."""

    numbers: ClassVar[tuple[str, ...]] = "step", "peeked"

    def values(self, program: Any) -> dict[str, Any]:
        return {"peeked": float(program.problem.rows[:, 0].mean())}


@dataclass(frozen=True)
class OfWorkers(Descent):
    """The same, by a number of each worker."""

    of_workers: ClassVar[tuple[str, ...]] = ("peeked",)

    def values(self, program: Any) -> dict[str, Any]:
        problem = program.problem
        return {"peeked": np.add.reduceat(problem.rows[:, 0], problem.starts[:-1])}


@dataclass(frozen=True)
class Leaking(Descent):
    """Says that it releases twice as much noise as it does."""

    def outline(self, terms: Any, rounds: int) -> Any:
        made = super().outline(terms, rounds)
        complete = made.complete

        def quieter() -> Any:
            schedule = complete()
            schedule.deviations[...] *= 0.5
            return schedule

        object.__setattr__(made, "complete", quieter)
        return made


def audited(method: fl.Method) -> fl.Audit:
    problem = cases.make("zero").problem.replace(gradient_bound=1.0)
    return fl.audit(problem, fl.Budget(4.0, 1e-3), rounds=3, transcripts=2000, algorithm=method)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "said"),
    [
        (Peeking(), "(peeked): it reads data past the release"),
        (OfWorkers(), "(peeked): it reads data past the release"),
        (Leaking(), "of the claimed variance"),
    ],
)
def test_the_audit_catches_a_method_that_reads_data_or_saves_noise(method: fl.Method, said: str) -> None:
    assert audited(Descent()).passed
    found = audited(method)
    assert not found.passed
    assert any(said in finding for finding in found.findings)


def made_of(**parts: Any) -> Any:
    return dataclass(frozen=True)(type("Mine", (fl.Method,), {"__annotations__": {}, "__module__": __name__, **parts}))


def nothing(self: Any, run: Any) -> None: ...


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({}, r"it lacks serve: the server's step, def serve\(self, run\)"),
        ({"serve": nothing, "point": "Y"}, "'Y' is kept by nobody; name it in workers or server"),
        ({"serve": nothing, "begin": ("z",)}, "'z' is kept by nobody"),
        ({"serve": nothing, "sends": "release"}, "the server cannot send 'release'"),
        ({"serve": nothing, "workers": ("release", "noisy")}, "'noisy' is a name of two things"),
        ({"serve": nothing, "workers": ("release", "model"), "server": ("model",)}, "'model' is a name of two things"),
        ({"serve": nothing, "of_workers": ("n",)}, "'n' is a name of two things"),
        ({"serve": nothing, "numbers": ("a",), "of_rounds": ("a",)}, "'a' is a name of two things"),
        ({"serve": nothing, "workers": "M"}, "workers = 'M' must be a tuple of names"),
        ({"serve": nothing, "workers": ("M",)}, "it has no take, so releases are kept in 'release'"),
        ({"serve": nothing, "take": lambda self, run, k, i: None}, r"take\('run', 'k', 'i'\) must take self and"),
    ],
)
def test_a_method_that_lacks_something_is_refused_when_made(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(ExtensionError, match=said):
        made_of(**parts)()


def swapped(self: Any, run: Any) -> None:
    for j in range(run.d):
        store(0.5 * load(run.model, j, 0), run.model, j, 0)


def branching(self: Any, run: Any) -> None:
    if load(run.model, 0, 0) > 0.0:
        store(load(run.release, 0, 0), run.model, 0, 0)


def returning(self: Any, run: Any) -> Any:
    return 0.5 * load(run.model, 0, 0)


def of_numpy(self: Any, run: Any) -> None:
    store(np.tanh(load(run.model, 0, 0)), run.model, 0, 0)


def unknown_name(self: Any, run: Any) -> None:
    store(self.nowhere, run.model, 0, 0)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"serve": unknown_name},
            "a formula fails: AttributeError: .*'nowhere'; self has the fields of a frozen dataclass",
        ),
        ({"serve": swapped}, "a formula leaves its array: .* have the worker first, 0 for the server"),
        ({"serve": branching}, "a formula has an `if` on a value"),
        ({"serve": returning}, "serve returns a value, which nobody takes"),
        ({"serve": nothing}, "serve changes nothing of what the server keeps"),
        ({"serve": of_numpy}, "a formula cannot be compiled"),
        ({"serve": nothing, "of_workers": ("mine",)}, r"values\(\) must give 'mine', an array of the"),
        ({"serve": nothing, "of_rounds": ("a", "b")}, r"coefficients\(\) gave an array"),
        ({"serve": nothing, "numbers": ("mode",), "mode": "fast"}, "mode = 'fast' is no number"),
    ],
)
def test_a_method_that_does_not_fit_is_refused_before_the_first_round(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(ExtensionError, match=said):
        fl.solve(cases.make("zero").problem, rounds=3, repetitions=2, algorithm=made_of(**parts)())


@pytest.mark.parametrize(
    ("given", "said"), [({"step": 0.0}, "step"), ({"step": "planned"}, "step"), ({"step": np.nan}, "step")]
)
def test_parameters_with_known_names_are_checked(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        Descent(**given)


SCALES: dict[str, Any] = {
    "a number": lambda self, run: 0.5,
    "a whole number": lambda self, run: 1,
    "the step": lambda self, run: self.step,
    "a product": lambda self, run: self.step * run.local_steps,
    "a quotient": lambda self, run: self.step / (1 + run.round),
}
AS_NUMBERS: dict[str, Any] = {
    "a number": lambda t: 0.5,
    "a whole number": lambda t: 1.0,
    "the step": lambda t: 0.5,
    "a product": lambda t: 0.5,
    "a quotient": lambda t: 0.5 / (1 + t),
}


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("repetitions", [1, 3])
@pytest.mark.parametrize("kind", sorted(SCALES))
def test_a_prox_takes_a_scale_of_any_type(kind: str, repetitions: int, dtype: str) -> None:
    """What is called at an address would not notice a number of another type: every repetition is looked at."""
    scale = numba.njit(SCALES[kind])

    def serve(self: Any, run: Any) -> None:
        for j in range(run.d):
            x = load(run.model, 0, j)
            store(x - self.step * fma(run.l2, x, mean_over_workers(run.release, j)), run.model, 0, j)
        prox(run, run.model, 0, scale(self, run))

    case = cases.make("box_l1", dtype=dtype)
    method = made_of(serve=serve, step=0.5, numbers=("step",))()
    # Compiled functions cannot be tried in Python; that is what this is not about.
    type(method).try_formulas = lambda self, program: None
    x = np.zeros(case.problem.d)
    for t in range(1, 9):
        gradients = [naive.gradient(case.loss, *shard, x) for shard in case.shards]
        x = case.g.prox(x - 0.5 * (np.mean(gradients, axis=0) + case.l2 * x), AS_NUMBERS[kind](t))
    run = fl.solve(case.problem, rounds=8, repetitions=repetitions, algorithm=method)
    np.testing.assert_allclose(run.x, np.tile(x, (repetitions, 1)), atol=1e-12 if dtype == "float64" else 1e-5)


def test_a_prox_that_is_never_taken_is_missed() -> None:
    with pytest.raises(ExtensionError, match=r"no formula calls prox\(\), so g = BoxL1"):
        fl.solve(cases.make("box_l1").problem, rounds=3, algorithm=Descent())


def test_a_method_without_a_prox_is_refused_where_there_is_a_regularizer(outside: Path) -> None:
    with pytest.raises(ArgumentError, match="no proximal step"):
        fl.solve(cases.make("box_l1").problem, rounds=3, algorithm=mine("Anchored")(0.1, 2))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mymethods:Nothing", "cannot be imported"),
        ("mylosses:LogCosh", "no subclass of fastldp.Method"),
        ("HeavyBall", "use one of"),
    ],
)
def test_names_of_no_method(name: str, said: str, outside: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=said):
        sweeps.run(sweeps.spec(f'name = "{name}"\nstep = 0.1', rounds="20"), tmp_path / "r.h5")


def test_messages_of_their_own_need_a_read_back() -> None:
    class Hidden(Descent):
        def message(self, run: Any, i: Any, j: Any) -> Any:
            return 2.0 * load(run.noisy, j)

    problem = cases.make("zero").problem
    program = Hidden().schedule(problem, BUDGET, 3).program
    view = View(np.zeros((1, 3, problem.d)), np.zeros((1, 3, problem.d)), np.ones((1, 3)))
    with pytest.raises(NotImplementedError, match="Hidden sends messages of its own"):
        next(Hidden().read_back(program, 0, np.zeros(problem.d), view))


# What trials of others found.


@dataclass(frozen=True)
class Counting(Descent):
    """What workers receive counts by the round, in `run` and in a number of the round."""

    workers: ClassVar[tuple[str, ...]] = "release", "received"
    of_rounds: ClassVar[tuple[str, ...]] = ("number",)
    answer: ClassVar[str] = "received"

    def coefficients(self, program: Any, begin: int, end: int) -> Any:
        return np.arange(begin + 1.0, end + 1.0)[:, None]

    def receive(self: Any, run: Any, i: Any) -> None:
        store(10.0 * load(run.received, i, 0) + float(run.round) + 0.01 * self.number, run.received, i, 0)


def test_what_is_received_is_of_its_round_however_rounds_are_cut() -> None:
    problem = cases.make("zero").problem
    for record in (fl.Final(), fl.Every(1), fl.Every(2)):
        run = fl.solve(problem, rounds=5, repetitions=2, algorithm=Counting(), record=record)
        np.testing.assert_allclose(run.x[:, 0], 1.01 * 12345)


@dataclass(frozen=True)
class Divided(Descent):
    """Releases another multiple of its gradients, by a parameter."""

    scale: float = 1.0

    def divisors(self, problem: Any) -> Any:
        return super().divisors(problem) * self.scale


def test_runs_with_other_divisors_share_no_block() -> None:
    problem = cases.make("zero").problem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        both = fl.tune(problem, BUDGET, [Divided(0.3), Divided(0.3, 4.0)], rounds=20, seed=3)
        alone = fl.tune(problem, BUDGET, [Divided(0.3, 4.0)], rounds=20, seed=3)
    assert alone.trials[0].error in {trial.error for trial in both.trials}


@dataclass(frozen=True)
class Summing(Descent):
    """Sends the sum of all coordinates, in each of them."""

    def message(self: Any, run: Any, i: Any, j: Any) -> Any:
        total = load(run.noisy, 0)
        for c in range(1, run.d):
            total = total + load(run.noisy, c)
        return total


@pytest.mark.thorough
def test_messages_do_not_change_what_they_are_made_of() -> None:
    problem = cases.make("zero").problem
    sent, plain = (
        fl.solve(problem, rounds=3, repetitions=2, algorithm=method, record=[fl.Final(), fl.Messages(1)])
        for method in (Summing(), Descent())
    )
    assert sent.messages is not None
    assert plain.messages is not None
    np.testing.assert_allclose(sent.messages, np.repeat(plain.messages.sum(-1, keepdims=True), problem.d, axis=-1))
    np.testing.assert_array_equal(sent.x, plain.x)


@dataclass(frozen=True)
class Warm(Descent):
    """Keeps a number of the round; a round 0 has that of the first."""

    warm_start: bool = True
    numbers: ClassVar[tuple[str, ...]] = ("step",)
    of_rounds: ClassVar[tuple[str, ...]] = ("weight",)

    def coefficients(self, program: Any, begin: int, end: int) -> Any:
        return np.full((end - begin, 1), 7.0)

    def take(self: Any, run: Any, i: Any, k: Any) -> None:
        for j in range(run.d):
            store(load(run.noisy, j) * (self.weight / 7.0), run.release, i, j)

    def serve(self: Any, run: Any) -> None:
        store(self.weight, run.model, 0, 0)


@pytest.mark.thorough
def test_a_round_0_has_the_numbers_of_the_first_and_is_audited() -> None:
    problem = cases.make("zero").problem
    run = fl.solve(problem, BUDGET, rounds=3, algorithm=Warm(), repetitions=2, record=[fl.Final(), fl.Messages(0)])
    assert run.broadcasts is not None
    np.testing.assert_array_equal(run.broadcasts[:, :, 0], 7.0)
    assert audited(Warm()).passed


# Between processes.


def sent(thing: Any, edit: Any) -> Any:
    """What arrives of a thing in a process whose files are other ones."""
    data = pickle.dumps(thing)
    edit()
    sys.modules.pop("sentmethods", None)
    importlib.invalidate_caches()
    return pickle.loads(data)


def test_a_class_that_a_worker_cannot_import_or_has_another_under_its_name(tmp_path: Path, monkeypatch: Any) -> None:
    module, text = tmp_path / "sentmethods.py", cases.guide_modules()["mymethods"]
    module.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    def made() -> Any:
        return importlib.import_module("sentmethods").HeavyBall(0.2)

    method = made()
    again = sent(method, lambda: None)
    assert (again.step, again.momentum) == (0.2, 0.5)
    other = sent(again, lambda: module.write_text(text.replace("- self.step * h", "- 2.0 * self.step * h")))
    with pytest.raises(ExtensionError, match="sentmethods:HeavyBall: two classes have this name"):
        other.schedule(cases.make("zero").problem, None, 3)
    missing = sent(made(), module.unlink)
    with pytest.raises(ExtensionError, match="worker processes need its module on their path too"):
        missing.schedule(cases.make("zero").problem, None, 3)
