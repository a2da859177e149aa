"""Options that say what is solved, and how: data, problem and method."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

from scipy import sparse

import fastldp as fl
from fastldp.cli import options
from fastldp.datasets.dataset import Dataset, two_classes
from fastldp.datasets.files import MISSING
from fastldp.datasets.generated import STAND_INS
from fastldp.datasets.testing import hold_out, read_test_file
from fastldp.grids import made, parameters_of
from fastldp.kernels.formulas import is_ours
from fastldp.losses import SIGNS, Loss
from fastldp.methods import ALLOCATIONS
from fastldp.privacy.ledger import ADAPTIVE
from fastldp.problems.linear import HALF
from fastldp.problems.weighting import UNIFORM, WEIGHTINGS
from fastldp.sweeping.making import LOSSES, METHODS, PARTS, REGULARIZERS, kind_of
from fastldp.sweeping.sources import rows_of

PLANNED, THEOREM, NONE, COMPLETE = "planned", "theorem", "none", "complete"
GENERATED = tuple(name for name in STAND_INS if name != "mnist")
# The options that are parameters of a regularizer, with what the paper's nonsmooth problem has.
OF_REGULARIZERS = {"weight": 0.01, "bound": 10.0, "radius": 1.0}


def add_arguments(parser: argparse.ArgumentParser, also: str = "") -> None:
    """Of data that a command has beside these, `also` is the name."""
    generated = ", ".join([*GENERATED, *([also] if also else [])])
    of_data = parser.add_argument_group("data and problem")
    of_data.add_argument(
        "--data",
        default="a6a",
        metavar="FILE",
        help=f"a LIBSVM, .npz (A and b) or .csv file; or generated data: {generated} (%(default)s)",
    )
    of_data.add_argument("--label", metavar="COLUMN", help="of a .csv file, by name or number from 0 (the last)")
    of_data.add_argument("--rows", type=int, help="take so many alone, the first (all)")
    of_data.add_argument("--workers", type=int, default=20, help="n (%(default)s)")
    of_data.add_argument(
        "--loss", default="logistic", help=f"{', '.join(LOSSES)}, or module:Class of your own (%(default)s)"
    )
    _add_parameters(of_data, "--loss-set", "loss", "delta=0.5 of Huber")
    of_data.add_argument("--l2", type=float, default=0.1, help="weight of ½‖x‖² (%(default)s)")
    of_data.add_argument(
        "--regularizer",
        metavar="g",
        help=f"{', '.join(REGULARIZERS)}, or module:Class (BoxL1; of other methods than PrimalDual Zero)",
    )
    of_data.add_argument(
        "--weight", type=float, help="of the norm in BoxL1, L1 and GroupL2 (0.01; of your own, its own)"
    )
    of_data.add_argument(
        "--bound", type=float, help="half-width of the box in BoxL1 and Box (10; of your own, its own)"
    )
    of_data.add_argument("--radius", type=float, help="of L2Ball, L1Ball and Simplex (1; of your own, its own)")
    _add_parameters(of_data, "--regularizer-set", "regularizer", "ridge=0.1")
    of_data.add_argument(
        "--row-bound", type=float, metavar="R", help="public; longer rows are scaled down to it (none)"
    )
    of_data.add_argument(
        "--gradient-bound",
        type=options.or_word(float, {HALF: HALF}),
        metavar="B",
        help="public; gradients are clipped to it: a number, or half, which is R/2 (R, or read off the data)",
    )
    of_data.add_argument(
        "--weighting", choices=WEIGHTINGS, default=UNIFORM, help="of the workers in the objective (%(default)s)"
    )
    of_method = parser.add_argument_group("method")
    of_method.add_argument(
        "--method",
        default="PrimalDual",
        metavar="NAME",
        help=f"{', '.join(METHODS)}, or module:Class of your own (%(default)s)",
    )
    of_method.add_argument(
        "--step",
        type=options.or_word(float, {PLANNED: PLANNED, THEOREM: THEOREM}),
        metavar="γ",
        help="a number, planned (the least error to expect of the budget) or theorem (the paper's limit) (planned)",
    )
    of_method.add_argument(
        "--allocation", choices=ALLOCATIONS, help="of PrimalDual (planned with a planned step, else dynamic)"
    )
    of_method.add_argument(
        "--clip",
        type=options.or_word(float, {ADAPTIVE: ADAPTIVE, NONE: NONE}),
        metavar="C",
        help="the norm each sample's gradient is clipped to: a number, adaptive (found by noisy counts) or none "
        "(adaptive with a planned step, within a public bound where there is one; else none)",
    )
    of_method.add_argument(
        "--sampling",
        type=float,
        metavar="q",
        help="the share of a worker's samples that each release is of, drawn anew; more by --set sampling={...} (all)",
    )
    of_method.add_argument(
        "--topology",
        metavar="GRAPH",
        help="of PrimalDual: whose messages workers mix, without a server: ring, grid, star or random:DEGREE:SEED",
    )
    of_method.add_argument(
        "--failures", type=float, metavar="SHARE", help="of a graph's links that are missing in a round (0)"
    )
    _add_parameters(of_method, "--set", "method", "tail_average=100")


def _add_parameters(group: Any, option: str, what: str, example: str) -> None:
    group.add_argument(
        option,
        action="append",
        type=_parameter,
        default=[],
        metavar="NAME=VALUE",
        help=f"any parameter of the {what}, such as {example}; may be given several times",
    )


def _parameter(text: str) -> tuple[str, Any]:
    """NAME=VALUE, with the value as a specification writes it, or a text without its quotes."""
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as tail_average=100")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value


def data_of(arguments: argparse.Namespace) -> Dataset:
    """Generated rows, or those of a file; two kinds of labels are −1 and +1 for the logistic loss."""
    name = arguments.data
    if name in GENERATED:
        if arguments.label is not None:
            raise fl.errors.ArgumentError("label", arguments.label, "generated data have labels; leave it out")
        generated: Dataset = fl.datasets.synthetic(name, rows=arguments.rows)
        return generated
    if not Path(name).is_file():
        missing = MISSING[Path(name).is_dir()]
        remedy = f"{missing}; give one, or the name of generated data: {', '.join(GENERATED)}"
        raise fl.errors.ArgumentError("data", name, remedy)
    data = fl.datasets.read_file(name, label=arguments.label)
    rows = arguments.rows
    if rows is not None and not 1 <= rows <= data.b.size:
        raise fl.errors.ArgumentError("rows", rows, f"give a whole number from 1 to {data.b.size:,}")
    b = data.b[:rows]
    return Dataset(rows_of(data.A[:rows]), two_classes(b) if _loss(arguments).labels == SIGNS else b, name)


def tested(data: Dataset, arguments: argparse.Namespace) -> tuple[Dataset, tuple[Any, Any] | None]:
    """The data without what is held out of them, and test data: a share of the rows, or those of another file."""
    wish = arguments.test
    if wish is None:
        return data, None
    if isinstance(wish, float):
        train, test = hold_out(data.b.size, wish)
        return Dataset(data.A[train], data.b[train], data.name), (data.A[test], data.b[test])
    like = None if arguments.data in GENERATED else arguments.data
    A, b = read_test_file(wish, data.A.shape[1], label=arguments.label, like=like)
    return data, (rows_of(A, dense=not sparse.issparse(data.A)), b)


def problem_of(arguments: argparse.Namespace, data: Dataset, test: tuple[Any, Any] | None = None) -> fl.Problem:
    return fl.Problem(
        data.A,
        data.b,
        workers=arguments.workers,
        loss=_loss(arguments),
        l2=arguments.l2,
        regularizer=_regularizer(arguments),
        row_bound=arguments.row_bound,
        gradient_bound=arguments.gradient_bound,
        weighting=arguments.weighting,
        test=test,
    )


def _loss(arguments: argparse.Namespace) -> Loss:
    loss: Loss = made(kind_of("loss", arguments.loss, LOSSES, Loss), dict(arguments.loss_set))
    return loss


def _regularizer(arguments: argparse.Namespace) -> fl.Regularizer:
    # The baselines know no ℓ1 norm, and the local ones no set either.
    name = arguments.regularizer or ("BoxL1" if arguments.method == "PrimalDual" else "Zero")
    kind = kind_of("regularizer", name, REGULARIZERS, fl.Regularizer)
    # A class from outside has defaults of its own, or wants to be told.
    known = parameters_of(kind) if is_ours(kind) else ()
    defaults = {name: value for name, value in OF_REGULARIZERS.items() if name in known}
    given = _said_once(arguments, "regularizer_set", tuple(OF_REGULARIZERS))
    regularizer: fl.Regularizer = made(kind, defaults | given)
    return regularizer


def _said_once(arguments: argparse.Namespace, option: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Parameters that were set by name, and those that have an option of their own and were given there."""
    values = dict(getattr(arguments, option))
    for name in names:
        own = getattr(arguments, name)
        if own is not None and name in values:
            said = f"{name}={values[name]}"
            raise fl.errors.ArgumentError(option, said, f"--{name} says so already; give one of them")
        if own is not None:
            values[name] = own
    return values


