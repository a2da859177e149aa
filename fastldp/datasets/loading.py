"""Load a public set by its name, or any LIBSVM file by its path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, overload

from fastldp.datasets import idx, libsvm
from fastldp.datasets.dataset import Dataset, Images, two_classes
from fastldp.datasets.finding import content, in_folder
from fastldp.datasets.known import FILES, MNIST_FILES
from fastldp.errors import ArgumentError
from fastldp.validation import integer, known_name

NAMES = (*FILES, "mnist")


# A str that is "mnist" at run time is typed as a Dataset; where it is written out, the name decides.
@overload
def load(  # type: ignore[overload-overlap]
    name: Literal["mnist"],
    *,
    path: str | os.PathLike[str] | None = None,
    rows: int | None = None,
    part: str = "train",
    progress: bool = True,
) -> Images: ...


@overload
def load(
    name: str | os.PathLike[str],
    *,
    path: str | os.PathLike[str] | None = None,
    rows: int | None = None,
    features: int | None = None,
    progress: bool = True,
) -> Dataset: ...


def load(
    name: str | os.PathLike[str],
    *,
    path: str | os.PathLike[str] | None = None,
    rows: int | None = None,
    features: int | None = None,
    part: str | None = None,
    progress: bool = True,
) -> Dataset | Images:
    """A public set by its name, or a LIBSVM file of your own under another name.

    A set is sought at `path`, or in the folder that the environment variable FASTLDP_DATA names, in the cache
    (FASTLDP_CACHE, or the system's own place), and on the servers that FASTLDP_MIRROR names, several with spaces
    between, and that of its authors. Wherever it is found, it must be the public one: its sha256 is checked. Of two
    kinds of labels the larger is +1, the other −1.

    Parameters
    ----------
    name : str or path
        ``"ijcnn1"``, ``"a6a"``, ``"a6a.t"``, ``"a9a"``, ``"a9a.t"``, ``"w8a"``, ``"mushrooms"`` or ``"mnist"``; any
        other with a `path`. The path of a LIBSVM file will do too.
    path : path, optional
        A file, or a folder that holds one of that name; plain or packed by gzip, bzip2 or xz.
    rows : int, optional
        Take only so many, the first. The paper takes 2,000 of ijcnn1 and all of a6a.
    features : int, optional
        The number of columns; the largest index of the file where it is not given, which for a6a is 122, and 123 for
        a6a.t.
    part : str, optional
        Of mnist, ``"train"``, as where it is not given, or ``"test"``.
    progress : bool
        Whether to show a bar while downloading, on a terminal.

    Returns
    -------
    Dataset or Images
        Sparse rows with labels −1 and +1; of mnist, images with classes.

    Raises
    ------
    FileFormatError
        Where a file is not in its format, or not the public one.
    NotFoundError
        Where neither a folder nor a server has the set; the message says where to get it and where to put it.
    MissingExtraError
        Where it must be downloaded, and pooch is not installed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "mine.txt"
    ...     _ = file.write_text("2 1:0.5\\n1 2:1\\n2 1:3\\n")
    ...     data = load("mine", path=file, rows=2, features=4)
    >>> data.A.shape, data.b.tolist(), data.name
    ((2, 4), [1.0, -1.0], 'mine')
    """
    if path is None and _is_path(name):
        path = name
    elif path is None or name == "mnist":
        known_name("name", name, NAMES)
    if isinstance(name, os.PathLike):
        name = os.fspath(name)
    if name == "mnist":
        if features is not None:
            raise ArgumentError("features", features, "images have as many as pixels; leave it out")
        return _mnist(known_name("part", "train" if part is None else part, tuple(MNIST_FILES)), path, rows, progress)
    if part is not None:
        raise ArgumentError("part", part, "only mnist has parts; the test parts of others have names, such as 'a6a.t'")
    if name in FILES:
        # All of them count from 1; that no row has feature 1 must not be taken for counting from 0.
        text = content(FILES[name], path, progress=progress)
        data = libsvm.from_text(text, name, features=features, zero_based=False)
    else:
        assert path is not None
        data = libsvm.read_libsvm(_in_folder(name, path), features=features)
    first = _first(rows, data.b.size)
    return Dataset(data.A[:first], two_classes(data.b)[:first], name)


def _is_path(name: str | os.PathLike[str]) -> bool:
    """Whether a name is one of a file: it says so by its type or a separator, or there is such a file."""
    if isinstance(name, os.PathLike):
        return True
    return isinstance(name, str) and name not in NAMES and (os.path.basename(name) != name or os.path.isfile(name))


def _in_folder(name: str, path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The path; of a folder the file of that name in it, plain or packed."""
    if not os.path.isdir(path):
        return path
    found = in_folder(name, Path(path))
    if found is None:
        remedy = f"a folder in which there is no file {name!r}, plain or packed; give the file itself"
        raise ArgumentError("path", os.fspath(path), remedy)
    return found


def _mnist(part: str, path: str | os.PathLike[str] | None, rows: int | None, progress: bool) -> Images:
    images, labels = (idx.from_bytes(content(file, path, progress=progress), file.plain) for file in MNIST_FILES[part])
    whole = idx.paired(images, labels, "mnist")
    first = _first(rows, whole.labels.size)
    return Images(whole.images[:first], whole.labels[:first], f"mnist {part}")


def _first(rows: int | None, of: int) -> int:
    remedy = f"give a whole number from 1 to {of:,}"
    return of if rows is None else integer("rows", rows, remedy, at_least=1, at_most=of)
