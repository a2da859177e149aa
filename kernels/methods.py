# mypy: allow-untyped-calls
"""What a method does in a round, compiled by itself and called at an address, as formulas of losses are.

The loop over rounds knows no method: it makes the releases, and asks the method to act on them. All acts of a method
are one function of one signature. So the loop is compiled once for all methods, and one from outside is as fast.
"""

from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numba.extending import models, overload, register_model
from numpy.typing import NDArray

from fastldp.kernels.attendance import Attendance
from fastldp.kernels.calling import Piece, Placed, call, found, likeness, once
from fastldp.kernels.formulas import Formulas, Objective, is_ours, tuple_of
from fastldp.kernels.jit import formula, own_formula
from fastldp.kernels.mixing import Links
from fastldp.kernels.simd import fma, load, store

Floats = NDArray[np.floating[Any]]

# What a method may be asked to do. It says which of these it does.
START, TAKE, MESSAGE, RECEIVE, SERVE, AIM, TELL = (1 << k for k in range(7))
ACTS = {"start": START, "take": TAKE, "message": MESSAGE, "receive": RECEIVE, "serve": SERVE, "aim": AIM, "tell": TELL}


class Method(NamedTuple):
    """The numbers of a method's runs, and where its acts are compiled."""

    acts: int  # their address
    does: int  # which of them there are
    local_steps: int  # the releases of a round
    numbers: Floats  # (fields, lanes): of a run
    of_rounds: Floats  # (rounds of the call, fields, lanes): of each round
    of_workers: Floats  # (fields, n, lanes): of each worker
    paces: Floats  # (rounds of the call + 1, lanes): what steps are multiplied by; 1 where none adapts
    unit: Floats  # (1, lanes): what variances are in the square of, see `Release`
    l2: Floats  # (1, lanes)
    shares: Floats  # (n, lanes): n wᵢ; where not all take part, of those who do
    links: Links  # between workers, where no server is
    attendance: Attendance  # who takes part in a round, where not all do


class State(NamedTuple):
    """Everything a block of runs is, between calls: what workers and server keep. The rest is views, and scratch."""

    workers: Floats  # (fields, n, d, lanes); what neighbours read has two rows, of odd and of even rounds
    server: Floats  # (fields, 1, d, lanes)
    points: Floats  # (n, d, lanes) or (1, d, lanes), of these: where gradients are taken; both rows of what has two
    models: Floats  # (1, n, d, lanes) or (1, 1, d, lanes): what is measured; or (2, n, d, lanes) of what has two rows
    sent: Floats  # (1, d, lanes), of these: what the server sends
    checked: Floats  # (1, d, lanes) or (n, d, lanes), of these: what must stay finite
    public: Floats  # (1, lanes): a whole number below 2²⁴ of the last round, that all may know
    gradient: Floats  # of each share of the workers (see `gradient.Scratch`): the sum, and then the release
    scaled: Floats
    inside: Floats
    failed: NDArray[np.int64]  # (lanes,): the first round in which something was not finite, or 0


class Names(NamedTuple):
    """What formulas find in `self`, the first two, and in `run`: each a row of an array of `Method` or `State`."""

    numbers: tuple[str, ...] = ()
    of_rounds: tuple[str, ...] = ()
    of_workers: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    mixed: tuple[str, ...] = ()  # of `workers`: what neighbours read


def rows_of(workers: tuple[str, ...], mixed: tuple[str, ...]) -> dict[str, int]:
    """Where in `State.workers` lies what workers keep, and last how many rows there are.

    >>> rows_of(("X", "message", "dual"), ("message",))
    {'X': 0, 'message': 1, 'dual': 3, '': 4}
    """
    sizes = [2 if name in mixed else 1 for name in workers]
    return dict(zip((*workers, ""), accumulate(sizes, initial=0), strict=True))


# What `run` has for all methods.
COMMON = {
    "noisy": "row(state.gradient, share)",
    "n": "state.workers.shape[1]",
    "d": "state.workers.shape[2]",
    "round": "t",
    "local_steps": "method.local_steps",
    "public": "load(state.public, 0)",
    "pace": "load(method.paces, now)",
    "unit": "load(method.unit, 0)",
    "l2": "load(method.l2, 0)",
    "shares": "method.shares",
    "objective": "objective",
    "links": "method.links",
    "parts": "method.attendance.parts",
    "all_shares": "method.attendance.shares",
}


