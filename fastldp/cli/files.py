"""What a file is that no sweep wrote, in a few lines: a saved solution, or data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import fastldp as fl
from fastldp import archives
from fastldp.engine.layouts import as_kept
from fastldp.privacy.statement import SECRET
from fastldp.solution import HEADER

REMEDY = "give results of a sweep, a saved solution, or data"
NUMBERS = "biuf"
# More kinds of labels than this are told by their range.
MOST_KINDS = 10


def is_of_a_sweep(path: Path) -> bool:
    """Whether a file is one of results, or takes the name of one; parts of results may lie beside it alone."""
    return not path.is_file() or path.suffix == ".h5" or bool(h5py.is_hdf5(path))


def facts_of(path: Path) -> dict[str, Any]:
    """What there is to say of a saved solution, or of data."""
    if path.suffix == ".npz" and HEADER in archives.names_of(path, REMEDY):
        return _of_solution(fl.load(path))
    return _of_data(fl.datasets.read_file(path), path)


def _of_solution(run: fl.Solution) -> dict[str, Any]:
    # A network has no optimum.
    judged = {} if run.is_of_network else {"error": run.optimality}
    judged |= {name.replace("_", " "): run.measures[name] for name in [*run.measures][-1:] if name != "objective"}
    facts = {
        "file": "a saved solution: fastldp.load reads it, and its summary() says more",
        "solved": run.description,
        "ended": f"{run.status.message}; {len(run.workers)} repetitions",
        **{name: _at_the_end(values) for name, values in judged.items()},
        "promise": "none" if run.ledger is None else repr(run.ledger),
    }
    return facts if run.seed is None else {"secret": SECRET} | facts


def _at_the_end(values: NDArray[np.float64]) -> str:
    last = values[np.isfinite(values[:, -1]), -1]
    return f"{last.mean():.4g} ± {last.std():.2g} (std) at the end" if last.size else "not known at the end"


def _of_data(data: Any, path: Path) -> dict[str, Any]:
    A, b = data.A, data.b
    if A.ndim != 2 or b.shape != A.shape[:1] or b.dtype.kind not in NUMBERS:
        told = f"A of shape {A.shape} and b of shape {b.shape}, {b.dtype}, are no data"
        raise fl.errors.FileFormatError(f"{path}: {told}; {REMEDY}")
    rows, features = A.shape
    norms = np.sqrt(A.multiply(A).sum(axis=1) if sparse.issparse(A) else np.square(A).sum(axis=1))
    kinds, counts = np.unique(b, return_counts=True)
    several = kinds.size > MOST_KINDS
    return {
        "file": "data: fastldp solve --data takes it",
        "rows": rows,
        "features": features,
        "density": float((A.count_nonzero() if sparse.issparse(A) else np.count_nonzero(A)) / max(1, rows * features)),
        "labels": f"from {kinds[0]:g} to {kinds[-1]:g}"
        if several
        else {f"{kind:g}": int(count) for kind, count in zip(kinds, counts, strict=True)},
        "longest row": float(norms.max(initial=0.0)),
        "in kernels": as_kept(A),
    } | ({"label column": "the last; --label of fastldp solve names another"} if path.suffix == ".csv" else {})
