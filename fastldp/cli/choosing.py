"""The options of `fastldp solve` that say what is solved, and how: data, problem and method."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

import fastldp as fl
from fastldp.cli import options
from fastldp.datasets.dataset import Dataset, two_classes
from fastldp.datasets.generated import STAND_INS
from fastldp.losses import SIGNS, Loss
from fastldp.methods import ALLOCATIONS
from fastldp.problem import HALF
from fastldp.sweeping.making import LOSSES, METHODS, REGULARIZERS, kind_of, made, parameters_of
from fastldp.sweeping.sources import rows_of
from fastldp.weighting import UNIFORM, WEIGHTINGS

PLANNED, THEOREM = "planned", "theorem"
GENERATED = tuple(name for name in STAND_INS if name != "mnist")
# The options that are parameters of a regularizer, with what the paper's nonsmooth problem has.
OF_REGULARIZERS = {"weight": 0.01, "bound": 10.0, "radius": 1.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    of_data = parser.add_argument_group("data and problem")
    of_data.add_argument(
        "--data",
        default="a6a",
        metavar="FILE",
        help=f"a LIBSVM, .npz (A and b) or .csv file; or generated data: {', '.join(GENERATED)} (%(default)s)",
    )
    of_data.add_argument("--label", metavar="COLUMN", help="of a .csv file, by name or number from 0 (the last)")
    of_data.add_argument("--rows", type=int, help="take so many alone, the first (all)")
    of_data.add_argument("--workers", type=int, default=20, help="n (%(default)s)")
    of_data.add_argument(
        "--loss", default="logistic", help=f"{', '.join(LOSSES)}, or module:Class of your own (%(default)s)"
    )
    of_data.add_argument("--l2", type=float, default=0.1, help="weight of ½‖x‖² (%(default)s)")
    of_data.add_argument(
        "--regularizer",
        metavar="g",
        help=f"{', '.join(REGULARIZERS)}, or module:Class (BoxL1; of other methods than PrimalDual Zero)",
    )
    of_data.add_argument("--weight", type=float, help="of BoxL1: weight of the ℓ1 norm (0.01)")
    of_data.add_argument("--bound", type=float, help="of BoxL1 and Box: half-width of the box (10)")
    of_data.add_argument("--radius", type=float, help="of L2Ball, L1Ball and Simplex (1)")
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
        "--set",
        action="append",
        type=_parameter,
        default=[],
        metavar="NAME=VALUE",
        help="any parameter of the method, such as tail_average=100; may be given several times",
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
        remedy = f"there is no such file; give one, or the name of generated data: {', '.join(GENERATED)}"
        raise fl.errors.ArgumentError("data", name, remedy)
    data = fl.datasets.read_file(name, label=arguments.label)
    rows = arguments.rows
    if rows is not None and not 1 <= rows <= data.b.size:
        raise fl.errors.ArgumentError("rows", rows, f"give a whole number from 1 to {data.b.size:,}")
    b = data.b[:rows]
    return Dataset(rows_of(data.A[:rows]), two_classes(b) if _loss(arguments).labels == SIGNS else b, name)


def problem_of(arguments: argparse.Namespace, data: Dataset) -> fl.Problem:
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
    )


def _loss(arguments: argparse.Namespace) -> Loss:
    loss: Loss = made(kind_of("loss", arguments.loss, LOSSES, Loss), {})
    return loss


def _regularizer(arguments: argparse.Namespace) -> fl.Regularizer:
    # The baselines know no ℓ1 norm, and the local ones no set either.
    name = arguments.regularizer or ("BoxL1" if arguments.method == "PrimalDual" else "Zero")
    kind = kind_of("regularizer", name, REGULARIZERS, fl.Regularizer)
    known = parameters_of(kind)
    given = {name: getattr(arguments, name) for name in OF_REGULARIZERS if getattr(arguments, name) is not None}
    defaults = {name: value for name, value in OF_REGULARIZERS.items() if name in known}
    regularizer: fl.Regularizer = made(kind, defaults | given)
    return regularizer


def method_of(arguments: argparse.Namespace) -> Any:
    """The method with its parameters; a step that is not given is planned."""
    kind, values = kind_of("method", arguments.method, METHODS, fl.Method), dict(arguments.set)
    for name in ("step", "allocation"):
        if name in values and getattr(arguments, name) is not None:
            raise fl.errors.ArgumentError(
                "set", f"{name}={values[name]}", f"--{name} says so already; give one of them"
            )
    plans = kind.plans or kind is fl.PrimalDual
    step = values.pop("step", arguments.step if arguments.step is not None or not plans else PLANNED)
    if isinstance(values.get("prior"), dict):
        values["prior"] = made(fl.Prior, values["prior"])
    if kind is not fl.PrimalDual:
        if step == THEOREM:
            raise fl.errors.ArgumentError(
                "step", step, f"the theorem is about PrimalDual; give {kind.__name__} a number"
            )
        if arguments.allocation is not None:
            values["allocation"] = arguments.allocation
        return made(kind, values if step is None else {"step": step} | values)
    allocation = arguments.allocation or (PLANNED if step == PLANNED else "dynamic")
    return made(kind, {"step": None if step == THEOREM else step, "allocation": allocation} | values)
