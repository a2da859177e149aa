"""Where a sweep's data come from: a named set, a generated stand-in, a file, or arrays given in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
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
from fastldp.sweeping.document import Table
from fastldp.validation import integer, known_name

OF_NETWORKS = "only a table [network] has test images; test = 0.2 in the table [problem] holds out a share of the rows"
# Sparse rows with at least this share of nonzeros are faster dense.
DENSE_FROM = 0.25


@dataclass(frozen=True)
class Source:
    """Data that are read when they are needed."""

    WAYS: ClassVar[tuple[str, ...]] = ("name", "synthetic", "file", "given")
    KEYS: ClassVar[tuple[str, ...]] = (*WAYS, "label", "rows", "held_out", "seed", "dense")

    parameters: dict[str, Any]
    table: Table
    """Where it is written."""
    fetch: Callable[[], tuple[Any, ...]]
    """A and b; or images and labels, and those of a test."""
    folder: Path = Path()
    """Where files are looked for."""

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


def source_of(choice: dict[str, Any], given: Mapping[str, tuple[Any, ...]], folder: Path, table: Table) -> Source:
    """The source a table [data] describes."""
    ways = [key for key in Source.WAYS if key in choice]
    if len(ways) != 1:
        table.refuse(ways[1] if ways else "", f"say once where the data come from: {', '.join(Source.WAYS)}")
    way = ways[0]
    value = choice[way]
    if not isinstance(value, str):
        table.refuse(way, "give a text")
    rows = choice.get("rows")
    if rows is not None:
        integer("rows", rows, "give a whole number ≥ 1", at_least=1)
    dense = choice.get("dense")
    if dense is not None and not isinstance(dense, bool):
        table.refuse("dense", "give true or false")
    if "seed" in choice and way != "synthetic":
        table.refuse("seed", "only synthetic data have a seed")
    parameters: dict[str, Any] = {way: value, "rows": rows, "dense": dense}
    if "label" in choice:
        if way != "file" or not value.endswith(".csv"):
            table.refuse("label", "only a .csv file has a column of labels to choose")
        parameters["label"] = choice["label"]
    if "held_out" in choice:
        remedy = "give a whole number ≥ 1: how many of the last rows become the test images"
        parameters["held_out"] = integer("held_out", choice["held_out"], remedy, at_least=1)
    if way == "synthetic":
        known_name("synthetic", value, STAND_INS)
        seed = integer("seed", choice.get("seed", 0), "give a whole number ≥ 0", at_least=0)
        if value == "mnist":
            return Source(parameters | {"seed": seed}, table, lambda: _made_up_digits(seed), folder)
        return Source(parameters | {"seed": seed}, table, lambda: _pair(datasets.synthetic(value, seed=seed)), folder)
    if way == "given":
        known_name("given", value, tuple(given))
        return Source(parameters, table, lambda: given[value], folder)
    if way == "file":
        path = folder / value
        if not path.is_file():
            missing = "it is a folder, not a file," if path.is_dir() else "there is no such file"
            raise ArgumentError("file", value, f"{missing} in {folder.resolve()}")
        return Source(parameters, table, lambda: _from_file(path, choice.get("label")), folder)
    known_name("name", value, NAMES)
    if value == "mnist":
        return Source(parameters, table, _mnist, folder)
    return Source(parameters, table, lambda: _pair(datasets.load(value)), folder)


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