def kind_of_method(arguments: argparse.Namespace) -> Any:
    return kind_of("method", arguments.method, METHODS, fl.Method)


def method_of(arguments: argparse.Namespace, *, planned: bool = True) -> Any:
    """The method with its parameters; a step that is not given is planned, or else the theorem's of PrimalDual.

    With a planned step clipping adapts, within a public bound where there is one, unless --clip says otherwise or there
    is no server.
    """
    kind = kind_of_method(arguments)
    values = _said_once(arguments, "set", ("step", "allocation", "clip", "sampling", "topology", "failures"))
    for name, part in PARTS.items():
        if isinstance(values.get(name), dict):
            values[name] = made(part, values[name])
    # A plan is made for full gradients.
    planned = planned and values.get("sampling") is None
    if kind.plans and planned:
        values.setdefault("step", PLANNED)
    if kind.plans and planned and values["step"] == PLANNED and values.get("topology", COMPLETE) == COMPLETE:
        values.setdefault("clip", ADAPTIVE)  # by counts that a server adds up
    if values.get("clip") == NONE:
        del values["clip"]
    if kind is fl.PrimalDual:
        values.setdefault("allocation", PLANNED if values.get("step") == PLANNED else "dynamic")
        if values.get("step") == THEOREM:
            values["step"] = None
    elif values.get("step") == THEOREM:
        raise fl.errors.ArgumentError(
            "step", THEOREM, f"the theorem is about PrimalDual; give {kind.__name__} a number"
        )
    return made(kind, values)
