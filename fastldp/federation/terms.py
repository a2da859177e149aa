"""Terms: all that is public of a training, agreed before it begins, and known by a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp import losses, methods, regularizers
from fastldp.describing import canonical
from fastldp.errors import ArgumentError, BudgetError, FileFormatError
from fastldp.extending import code_of, name_of
from fastldp.federation.agreed import Agreed
from fastldp.kernels.chacha import key_of
from fastldp.kernels.formulas import is_ours
from fastldp.losses import Loss, as_loss
from fastldp.methods import Method, PrimalDual, Schedule
from fastldp.methods.planned import PLANNED
from fastldp.privacy.budget import Budget
from fastldp.privacy.ledger import Ledger
from fastldp.privacy.sampler import VERSION as SAMPLER
from fastldp.problems.composite import Composite
from fastldp.problems.linear import Problem
from fastldp.problems.prior import Prior
from fastldp.problems.weighting import UNIFORM
from fastldp.regularizers import Regularizer
from fastldp.solve import FEWER_ROUNDS, MOST_ROUNDS, planned_method, starting_point
from fastldp.validation import integer, whole_numbers

Array = NDArray[np.float64]

FORMAT = 1
"""Of the text, and of what noise is addressed by."""
# Parameters that came after the format: they stand where they are given.
LATER = ("sampling", "topology", "failures")
# What gradients are divided by is at most so much: doubles hold all whole numbers up to there.
MOST_ROWS = 2**53
# What terms may be made of, by the name that stands in them.
CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *methods.METHODS,
        methods.AdaptiveClip,
        methods.Sampling,
        Prior,
        *(getattr(regularizers, name) for name in regularizers.__all__),
        *(losses.Logistic, losses.Squared, losses.Huber, losses.SmoothedHinge),
    )
}


@dataclass(frozen=True, eq=False)
class Terms:
    """What all parties of a training agree on: every number of it is public.

    From these alone the server knows what to ask, and each worker what noise it adds and what that spends. Whatever a
    simulation would read off the data has to be given: a bound on gradients, by `row_bound`, `gradient_bound` or the
    method's `clip`, and the step.

    Parameters
    ----------
    sizes : array of int of shape (n,)
        The rows of each worker.
    dimension : int
        d, their features.
    budget : Budget
        What this training promises each worker.
    rounds : int or str
        The horizon T, or ``"planned"``.
    algorithm : Method, optional
        As of `solve`: `PrimalDual()`, or where rounds are planned the one that needs no tuning.
    loss : str or Loss
        As of `Problem`, as are the five that follow.
    l2 : float
        The weight of ½‖x‖².
    regularizer : Regularizer, optional
        g.
    row_bound : float, optional
        What each worker scales longer rows down to.
    gradient_bound : float or str, optional
        What each sample's gradient is clipped to.
    weighting : str
        ``"uniform"`` or ``"rows"``.
    x0 : array of shape (d,), optional
        The start.
    name : str
        Of the training: two trainings on the same terms have different names.

    Examples
    --------
    >>> import fastldp as fl
    >>> terms = Terms([100, 120], 5, fl.Budget(1.0, 1e-4), 50, l2=0.1, row_bound=1.0)
    >>> terms.n, Terms.from_json(terms.to_json()) == terms
    (2, True)
    """

    sizes: NDArray[np.int64]
    dimension: int
    budget: Budget
    rounds: int | str = PLANNED
    algorithm: Method | None = None
    loss: Loss | str = "logistic"
    l2: float = 0.0
    regularizer: Regularizer | None = None
    row_bound: float | None = None
    gradient_bound: float | str | None = None
    weighting: str = UNIFORM
    x0: ArrayLike | None = None
    name: str = ""

    def __post_init__(self) -> None:
        def keep(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        remedy = "give a whole number ≥ 1 for each worker"
        sizes = whole_numbers("sizes", self.sizes, np.size(np.asarray(self.sizes, dtype=object)), remedy)
        if sizes.size == 0 or sizes.min() < 1:
            raise ArgumentError("sizes", self.sizes, remedy)
        if sizes.size * sum(sizes.tolist()) > MOST_ROWS:
            raise ArgumentError("sizes", self.sizes, f"workers times rows exceed {MOST_ROWS:,}, and are not exact")
        sizes.setflags(write=False)
        keep("sizes", sizes)
        keep("dimension", integer("dimension", self.dimension, "give a whole number ≥ 1", at_least=1))
        if not isinstance(self.budget, Budget):
            raise ArgumentError("budget", self.budget, "give a Budget(epsilon, delta): what this training promises")
        if not isinstance(self.name, str):
            raise ArgumentError("name", self.name, "give a text")
        keep("loss", as_loss(self.loss))
        if isinstance(self.algorithm, Method) and self.algorithm.meets_in_part:
            remedy = 'nobody sends nothing on purpose; give choice="secret", or samples= alone'
            raise ArgumentError("algorithm", self.algorithm, remedy)
        if self.algorithm is None:
            keep("algorithm", planned_method() if isinstance(self.rounds, str) else PrimalDual())
        if not isinstance(self.algorithm, Method):
            remedy = "give an instance such as PrimalDual() or ISRLDP(step=0.5)"
            raise ArgumentError("algorithm", self.algorithm, remedy)
        if self.algorithm.graph is not None:
            remedy = "a federation has a server, which hears all workers; leave topology= out, or simulate it"
            raise ArgumentError("topology", self.algorithm.graph, remedy)
        if isinstance(self.rounds, str):
            if self.rounds != PLANNED:
                raise ArgumentError("rounds", self.rounds, f'give a whole number ≥ 1, or "{PLANNED}"')
            keep("rounds", self.algorithm.planned_rounds(self.problem, self.budget))
        keep("rounds", integer("rounds", self.rounds, FEWER_ROUNDS, at_least=1, at_most=MOST_ROUNDS))
        keep("x0", starting_point(self.problem, self.x0))
        if self.ledger.amplified:  # and what else is refused, is now
            remedy = "workers account for every answer by its ρ, which nothing amplifies; give another, such as"
            raise ArgumentError("accounting", self.budget.accounting, f'{remedy} "gdp", or leave sampling= out')
        _ = self.digest

    @classmethod
    def of(
        cls,
        problem: Composite,
        budget: Budget,
        rounds: int | str = PLANNED,
        algorithm: Method | None = None,
        *,
        x0: ArrayLike | None = None,
        name: str = "",
    ) -> Terms:
        """Those of a simulation, as far as its numbers are public; refused where it reads more off the data."""
        if not isinstance(problem, Problem):
            raise ArgumentError("problem", problem, "give a fastldp.Problem: federations of networks are not supported")
        if problem.dtype != "float64":
            raise ArgumentError("dtype", problem.dtype, "float32 is off the grid, for exploration; give float64")
        return cls(
            problem.sizes,
            problem.d,
            budget,
            rounds,
            algorithm,
            problem.loss,
            problem.l2,
            problem.regularizer,
            problem.row_bound,
            problem._given_bound,
            problem.weighting,
            x0,
            name,
        )

    @property
    def n(self) -> int:
        """How many workers there are."""
        return int(self.sizes.size)

    @property
    def method(self) -> Method:
        """The algorithm."""
        return cast("Method", self.algorithm)

    @property
    def horizon(self) -> int:
        """T."""
        return cast("int", self.rounds)

    @property
    def start(self) -> Array:
        """Where models begin."""
        return cast("Array", self.x0)

    @cached_property
    def problem(self) -> Agreed:
        """The problem without its data."""
        return Agreed(
            self.sizes,
            self.dimension,
            loss=cast("Loss", self.loss),
            l2=self.l2,
            regularizer=self.regularizer,
            row_bound=self.row_bound,
            gradient_bound=self.gradient_bound,
            weighting=self.weighting,
        )

    @cached_property
    def schedule(self) -> Schedule:
        """The step and the noise of every round; each party computes them for itself."""
        found = self.method.schedule(self.problem, self.budget, self.horizon)
        assert found.ledger is not None  # there is a budget
        if found.ledger.read_off_data:
            remedy = "a simulation would read it off the data, and nobody has all of these: give a public number"
            raise ArgumentError(
                "algorithm", self.algorithm, f"{found.ledger.read_off_data}: {remedy}, or another allocation"
            )
        if found.ledger.total_delta > found.ledger.delta:
            remedy = "the sampler takes too much of it for so many releases; promise a larger δ, or more rounds"
            raise BudgetError("budget", self.budget, remedy)
        return found

    @property
    def ledger(self) -> Ledger:
        """What this training promises, and spends of it once all rounds were answered."""
        return cast("Ledger", self.schedule.ledger)

    @property
    def first(self) -> int:
        """The number of the first round: 1, or 0 for a warm start, or below that for counts before the first round."""
        adapting = self.schedule.adapting
        early = 0 if adapting is None else adapting.early_gains.size
        return -early if early else 1 - self.schedule.program.warm_start

    def following(self, round_: int) -> int:
        """The round after one."""
        after = round_ + 1
        return 1 if after == 0 and not self.schedule.program.warm_start else after

    def has(self, round_: int) -> bool:
        """Whether there is such a round."""
        return self.first <= round_ <= self.horizon and (round_ != 0 or self.schedule.program.warm_start)

    def counts(self, round_: int) -> bool:
        """Whether workers release a count in it."""
        adapting = self.schedule.adapting
        return adapting is not None and (round_ < 0 or (round_ > 0 and adapting.gains[round_ - 1] > 0))

    def releases(self, round_: int) -> int:
        """How many noisy gradients a worker releases in it."""
        return 0 if round_ < 0 else self.schedule.program.local_steps

    def deviation(self, round_: int, worker: int) -> float:
        """σ of these, where clipping adapts in units of the threshold."""
        return float(self.schedule.deviations[max(round_, 1) - 1] * self.schedule.factors[worker])

    # As text.

    @cached_property
    def _document(self) -> dict[str, Any]:
        own = {field.name: _plain(field.name, getattr(self, field.name)) for field in fields(self)}
        versions = [FORMAT, SAMPLER, self.method.edition]
        return {"fastldp": versions, **own}

    @cached_property
    def digest(self) -> str:
        """What terms are known by: equal terms have the same, and classes from outside the same code too."""
        outside = [thing for thing in (self.algorithm, self.loss, self.regularizer) if not is_ours(type(thing))]
        code = [code_of(type(thing)) for thing in outside if thing is not None]
        return hashlib.sha256(canonical([self._document, code]).encode()).hexdigest()

    def to_json(self) -> str:
        """As text, for whoever takes part."""
        return json.dumps(self._document | {"digest": self.digest}, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, classes: Iterable[type] = ()) -> Terms:
        """Terms from what `to_json` gave; `classes` from outside must be handed in: no text makes this import any."""
        try:
            document = json.loads(text)
            digest, versions = document.pop("digest"), document.pop("fastldp")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise FileFormatError(f"these are no terms: {error}") from None
        if not isinstance(versions, list) or versions[:2] != [FORMAT, SAMPLER]:
            raise FileFormatError(f"terms of another version, {versions}, where this is [{FORMAT}, {SAMPLER}]")
        known = CLASSES | {name_of(kind): kind for kind in classes}
        given = {name: _made(value, known) for name, value in document.items()}
        own = {field.name for field in fields(cls)}
        if set(given) != own:
            raise FileFormatError(f"these are no terms: they have {sorted(given)} where {sorted(own)} are needed")
        made = cls(**given)
        if made.digest != digest:
            remedy = "the text was changed, or a class from outside has other code here: ask for them again"
            raise FileFormatError(f"terms whose digest is {made.digest[:16]} and not {str(digest)[:16]}: {remedy}")
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Terms) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def _plain(name: str, value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if is_dataclass(value):
        kind = type(value)
        if not (issubclass(kind, Method | Regularizer | Loss | Budget) or CLASSES.get(kind.__name__) is kind):
            raise ArgumentError(name, value, "terms cannot hold it; give numbers, arrays, or a class of methods")
        own = {field.name: _plain(field.name, getattr(value, field.name)) for field in fields(value)}
        own = {name: part for name, part in own.items() if not (part is None and name in LATER)}
        return {"class": name_of(kind), **own}
    if isinstance(value, Method | Regularizer | Loss):
        return {"class": name_of(type(value))}
    if isinstance(value, list | tuple):
        return {"array": np.asarray(value, dtype=np.float64).tolist()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ArgumentError(name, value, "terms cannot hold it")


def _made(value: Any, known: dict[str, type]) -> Any:
    """The inverse."""
    if not isinstance(value, dict):
        return value
    if set(value) == {"array"}:
        return np.array(value["array"])
    name = value.get("class")
    if name == Budget.__name__:
        kind: Any = Budget
    elif isinstance(name, str) and name in known:
        kind = known[name]
    else:
        remedy = "terms name no class that is known here; hand it in: Terms.from_json(text, classes=(MyMethod,))"
        raise ArgumentError("classes", name, remedy)
    try:
        return kind(**{field: _made(part, known) for field, part in value.items() if field != "class"})
    except TypeError as error:
        raise FileFormatError(f"terms in which {name} is not as it is here: {error}") from None


def common_key(seed: int) -> bytes:
    """The key of the first repetition of ``solve(..., seed=seed, common_noise=True)``, for proofs that nothing differs.

    Parameters
    ----------
    seed : int
        As of `solve`.

    Returns
    -------
    bytes
        32 of them, for ``Worker(key=...)`` and ``Server(coins=...)``.

    Examples
    --------
    >>> len(common_key(0))
    32
    """
    return key_of(seed, 0, b"").tobytes()
