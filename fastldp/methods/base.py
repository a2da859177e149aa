"""What a method is: its parameters, what its noise needs, and what workers and server do with what is released."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError, ExtensionError
from fastldp.extending import Extensible, said_of
from fastldp.kernels.chacha import EARLY_COUNT
from fastldp.kernels.formulas import is_ours
from fastldp.kernels.methods import ACTS, COMMON, Names
from fastldp.kernels.mixing import Links
from fastldp.lanes import load, store
from fastldp.methods.clipping import AdaptiveClip, checked_clip
from fastldp.methods.planned import PLANNED, PLANS, checked_step
from fastldp.methods.sampling import checked_sampling
from fastldp.methods.schedule import Outline, Program, Schedule, Terms, fewest_rounds, static_outline
from fastldp.planning.plan import Way
from fastldp.privacy.budget import Budget
from fastldp.problems.composite import Composite
from fastldp.regularizers import Regularizer
from fastldp.topology import Graph, failures
from fastldp.validation import integer, real

Array = NDArray[np.float64]
# Of a release: where the gradient was taken, what was released, and the size of the numbers it was computed of.
Found = tuple[Array, Array, float]

# The noise is addressed by the local step in 32 bits, but for the numbers that counts and coins have.
MOST_LOCAL_STEPS = EARLY_COUNT
# More versions than a method will have.
EDITIONS = 1000
# Parameters that the engine reads, and formulas do not find in `self`.
NO_NUMBERS = ("local_steps", "clip", "prior", "topology", "failures", "sampling")


# What acts take, beside self.
ARGUMENTS = {
    "serve": ("run",),
    "aim": ("run",),
    "start": ("run", "i"),
    "receive": ("run", "i"),
    "tell": ("run", "i"),
    "take": ("run", "i", "k"),
    "message": ("run", "i", "j"),
}
# Parameters that are named only where they are given.
UNSAID = ("topology", "failures", "sampling")
# The sizes of the arrays that formulas of a class from outside are tried on.
TRIED_WORKERS, TRIED_COORDINATES, TRIED_RUNS = 2, 3, 2
# Classes that were, with and without a regularizer.
_TRIED: set[tuple[type, bool]] = set()
# Two workers, each the other's neighbour.
TRIED_LINKS = Links(
    np.arange(3), np.array([1, 0]), np.full(2, 0.5), np.zeros(2, np.int64), np.ones(1), np.zeros(1), np.zeros((0, 1))
)


class View(NamedTuple):
    """What the server saw of one worker, and answered: (transcripts, releases, d), (transcripts, broadcasts, d)."""

    messages: Array
    broadcasts: Array
    paces: Array
    """(transcripts, rounds): what the steps of each round are multiplied by; ones but where clipping adapts."""


class _Tried:
    """Stands for a regularizer, and knows whether its prox was taken."""

    used = False

    def prox(self, z: Array, scale: Any) -> Array:
        self.used = True
        return z


@dataclass(frozen=True, eq=False)
class Method(Extensible):
    """The base of all methods, ours and yours: a frozen dataclass of its parameters, and what happens in a round.

    In each round every worker releases `local_steps` noisy gradients, at the point that `point` names; each release is
    n wᵢ∇fᵢ without the l2 term, clipped, and accounted for by the engine. What the worker makes of it is `take`, and
    what the server makes of what workers keep is `serve`; both see releases and never data. These and the other acts
    are formulas, compiled: they are written with `fastldp.lanes`, and have no `if` on numbers of a run.

    A formula finds the parameters in `self`, each the number of its run. In `run` it finds what `workers` and `server`
    name, arrays run.name[i, j] and run.name[0, j] of d coordinates, and

    - ``run.noisy[j]``: the noisy gradient that was just released,
    - ``run.n``, ``run.d``, ``run.round`` (1 in the first), ``run.local_steps``,
    - ``run.l2`` and ``run.shares[i]``, n wᵢ; where not all workers take part in a round, of those who do, so that they
      sum to n, and 0 of the others; likewise ``run.parts[i]``, 1 where all take part,
    - ``run.public``: a whole number below 2²⁴, new in each round, that everybody knows, where `coins` is true,
    - ``run.pace``: what a planned step is to be multiplied by where clipping adapts, and 1 elsewhere,
    - ``run.unit``: what the noise is in units of: the threshold where that adapts, and 1 elsewhere.

    ``prox(run, array, i, scale)`` takes the prox of scale·g of a row; ``mean_over_workers(array, j)`` is what it says.

    With a field ``topology`` it runs on a graph where that is given, and with one ``failures`` some of its links are
    missing in each round: in `receive`, ``apart(run, run.name, i, out, row)`` then puts into out[row] how far worker i
    is from its neighbours, Σₖ Wᵢₖ (run.name[i] − run.name[k]), of arrays that `mixed` names, and ``mix`` what follows.
    Where no graph is given nobody has neighbours, and that is zero.

    Methods
    -------
    serve(run)
        The server's step, after the releases of all workers. It must be written; the others need not be.
    take(run, i, k)
        Worker i's step after release k of the round; it keeps the release in `run.release`.
    start(run, i)
        Before the releases of a round.
    receive(run, i)
        After the server's step.
    aim(run)
        The server's preparation of a round.
    message(run, i, j)
        Coordinate j of what worker i sends; the release.
    tell(run, i)
        Where workers are told different things: puts in place of what the server sends what worker i is told.
    """

    needed: ClassVar[dict[str, str]] = {"serve": "the server's step, def serve(self, run)"}
    version: ClassVar[int] = 1
    """Raised whenever the numbers of a run change, so that sweeps never mix old ones and new ones."""

    workers: ClassVar[tuple[str, ...]] = ("release",)
    """What each worker keeps: d numbers a name."""
    server: ClassVar[tuple[str, ...]] = ("model",)
    """What the server keeps, likewise."""
    begin: ClassVar[tuple[str, ...]] = ("model",)
    """What of it begins at x0; the rest begins at zero."""
    checkpoint: ClassVar[tuple[str, ...] | None] = None
    """What of it a run needs to go on after a round; all of it, where nothing is said."""
    of_workers: ClassVar[tuple[str, ...]] = ()
    """Further numbers of each worker, arrays run.name[i], of `values`."""
    of_rounds: ClassVar[tuple[str, ...]] = ()
    """Further numbers of each round, in `self`, of `coefficients`."""
    mixed: ClassVar[tuple[str, ...]] = ()
    """What of `workers` neighbours read on a graph, in `receive`; there ``run.next_name`` is that of the next round."""

    point: ClassVar[str] = "model"
    """Where gradients are taken."""
    answer: ClassVar[str] = "model"
    """What the run's model is."""
    sends: ClassVar[str] = "model"
    """What the server sends."""
    checked: ClassVar[str | None] = None
    """What is not finite where a run diverged: what the server sends, where nothing is said."""

    coins: ClassVar[bool] = False
    """Whether the server has a public random number in every round."""
    proximal: ClassVar[bool] = True
    """Whether it takes the prox of g; if not, it is refused where g is not zero."""
    feasible: ClassVar[bool] = True
    """Whether gradients are taken inside the set of g alone: workers of a federation refuse other points then."""
    in_part: ClassVar[bool] = False
    """Whether its server's step is about those who take part, where not all workers do: `run.shares`, `run.parts`."""
    least_workers: ClassVar[int] = 1
    """Where fewer would take part in a round, nobody does."""
    plans: ClassVar[bool] = False
    """Whether its step may be ``"planned"``: that of noisy gradient descent."""

    def __new__(cls, *args: Any, **given: Any) -> Any:
        made, kind = super().__new__(cls), cast("Any", cls)
        _check_class(kind)
        return made

    def __post_init__(self) -> None:
        own = {field.name: getattr(self, field.name) for field in fields(self)}

        def keep(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        if "step" in own and own["step"] is not None:
            remedy = "give a finite number > 0"
            keep("step", checked_step(own["step"]) if self.plans else real("step", own["step"], remedy, above=0))
        if own.get("clip") is not None:
            keep("clip", checked_clip(own["clip"]))
        if own.get("sampling") is not None:
            keep("sampling", checked_sampling(own["sampling"]))
        if own.get("topology") is not None:
            keep("topology", Graph.of(own["topology"]))
        if "failures" in own:
            keep("failures", failures(own["failures"]))
        over_links = bool(self.mixed) or getattr(self, "failures", None) is not None
        if getattr(self, "topology", None) == Graph.complete() and not over_links:
            keep("topology", None)  # this is what a server does
        # What was kept above, not what was given: words and rates are made into what they mean.
        clip, sampling = getattr(self, "clip", None), getattr(self, "sampling", None)
        among_neighbours = getattr(self, "topology", None) is not None
        if among_neighbours and isinstance(clip, AdaptiveClip):
            remedy = "a server adds up the counts that clipping adapts by, and there is none on a graph; give a number"
            raise ArgumentError("clip", own["clip"], remedy)
        if among_neighbours and sampling is not None and sampling.workers < 1:
            remedy = "on a graph all workers send in each round; failures= leaves links out"
            raise ArgumentError("sampling", own["sampling"], remedy)
        if getattr(self, "failures", None) is not None and getattr(self, "topology", None) is None:
            raise ArgumentError("failures", own["failures"], 'links are those of a graph; give topology="ring"')
        if "local_steps" in own:
            remedy = "give a whole number ≥ 1"
            keep(
                "local_steps", integer("local_steps", own["local_steps"], remedy, at_least=1, at_most=MOST_LOCAL_STEPS)
            )
        if "server_step" in own:
            keep("server_step", real("server_step", own["server_step"], "give a finite number > 0", above=0))

    @property
    def edition(self) -> int:
        """The version of all that the numbers of its runs follow from: its own, and that of plans where it has any."""
        words = getattr(self, "step", None), getattr(self, "allocation", None)
        planned = any(isinstance(word, str) and word == PLANNED for word in words)
        return self.version + (
            EDITIONS * PLANS if planned or isinstance(getattr(self, "clip", None), AdaptiveClip) else 0
        )

    @property
    def in_kernels(self) -> Method:
        """What workers and server do, as kernels know it."""
        return self

    @property
    def meets_in_part(self) -> bool:
        """Whether some workers send nothing in some rounds."""
        sampling = getattr(self, "sampling", None)
        return sampling is not None and sampling.absences

    @property
    def graph(self) -> Graph | None:
        """Whose messages workers mix; None where a server is between all."""
        found: Graph | None = getattr(self, "topology", None)
        return found

    def __repr__(self) -> str:
        """As it is called; what came later goes unsaid where it is not given."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        said = [f"{name}={value!r}" for name, value in given.items() if value is not None or name not in UNSAID]
        return f"{type(self).__qualname__}({', '.join(said)})"

    @classmethod
    def names(cls) -> Names:
        """What its formulas find in `self` and in `run`."""
        numbers = tuple(name for name in cls.fields().numbers if name not in NO_NUMBERS)
        return Names(numbers, cls.of_rounds, cls.of_workers, cls.workers, cls.server, cls.mixed)

    @classmethod
    def does(cls) -> int:
        """Which acts are its own, and must be called."""
        always = ACTS["take"] | ACTS["serve"]
        return always | sum(bit for name, bit in ACTS.items() if not (bit & always or cls.inherits(name)))

    @classmethod
    def inherits(cls, act: str) -> bool:
        """Whether an act is that of all methods."""
        return getattr(cls, act) is getattr(Method, act)

    # What the noise needs.
    def divisors(self, problem: Composite) -> Array:
        """(n,): what a release divides the sum of a worker's gradients by; so that it is n wᵢ∇fᵢ, by default."""
        return np.asarray(problem.divisors / problem.n)

    def server_shares(self, problem: Composite) -> Array:
        """(n,): what the server multiplies each worker's by before it takes the mean: 1 where releases are weighted."""
        return np.ones(problem.n)

    def way(self, problem: Composite) -> Way:
        """How the average model descends by releases, for a plan."""
        return Way(
            parts=1,
            shares=self.server_shares(problem),
            local_steps=int(getattr(self, "local_steps", 1)),
            server_step=float(getattr(self, "server_step", 1.0)),
            early_releases=int(getattr(self, "local_steps", 1)) if getattr(self, "warm_start", False) else 0,
        )

    def planned_rounds(self, problem: Composite, budget: Budget) -> int:
        """The fewest rounds with the least error to expect, where the step is planned."""
        if not self.plans or getattr(self, "step", None) != PLANNED:
            remedy = (
                f'rounds are planned with a step; give {type(self).__name__}(step="planned"), or a number of rounds'
            )
            raise ArgumentError("rounds", PLANNED, remedy if self.plans else "give a number: nothing plans this method")
        return fewest_rounds(self, Terms(problem, budget))

    def schedule(self, problem: Composite, budget: Budget | None, rounds: int) -> Schedule:
        """The step and the noise of every round."""
        integer("rounds", rounds, "give a whole number ≥ 1", at_least=1)
        return self.outline(Terms(problem, budget), rounds).complete()

    def outline(self, terms: Terms, rounds: int) -> Outline:
        """All that can be refused before the noise of the rounds is computed, and how to compute it.

        By default all releases have the same noise: σ² = 2C² releases/(ρ mᵢ²), for the sensitivity 2C/mᵢ of means.
        """
        if not (self.proximal or terms.problem.regularizer.smooth):
            raise ArgumentError(
                "algorithm",
                type(self).__name__,
                f"it has no proximal step, so it cannot handle g = {terms.problem.regularizer}; "
                "use PrimalDual(), ISRLDP or DPScaffNew, or a problem with regularizer=Zero()",
            )
        return static_outline(self, terms, rounds)

    # What its formulas find.
    def values(self, program: Program) -> dict[str, Any]:
        """The numbers of a run that are not parameters as they are, and those of each worker: (n,)."""
        return {}

    def coefficients(self, program: Program, begin: int, end: int) -> Array:
        """(rounds, names): the numbers `of_rounds` of the rounds begin + 1 to end."""
        return np.zeros((end - begin, 0))

    def numbers_of(self, program: Program) -> dict[str, float]:
        """The numbers that formulas find in `self`, but for those of rounds."""
        values = self.values(program) | {"step": program.step}
        found = {name: values.get(name, getattr(self, name, None)) for name in self.names().numbers}
        for name, value in found.items():
            if not isinstance(value, float | int | np.number):
                raise ExtensionError(
                    type(self), f"{name} = {value!r} is no number; numbers = (...) names those that are"
                )
        return {name: float(value) for name, value in found.items()}  # type: ignore[arg-type]

    def worker_numbers_of(self, program: Program) -> Array:
        """(names, n): those that formulas find in `run`, of each worker."""
        values, n = self.values(program), program.problem.n
        for name in self.of_workers:
            if np.shape(values.get(name, 0)) != (n,):
                raise ExtensionError(type(self), f"values() must give {name!r}, an array of the {n} workers' numbers")
        return np.array([values[name] for name in self.of_workers]).reshape(-1, n)

    def round_numbers_of(self, program: Program, begin: int, end: int) -> Array:
        """(rounds, names): what `coefficients` gives, if it is of this shape."""
        found = np.asarray(self.coefficients(program, begin, end), dtype=np.float64)
        if found.shape != (end - begin, len(self.of_rounds)):
            shape = f"({end - begin}, {len(self.of_rounds)})"
            raise ExtensionError(type(self), f"coefficients() gave an array {found.shape} where {shape} is needed")
        return found

    def regularizer(self, program: Program) -> Regularizer:
        """The regularizer whose prox formulas take, at the scale that they give."""
        return program.problem.regularizer

    def try_formulas(self, program: Program) -> None:
        """Refuse a class from outside whose formulas leave their arrays, or do nothing: kernels would not notice."""
        about = type(self), program.problem.regularizer.smooth
        if is_ours(type(self)) or about in _TRIED:
            return
        rng, runs = np.random.default_rng(0), TRIED_RUNS
        of_workers = (TRIED_WORKERS, TRIED_COORDINATES, runs)
        kept = {name: rng.uniform(0.5, 1.5, of_workers) for name in self.workers}
        kept |= {f"next_{name}": rng.uniform(0.5, 1.5, of_workers) for name in self.mixed}
        kept |= {name: rng.uniform(0.5, 1.5, (1, *of_workers[1:])) for name in self.server}
        numbers = {name: np.full(runs, value) for name, value in self.numbers_of(program).items()}
        rounds = self.round_numbers_of(program, 0, 1)[0]
        me: Any = SimpleNamespace(
            **numbers, **{name: np.full(runs, rounds[k]) for k, name in enumerate(self.of_rounds)}
        )
        tried = _Tried()
        run = SimpleNamespace(
            **kept,
            **{name: np.ones((TRIED_WORKERS, runs)) for name in self.of_workers},
            links=TRIED_LINKS,
            noisy=rng.uniform(0.5, 1.5, of_workers[1:]),
            n=TRIED_WORKERS,
            d=TRIED_COORDINATES,
            round=1,
            local_steps=1,
            public=np.zeros(runs),
            pace=np.ones(runs),
            unit=np.ones(runs),
            l2=np.full(runs, 0.1),
            shares=np.ones((TRIED_WORKERS, runs)),
            parts=np.ones((TRIED_WORKERS, runs)),
            objective=tried,
        )
        before = {name: array.copy() for name, array in kept.items()}
        with said_of(type(self)), np.errstate(all="ignore"):
            given = {"start": (1,), "take": (1, 0), "receive": (1,), "tell": (1,)}
            for act in ("aim", "start", "take", "serve", "receive", "tell"):
                if getattr(type(self), act)(me, run, *given.get(act, ())) is not None:
                    raise ExtensionError(type(self), f"{act} returns a value, which nobody takes; store() it")
            type(self).message(me, run, 1, 0)
        if self.graph is None and all(np.array_equal(before[name], kept[name]) for name in self.server):
            raise ExtensionError(type(self), "serve changes nothing of what the server keeps; store() its result")
        g = program.problem.regularizer
        if self.proximal and not tried.used and not g.smooth:
            raise ExtensionError(type(self), f"no formula calls prox(), so g = {g} is left out; say proximal = False")
        _TRIED.add(about)

    # Acts: formulas, which kernels call.
    def start(self, run: Any, i: Any) -> None:
        """Nothing before a round."""

    def take(self, run: Any, i: Any, k: Any) -> None:
        """Worker i's step after release k of the round; by default it keeps the release."""
        for j in range(run.d):
            store(load(run.noisy, j), run.release, i, j)

    def message(self, run: Any, i: Any, j: Any) -> Any:
        """Coordinate j of what worker i sends; by default the release."""
        return load(run.noisy, j)

    def receive(self, run: Any, i: Any) -> None:
        """Nothing after one."""

    def aim(self, run: Any) -> None:
        """Nothing to prepare."""

    def tell(self, run: Any, i: Any) -> None:
        """All are told the same."""

    # The audit.
    def read_back(self, program: Program, worker: int, start: Array, view: View) -> Iterator[Found]:
        """Of every release, where the gradient was taken and what was released, by what the server saw.

        By default the worker's formulas are followed in Python, of what it released and was sent. A method whose
        `message` is another than the release, or whose workers make use of more than what the server sends, needs its
        own.
        """
        if not self.inherits("message"):
            raise NotImplementedError(f"{type(self).__name__} sends messages of its own, and has no read_back of them")
        if self.graph is not None:
            raise NotImplementedError(f"{type(self).__name__} mixes neighbours' messages, and has no read_back of them")
        if self.coins or (self.point in self.server and self.point != self.sends):
            raise NotImplementedError(f"{type(self).__name__} aims by more than it sends, and has no read_back of it")
        me, run = self._replayed(program, worker, start, len(view.messages))
        points, sent = getattr(run, self.point), getattr(run, self.sends)
        early, steps, answers = program.warm_start, program.local_steps, view.broadcasts.shape[1]
        numbers = self.round_numbers_of(program, 0, answers)
        for now in range(answers):
            run.round = now + 1 - early
            run.pace = view.paces[:, max(now - early, 0)]
            me.__dict__.update(zip(self.of_rounds, numbers[max(now - early, 0)], strict=True))
            # What the server prepares for a round is kept as what it sent in it, and else after it.
            if not self.inherits("aim"):
                sent[0] = view.broadcasts[:, now].T
            type(self).start(me, run, 0)
            for k in range(steps):
                released = view.messages[:, now * steps + k]
                yield points[0].T.copy(), released, 0.0
                run.noisy[...] = released.T
                type(self).take(me, run, 0, k)
            sent[0] = view.broadcasts[:, now].T
            type(self).receive(me, run, 0)

    def _replayed(self, program: Program, worker: int, start: Array, transcripts: int) -> tuple[Any, Any]:
        """`self` and `run` of formulas in Python, for one worker, with transcripts in place of runs."""
        problem, of_workers = program.problem, self.worker_numbers_of(program)
        kept = {name: np.zeros((1, problem.d, transcripts)) for name in (*self.workers, *self.server)}
        for name in self.begin:
            kept[name][0] = start[:, None]
        run = SimpleNamespace(
            **kept,
            **{name: np.full((1, transcripts), of_workers[k, worker]) for k, name in enumerate(self.of_workers)},
            noisy=np.zeros((problem.d, transcripts)),
            n=problem.n,
            d=problem.d,
            round=0,
            local_steps=program.local_steps,
            pace=np.ones(transcripts),
            unit=np.ones(transcripts),
            l2=problem.l2,
            shares=problem.shares[worker : worker + 1],
            objective=self.regularizer(program),
        )
        return SimpleNamespace(**self.numbers_of(program)), run


@cache  # grids have many methods of a class
def _check_class(cls: Any) -> None:
    """Refuse a class whose parts contradict each other."""
    for name in ("workers", "server", "begin", "of_workers", "of_rounds", "mixed"):
        if not isinstance(getattr(cls, name), tuple):
            raise ExtensionError(cls, f"{name} = {getattr(cls, name)!r} must be a tuple of names, such as ('a',)")
    for name, arguments in ARGUMENTS.items():
        own = tuple(inspect.signature(getattr(cls, name)).parameters)[1:]
        if own != arguments:
            raise ExtensionError(cls, f"{name}{own} must take self and {arguments}, in this order")
    if cls.inherits("take") and "release" not in cls.workers:
        raise ExtensionError(cls, "it has no take, so releases are kept in 'release': name that in workers too")
    kept, known = (*cls.workers, *cls.server), (*COMMON, *cls.names().of_workers)
    for name in (*cls.begin, *(cls.checkpoint or ()), cls.point, cls.answer, cls.sends, cls.checked or cls.sends):
        if name not in kept:
            raise ExtensionError(cls, f"{name!r} is kept by nobody; name it in workers or server, which have {kept}")
    if cls.sends not in cls.server:
        raise ExtensionError(cls, f"the server cannot send {cls.sends!r}, which is not in server = {cls.server}")
    for name in cls.mixed:
        if name not in cls.workers:
            raise ExtensionError(cls, f"{name!r} is kept by no worker; name it in workers, which has {cls.workers}")
        if name == cls.checked:
            raise ExtensionError(
                cls, f"{name!r} is mixed, and others may write it while it is looked at; check another"
            )
    for names in ((*kept, *known), (*cls.names().numbers, *cls.of_rounds)):
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ExtensionError(cls, f"{twice[0]!r} is a name of two things; one of them needs another")