class Acts(Placed):
    """The Numba type that stands for a class of methods, and for what lies where its acts are called."""

    def __init__(self, owner: type, block: types.Type) -> None:
        self.formulas = Formulas(owner)
        super().__init__(block, f"Acts({self.formulas.name}, {block.name})")

    @property
    def key(self) -> Any:
        return self.formulas, self.block


register_model(Acts)(models.OpaqueModel)


@cache
def _self_and_run(names: Names) -> tuple[Any, Any]:
    """What formulas call `self` and `run`, as formulas of a block."""
    mine = {name: f"load(method.numbers, {k})" for k, name in enumerate(names.numbers)}
    mine |= {name: f"load(method.of_rounds, now, {k})" for k, name in enumerate(names.of_rounds)}
    rows = rows_of(names.workers, names.mixed)
    # What neighbours read of a round, others may replace by that of the next meanwhile: there are two, in turns.
    turns = {name: " + (t & 1)" if name in names.mixed else "" for name in names.workers}
    kept = {name: f"row(state.workers, {rows[name]}{turns[name]})" for name in names.workers}
    kept |= {f"next_{name}": f"row(state.workers, {rows[name]} + (t + 1 & 1))" for name in names.mixed}
    kept |= {name: f"row(state.server, {k})" for k, name in enumerate(names.server)}
    kept |= {name: f"row(method.of_workers, {k})" for k, name in enumerate(names.of_workers)}
    return tuple_of("method, now", mine), tuple_of("method, state, objective, now, t, share", kept | COMMON)


def _do(acts: Any, what: Any, place: Any, i: Any, k: Any, now: Any, t: Any, share: Any) -> Any:
    raise NotImplementedError("only compiled code calls this")


@overload(_do, inline="always")
def _do_of_class(acts: Any, what: Any, place: Any, i: Any, k: Any, now: Any, t: Any, share: Any) -> Any:
    owner = acts.formulas.owner
    self_of, run_of = _self_and_run(owner.names())
    start, take, message, receive, serve, aim, tell = (own_formula(getattr(owner, name)) for name in ACTS)

    def do(acts: Any, what: Any, place: Any, i: Any, k: Any, now: Any, t: Any, share: Any) -> Any:
        method, state, objective = found(acts, place)
        me, run = self_of(method, now), run_of(method, state, objective, now, t, share)
        if what == TAKE:
            take(me, run, i, k)
        elif what == RECEIVE:
            receive(me, run, i)
        elif what == START:
            start(me, run, i)
        elif what == SERVE:
            serve(me, run)
        elif what == AIM:
            aim(me, run)
        elif what == TELL:
            tell(me, run, i)
        elif what == MESSAGE:
            for j in range(run.d):
                store(message(me, run, i, j), state.scaled, share, j)

    return do


def _act(acts: Any, what: int, place: int, i: int, k: int, now: int, t: int, share: int) -> None:
    _do(acts, what, place, i, k, now, t, share)


def acts_of(owner: type, method: Method, state: State, objective: Objective) -> Piece:
    """What a class of methods does, in blocks like this."""

    def made() -> Piece:
        block = types.Tuple([typeof(method), typeof(state), typeof(objective)])
        return Piece(_act, Acts(owner, block), *[types.intp] * 7, ours=is_ours(owner))

    return once((_act, owner, likeness((method, state, objective))), made)


@formula
def act(method: Any, what: int, place: int, i: int, k: int, now: int, t: int, share: int) -> None:
    """Do what the method, or whatever knows its acts, has for this, in a block that was laid at `place`."""
    if method.does & what:
        call(method.acts, (what, place, i, k, now, t, share))


@formula
def mean_over_workers(values: Any, j: int) -> Any:
    """The mean of values[:, j], always summed in the order of the workers."""
    total = load(values, 0, j)
    for i in range(1, values.shape[0]):
        total = total + load(values, i, j)
    return total / float(values.shape[0])


@formula
def weighted_mean(values: Any, j: int, shares: Any) -> Any:
    """Σ wᵢ values[i, j] with shares n wᵢ, in the same order; shares of 1 give the plain mean, bit by bit."""
    total = load(shares, 0) * load(values, 0, j)
    for i in range(1, values.shape[0]):
        total = fma(load(shares, i), load(values, i, j), total)
    return total / float(values.shape[0])
