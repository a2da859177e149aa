"""Where a sweep's data come from: a named set, a generated stand-in, a file, or arrays given in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from fastldp import datasets
from fastldp.datasets.dataset import two_classes
from fastldp.datasets.files import read_file
from fastldp.datasets.generated import STAND_INS
from fastldp.datasets.loading import NAMES
from fastldp.datasets.testing import as_wide, hold_out, read_test_file
from fastldp.errors import ArgumentError
from fastldp.grids import Place
from fastldp.validation import integer, known_name

OF_NETWORKS = "only a table [network] has test images; test = 0.2 in the table [problem] holds out a share of the rows"
# Sparse rows with at least this share of nonzeros are faster dense.
DENSE_FROM = 0.25


@dataclass(frozen=True)
class Data:
    """Data by where they come from: a named set, a generated stand-in, a file, or arrays given in Python.

    Parameters
    ----------
    name : str, optional
        A set that `datasets.load` knows. One of `name`, `synthetic`, `file` and `given` is needed.
    synthetic : str, optional
        Its generated stand-in.
    file : str, optional
        A file of data; in the results it is named by this path, as written.
    given : str, optional
        The name of arrays that the sweep is given.
    label : str or int, optional
        Of a .csv file, the column of the labels.
    rows : int, optional
        The first rows only.
    held_out : int, optional
        So many of the last rows are a network's test images.
    seed : int, optional
        Of synthetic data; 0 by default.
    dense : bool, optional
        How rows are kept; by the share of nonzeros by default.

    Examples
    --------
    >>> Data("ijcnn1", rows=2000).parameters
    {'name': 'ijcnn1', 'rows': 2000, 'dense': None}
    """

    WAYS: ClassVar[tuple[str, ...]] = ("name", "synthetic", "file", "given")

    name: str | None = None
    synthetic: str | None = None
    file: str | None = None
    given: str | None = None
    label: str | int | None = None
    rows: int | None = None
    held_out: int | None = None
    seed: int | None = None
    dense: bool | None = None

    def __post_init__(self) -> None:
        ways = [way for way in self.WAYS if getattr(self, way) is not None]
        if len(ways) != 1:
            remedy = f"say once where the data come from: {', '.join(self.WAYS)}"
            raise ArgumentError(ways[1] if ways else "name", getattr(self, ways[1]) if ways else None, remedy)
        if not isinstance(self.at, str):
            raise ArgumentError(self.way, self.at, "give a text")
        if self.rows is not None:
            integer("rows", self.rows, "give a whole number ≥ 1", at_least=1)
        if self.dense is not None and not isinstance(self.dense, bool):
            raise ArgumentError("dense", self.dense, "give true or false")
        if self.seed is not None and self.way != "synthetic":
            raise ArgumentError("seed", self.seed, "only synthetic data have a seed")
        if self.label is not None and (self.way != "file" or not self.at.endswith(".csv")):
            raise ArgumentError("label", self.label, "only a .csv file has a column of labels to choose")
        if self.held_out is not None:
            remedy = "give a whole number ≥ 1: how many of the last rows become the test images"
            integer("held_out", self.held_out, remedy, at_least=1)
        if self.way == "synthetic":
            known_name("synthetic", self.at, STAND_INS)
            integer("seed", self.seed or 0, "give a whole number ≥ 0", at_least=0)
        if self.way == "name":
            known_name("name", self.at, NAMES)

    @property
    def way(self) -> str:
        """Which of the ways it is."""
        return next(way for way in self.WAYS if getattr(self, way) is not None)

    @property
    def at(self) -> str:
        """What it is called there."""
        found: str = getattr(self, self.way)
        return found

    @property
    def parameters(self) -> dict[str, Any]:
        """What settings are known by."""
        found: dict[str, Any] = {self.way: self.at, "rows": self.rows, "dense": self.dense}
        found |= {key: value for key in ("label", "held_out") if (value := getattr(self, key)) is not None}
        return found | ({"seed": self.seed or 0} if self.way == "synthetic" else {})


@dataclass(frozen=True)
class Source:
    """Data that are read when they are needed."""

    data: Data
    place: Place
    """Where it is written."""
    fetch: Callable[[], tuple[Any, ...]]
    """A and b; or images and labels, and those of a test."""
    folder: Path = Path()
    """Where files are looked for."""

    @property
    def parameters(self) -> dict[str, Any]:
        """What settings are known by."""
        return self.data.parameters

    def images(self, test: Any = True, test_seed: int | None = None) -> tuple[Any, ...]:
        """Images and labels, and those of a test where there are any, or where some are held out for one."""
        A, b, *own = self.fetch()
        images, labels = rows_of(A, dense=True), np.asarray(b)
        held_out = self.parameters.get("held_out", 0)
        if test is not True or test_seed is not None:
            if held_out:
                raise ArgumentError("test", test, "held_out = ... has test images already; leave one of them out")
            first = slice(self._rows(len(images)))
            return _split(images[first], labels[first], test, test_seed)
        if held_out >= len(images):
            raise ArgumentError("held_out", held_out, f"the data have only {len(images):,} rows; hold out fewer")
        if held_out:
            own = [images[-held_out:], labels[-held_out:]]
            images, labels = images[:-held_out], labels[:-held_out]
        first = slice(self._rows(len(images)))
        return images[first], labels[first], *own

    def _rows(self, there: int) -> int:
        rows = self.parameters["rows"]
        if rows is not None and rows > there:
            raise ArgumentError("rows", rows, f"the data have only {there:,}")
        return there if rows is None else int(rows)

    def load(self, test: Any = None, test_seed: int | None = None) -> tuple[Any, ...]:
        """A and b, dense where that is faster or asked for, and those of a test where one is asked for."""
        if "mnist" in (self.parameters.get("name"), self.parameters.get("synthetic")):
            raise ArgumentError("data", "mnist", "images are for a table [network], not for a table [problem]")
        if "held_out" in self.parameters:
            raise ArgumentError("held_out", self.parameters["held_out"], OF_NETWORKS)
        A, b, *own = self.fetch()
        first = slice(self._rows(A.shape[0]))
        A, b = rows_of(A[first], dense=self.parameters["dense"]), b[first]
        if test is None and test_seed is None:
            return A, b
        if not isinstance(test, bool | str):
            return _split(A, b, test, test_seed)
        if test_seed is not None:
            raise ArgumentError("test_seed", test_seed, "only a share that is held out has one; leave it out")
        others, labels = self._test(test, own, A.shape[1])
        return A, b, rows_of(others, dense=not sparse.issparse(A)), labels

    def _test(self, test: bool | str, own: list[Any], features: int) -> tuple[Any, Any]:
        """Test data of another file, or those that come with the data."""
        if isinstance(test, str):
            mine = self.parameters.get("file")
            like = None if mine is None else self.folder / mine
            return read_test_file(self.folder / test, features, label=self.parameters.get("label"), like=like)
        name = f"{self.parameters.get('name')}.t"
        if test and name in NAMES:
            found = datasets.load(name)
            return as_wide(found.A, features), found.b
        if not test or len(own) != 2:
            known = ", ".join(repr(one.removesuffix(".t")) for one in NAMES if one.endswith(".t"))
            remedy = f"of the sets with a name {known} have test data of their own, and data given with (A, b, A, b)"
            raise ArgumentError("test", test, f"{remedy}; hold out a share, as 0.2, or name a file")
        return own[0], own[1]


def _split(A: Any, b: Any, share: Any, seed: int | None) -> tuple[Any, ...]:
    """Rows that are left, and rows held out, before any are spread over workers."""
    train, test = hold_out(A.shape[0], share, seed=0 if seed is None else seed)
    return A[train], b[train], A[test], b[test]


def rows_of(A: Any, *, dense: bool | None = None) -> Any:
    """Rows as they are asked for; by default dense where that is faster."""
    if dense is None:
        dense = not sparse.issparse(A) or A.nnz >= DENSE_FROM * A.shape[0] * A.shape[1]
    if not dense:
        return sparse.csr_array(A)
    return A.toarray() if sparse.issparse(A) else np.asarray(A)


def source_of(data: Data, given: Mapping[str, Any], folder: Path, place: Place) -> Source:
    """Where data are read from; files must be there, and arrays have been given."""
    value = data.at
    fetch: Callable[[], tuple[Any, ...]]
    if data.way == "synthetic":
        seed = data.seed or 0
        fetch = (
            partial(_made_up_digits, seed) if value == "mnist" else lambda: _pair(datasets.synthetic(value, seed=seed))
        )
    elif data.way == "given":
        known_name("given", value, tuple(given))
        if not isinstance(given[value], Sequence):
            raise ArgumentError("given", value, "it is a problem and no (A, b): name it in the table of problems")
        fetch = lambda: tuple(given[value])  # noqa: E731
    elif data.way == "file":
        path = folder / value
        if not path.is_file():
            missing = "it is a folder, not a file," if path.is_dir() else "there is no such file"
            raise ArgumentError("file", value, f"{missing} in {folder.resolve()}")
        fetch = partial(_from_file, path, data.label)
    else:
        fetch = _mnist if value == "mnist" else lambda: _pair(datasets.load(value))
    return Source(data, place, fetch, folder)


def _pair(data: datasets.Dataset) -> tuple[Any, Any]:
    return data.A, data.b


def _mnist() -> tuple[Any, ...]:
    return _tested(datasets.load("mnist"), datasets.load("mnist", part="test"))


@lru_cache(maxsize=1)  # a reproduction wants the same many times
def _made_up_digits(seed: int) -> tuple[Any, ...]:
    return _tested(datasets.synthetic("mnist", seed=seed), datasets.synthetic("mnist", rows=10_000, seed=seed + 1))


def _tested(train: datasets.Images, test: datasets.Images) -> tuple[Any, ...]:
    return train.images, train.labels, test.images, test.labels


def _from_file(path: Path, label: str | int | None = None) -> tuple[Any, Any]:
    """A and b of a file; of LIBSVM files, two kinds of labels as −1 and +1."""
    data = read_file(path, label=label)
    return data.A, data.b if path.suffix == ".npz" else two_classes(data.b, others=path.suffix == ".csv")
