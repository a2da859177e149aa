"""Data sets: IDX files, generated stand-ins against the real sets, and loading from folders."""

import bz2
import gzip
import hashlib
import lzma
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import fastldp as fl
from fastldp import memory
from fastldp.datasets import known, unpacking
from fastldp.errors import ArgumentError, DataError, FileFormatError, UnknownNameError

real_data = pytest.mark.skipif(
    not os.environ.get("FASTLDP_DATA"), reason="needs the real sets: set FASTLDP_DATA to their folder"
)

# Loading


def public(monkeypatch: pytest.MonkeyPatch, name: str, text: bytes) -> None:
    """Make a small text the public set of that name."""
    digest = hashlib.sha256(text).hexdigest()
    monkeypatch.setitem(known.FILES, name, known.File(known.FILES[name].served, known.LIBSVM, digest))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTLDP_DATA", str(tmp_path))
    monkeypatch.setenv("FASTLDP_CACHE", str(tmp_path / "cache"))
    return tmp_path


SMALL = b"2 1:1\n1 3:2\n1 2:1\n"


@pytest.mark.parametrize(
    ("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_load_from_the_data_folder(
    ending: str, pack: Callable[[bytes], bytes], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public(monkeypatch, "mushrooms", SMALL)
    (folder / f"mushrooms{ending}").write_bytes(pack(SMALL))
    data = fl.datasets.load("mushrooms")
    assert data.name == "mushrooms"
    assert data.b.tolist() == [1, -1, -1]  # the larger is +1
    assert data.A.toarray().tolist() == [[1, 0, 0], [0, 0, 2], [0, 1, 0]]
    assert isinstance(data.A, sparse.csr_array)
    fl.Problem(data.A, data.b, workers=2)


def test_load_from_a_path_and_from_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    public(monkeypatch, "a6a", SMALL)
    for place in (folder / "other" / "a6a", folder / "cache" / "a6a"):
        place.parent.mkdir()
        place.write_bytes(SMALL)
    assert fl.datasets.load("a6a").A.shape == (3, 3)
    for path in (folder / "other", folder / "other" / "a6a", str(folder / "other")):
        assert fl.datasets.load("a6a", path=path).A.shape == (3, 3)
    with pytest.raises(ArgumentError, match="a folder that holds a6a"):
        fl.datasets.load("a6a", path=folder / "nowhere")


def test_rows_and_features(folder: Path) -> None:
    file = folder / "mine"
    file.write_bytes(SMALL)
    data = fl.datasets.load("mine", path=file, rows=1, features=5)
    assert (data.A.shape, data.b.tolist(), data.name) == ((1, 5), [1], "mine")
    for options, message in (({"rows": 4}, "from 1 to 3"), ({"rows": 0}, "rows = 0"), ({"part": "test"}, "only mnist")):
        with pytest.raises(ArgumentError, match=message):
            fl.datasets.load("mine", path=file, **options)


@pytest.mark.parametrize(
    ("labels", "mapped"), [("0 1 0", [-1, 1, -1]), ("1 1", [1, 1]), ("-1 1", [-1, 1]), ("3 -2", [1, -1])]
)
def test_labels_become_signs(labels: str, mapped: list[int], folder: Path) -> None:
    (folder / "mine").write_text("".join(f"{label} 1:1\n" for label in labels.split()))
    assert fl.datasets.load("mine", path=folder / "mine").b.tolist() == mapped


@pytest.mark.parametrize("labels", ["1 2 3", "5 5"])
def test_other_labels_are_refused(labels: str, folder: Path) -> None:
    (folder / "mine").write_text("".join(f"{label} 1:1\n" for label in labels.split()))
    with pytest.raises(DataError, match=r"kinds of labels; .*label="):
        fl.datasets.load("mine", path=folder / "mine")


def test_another_file_of_that_name_is_refused(folder: Path) -> None:
    (folder / "w8a").write_bytes(SMALL)
    with pytest.raises(FileFormatError, match=r"w8a is not the public w8a: unpacked its sha256 is .*, not 6a9fa8f"):
        fl.datasets.load("w8a")


def test_names_and_folders_that_do_not_exist(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'ijcnn1'"):
        fl.datasets.load("ijcnn")
    monkeypatch.setenv("FASTLDP_DATA", str(folder / "nowhere"))
    with pytest.raises(ArgumentError, match=r"FASTLDP_DATA = .*no such folder"):
        fl.datasets.load("a6a")


@real_data
def test_the_real_sets() -> None:
    for name, shape, positives in (
        ("ijcnn1", (49990, 22), 4853),
        ("a6a", (11220, 122), 2692),
        ("a6a.t", (21341, 123), None),
    ):
        data = fl.datasets.load(name)
        assert data.A.shape == shape
        assert positives is None or (data.b > 0).sum() == positives
        assert set(data.b.tolist()) == {-1.0, 1.0}
    assert fl.datasets.load("a6a", features=123).A.shape == (11220, 123)
    assert fl.datasets.load("ijcnn1", rows=2000).A.shape == (2000, 22)


@real_data
def test_the_real_images() -> None:
    for part, rows, first in (("train", 60000, [5, 0, 4]), ("test", 10000, [7, 2, 1])):
        data = fl.datasets.load("mnist", part=part)
        assert data.images.shape == (rows, 784)
        assert data.images.dtype == np.uint8
        assert data.labels.dtype == np.int64
        assert data.labels[:3].tolist() == first
        assert data.name == f"mnist {part}"
    assert fl.datasets.load("mnist", rows=5).images.shape == (5, 784)


# IDX


def idx(array: Any, code: int = 8) -> bytes:
    array = np.asarray(array)
    kinds = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    content: bytes = array.astype(kinds[code]).tobytes()
    return bytes([0, 0, code, array.ndim]) + sizes + content


@pytest.mark.parametrize("code", [8, 9, 11, 12, 13, 14])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_of_every_type(code: int, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    array = np.arange(24).reshape(2, 3, 4)
    file = tmp_path / "array"
    file.write_bytes(pack(idx(array, code)))
    computed = fl.datasets.read_idx(file)
    np.testing.assert_array_equal(computed, array)
    assert computed.dtype.isnative


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with nothing"),
        (b"\x01\x00\x08\x01", "is not an IDX file: it begins with 01 00 08 01"),
        (b"\0\0\x07\x01\0\0\0\0", "is not an IDX file"),
        (b"\0\0\x08\x00", "is not an IDX file"),
        (b"\0\0\x08\x02\0\0\0\x03", "is cut off: 8 bytes, and its sizes alone take 12"),
        (idx([1, 2, 3])[:-1], "is cut off: 10 bytes, .* take 11"),
        (idx([1, 2, 3]) + b"\0", "goes on after its end"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "is cut off"),
        (gzip.compress(idx(np.arange(100)))[:-20], "not whole"),
        (b"\0\0\x08\x04" + b"\0" * 4 + b"\xff" * 12, r"holds no array: its sizes are \(0, 4294967295, "),
        (b"\0\0\x08\xff" + b"\0\0\0\x01" * 255 + b"\x07", "holds no array: its sizes are"),
    ],
)
def test_idx_files_that_are_not(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "array"
    file.write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        fl.datasets.read_idx(file)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_no_more_of_an_idx_file_is_unpacked_than_it_promises(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    file = tmp_path / "array"
    file.write_bytes(pack(idx([1, 2, 3]) + bytes(50_000_000)))
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="goes on after its end: over 11 bytes"):
            fl.datasets.read_idx(file)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_what_unpacks_to_too_much(
    pack: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "text"
    text = b"1 1:1\n" * 1_000_000
    file.write_bytes(pack(text))
    assert fl.datasets.read_libsvm(file).b.size == 1_000_000
    monkeypatch.setattr(unpacking, "ALWAYS_FINE", 2_000_000)
    monkeypatch.setattr(unpacking, "MOST_RATIO", 10)
    with pytest.raises(
        FileFormatError,
        match=r"text: [23],\d{3},\d{3} bytes were read, and the limit is 2,000,000, 10 times .*give it unpacked",
    ):
        fl.datasets.read_libsvm(file)
    monkeypatch.setattr(memory, "available_bytes", lambda: 3_000_000)
    with pytest.raises(FileFormatError, match="the limit is 1,500,000, half of the memory that is free; if that"):
        fl.datasets.read_libsvm(file)
    file.write_bytes(text)
    with pytest.raises(FileFormatError, match="half of the memory that is free; give a smaller file"):
        fl.datasets.read_libsvm(file)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_files_of_several_streams(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """As parallel packers write them: a damaged one is not taken for the end, nor one that is not whole."""
    file = tmp_path / "text"
    first, second = pack(b"1 1:1\n"), pack(b"2 1:2\n")
    for content in (first + second, first + second + bytes(8), first + bytes(4) + second):
        file.write_bytes(content)
        assert fl.datasets.read_libsvm(file).b.tolist() == [1, 2]
    for content in (first + b"?" + second[1:], first + second[:-3], first + b"more", first + second[:4]):
        file.write_bytes(content)
        with pytest.raises(
            FileFormatError, match="text cannot be unpacked .*: it is damaged or not whole; get it again"
        ):
            fl.datasets.read_libsvm(file)


def test_images_with_their_labels(tmp_path: Path) -> None:
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.write_bytes(idx(np.arange(24).reshape(2, 3, 4)))
    labels.write_bytes(idx([7, 1]))
    data = fl.datasets.read_images(images, labels)
    assert data.images.shape == (2, 12)
    assert data.labels.tolist() == [7, 1]
    (tmp_path / "row").write_bytes(idx([1]))
    for other, message in (([7, 1, 2], "2 images and 3 labels"), ([[7, 1]], "not one whole number")):
        labels.write_bytes(idx(other))
        with pytest.raises(FileFormatError, match=message):
            fl.datasets.read_images(images, labels)
    with pytest.raises(FileFormatError, match="images of bytes"):
        fl.datasets.read_images(tmp_path / "row", labels)
    with pytest.raises(ArgumentError, match="no such file"):
        fl.datasets.read_idx(tmp_path / "nowhere")


# Generated stand-ins

SHAPES = {
    "ijcnn1": (2000, 22, 13, 0.097),
    "a6a": (11220, 122, 14, 0.24),
    "a9a": (32561, 123, 14, 0.24),
    "w8a": (49749, 300, 11.65, 0.03),
    "mushrooms": (8124, 112, 21, 0.48),
}


@pytest.mark.parametrize("name", SHAPES)
def test_generated_shape_sparsity_and_balance(name: str) -> None:
    rows, columns, entries, positives = SHAPES[name]
    data = fl.datasets.synthetic(name)
    assert data.A.shape == (rows, columns)
    assert data.A.nnz / rows == pytest.approx(entries, rel=0.03)
    assert (data.b > 0).mean() == pytest.approx(positives, abs=0.005)
    assert set(data.b.tolist()) == {-1.0, 1.0}
    assert data.name == f"synthetic {name}"


@pytest.mark.parametrize("name", [*SHAPES, "mnist"])
def test_generated_data_has_a_seed(name: str) -> None:
    def content(seed: int) -> Any:
        data: Any = fl.datasets.synthetic(name, rows=50, seed=seed)
        return data.images if name == "mnist" else data.A.toarray()

    np.testing.assert_array_equal(content(3), content(3))
    assert (content(3) != content(4)).any()


@pytest.mark.parametrize("seed", ["x", -1, 1.5, None])
def test_a_seed_that_is_none_is_refused(seed: Any) -> None:
    with pytest.raises(ArgumentError, match="seed = .*whole number ≥ 0"):
        fl.datasets.synthetic("ijcnn1", rows=50, seed=seed)


def test_generated_images() -> None:
    data = fl.datasets.synthetic("mnist", rows=2000)
    assert data.images.dtype == np.uint8
    assert data.labels.dtype == np.int64
    assert (data.images > 0).mean() == pytest.approx(0.19, abs=0.06)
    assert data.images.mean() == pytest.approx(33, abs=8)
    assert np.bincount(data.labels).min() > 150
    # The classes can be told apart: the nearest mean of one half is nearly always right on the other.
    pixels = data.images.astype(float)
    means = np.stack([pixels[:1000][data.labels[:1000] == digit].mean(axis=0) for digit in range(10)])
    nearest = ((pixels[1000:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == data.labels[1000:]).mean() > 0.9


@real_data
@pytest.mark.parametrize("name", ["ijcnn1", "a6a"])
def test_generated_data_is_like_the_real(name: str) -> None:
    """Within the margins that the docstring of `synthetic` states."""
    rows = fl.datasets.PAPER_ROWS[name]
    real, made = fl.datasets.load(name, rows=rows), fl.datasets.synthetic(name)
    assert made.A.shape == real.A.shape
    assert made.A.nnz == pytest.approx(real.A.nnz, rel=0.01)
    assert (made.b > 0).mean() == pytest.approx((real.b > 0).mean(), abs=0.02)
    norms = [np.quantile(sparse.linalg.norm(data.A, axis=1), [0.05, 0.25, 0.5, 0.75, 0.95]) for data in (real, made)]
    np.testing.assert_allclose(norms[1], norms[0], rtol=0.05)
    spectra = [np.linalg.eigvalsh((data.A.T @ data.A).toarray() / rows) for data in (real, made)]
    for measure, factor in ((np.sum, 1.03), (np.max, 1.15), (np.median, 1.6)):
        assert 1 / factor < measure(spectra[1]) / measure(spectra[0]) < factor


def test_a_set_of_ones_own_is_found_in_a_folder(tmp_path: Path) -> None:
    with pytest.raises(
        ArgumentError, match=r"path = .*: a folder in which there is no file 'phishing', plain or packed"
    ):
        fl.datasets.load("phishing", path=tmp_path)
    (tmp_path / "phishing.gz").write_bytes(gzip.compress(b"1 1:2\n0 2:1\n"))
    assert fl.datasets.load("phishing", path=tmp_path).b.tolist() == [1.0, -1.0]


def test_a_path_will_do_for_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.svm").write_bytes(b"1 1:2\n0 2:1\n")
    monkeypatch.chdir(tmp_path)
    for name in (tmp_path / "mine.svm", str(tmp_path / "mine.svm"), "./mine.svm", "mine.svm"):
        data = fl.datasets.load(name)
        assert data.b.tolist() == [1.0, -1.0]
        assert data.name.endswith("mine.svm")
    with pytest.raises(ArgumentError, match=r"path = .*none.svm': there is no such file"):
        fl.datasets.load(tmp_path / "none.svm")
    with pytest.raises(UnknownNameError, match="name = 'phising': use one of"):
        fl.datasets.load("phising")


CSV = "x,label,z\n1,0,2\n3,1,4\n"


@pytest.mark.parametrize(
    ("name", "content", "label"),
    [
        ("d.csv", CSV, "label"),
        ("d.csv", CSV.replace(",", ";"), 1),
        ("d.csv", CSV.partition("\n")[2], "1"),
        ("d.csv", "\ufeffx,z,label\n1,2,0\n3,4,1\n", None),
        ("d.svm", "0 1:1 2:2\n1 1:3 2:4\n", None),
    ],
)
def test_files_of_any_kind(name: str, content: str, label: str | int | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    data = fl.datasets.read_file(tmp_path / name, label=label)
    A = data.A if isinstance(data.A, np.ndarray) else data.A.toarray()
    assert A.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert data.b.tolist() == [0.0, 1.0]


def test_a_file_of_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", A=np.eye(2), b=np.array([1.0, -1.0]))
    data = fl.datasets.read_file(tmp_path / "d.npz")
    assert data.A.tolist() == np.eye(2).tolist()
    with pytest.raises(ArgumentError, match="label = 'b': only a .csv file has columns"):
        fl.datasets.read_file(tmp_path / "d.npz", label="b")


@pytest.mark.parametrize(
    ("content", "label", "error", "message"),
    [
        (CSV, "lable", UnknownNameError, "did you mean 'label'"),
        (CSV, 3, ArgumentError, "label = 3: give a number from 0 to 2, or a name"),
        ("1,2\n", "x", ArgumentError, "label = 'x': the file has no header; give a number from 0 to 1"),
        ("a,b\n1,x\n", None, FileFormatError, r"not a table .*row 2, column 1 \(b\): 'x' is no number; write"),
        ("a,b\n1,2\n\nx,2\n", None, FileFormatError, r"row 4, column 0 \(a\): 'x' is no number; leave"),
        ("a,b\nyes,2\n", "a", FileFormatError, r"column 0 \(a\): 'yes' is no number; write labels as 0 and 1"),
        ("1,2\n3,\n", None, FileFormatError, "row 2, column 1: nothing"),
        ("a,b\n1,2\n1\n", None, FileFormatError, "not a table of numbers .*row 3 has 1 columns and not 2"),
        ("1\n2\n", None, FileFormatError, r"a table of shape \(2, 1\)"),
    ],
)
def test_tables_that_are_none(content: str, label: Any, error: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(content)
    with pytest.raises(error, match=message):
        fl.datasets.read_file(tmp_path / "d.csv", label=label)


def test_sweeps_read_tables(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("1,0\n2,1\n3,0\n4,1\n")
    text = 'rounds = 2\n[data]\nfile = "d.csv"\n[problem]\nworkers = 2\nl2 = 0.1\n[[method]]\nname = "PrimalDual"\n'
    (tmp_path / "s.toml").write_text(text)
    assert fl.sweep(tmp_path / "s.toml", tmp_path / "r.h5", progress=False).completed == 1
    # The labels in another column, by its name.
    (tmp_path / "d.csv").write_text("sick,height\n0,1\n1,2\n0,3\n1,4\n")
    (tmp_path / "s.toml").write_text(text.replace('"d.csv"', '"d.csv"\nlabel = "sick"'))
    assert fl.sweep(tmp_path / "s.toml", tmp_path / "named.h5", progress=False).completed == 1
    first, second = (next(iter(fl.results(tmp_path / name))).x for name in ("r.h5", "named.h5"))
    np.testing.assert_array_equal(first, second)
    (tmp_path / "s.toml").write_text(text.replace('file = "d.csv"', 'synthetic = "ijcnn1"\nlabel = "sick"'))
    with pytest.raises(fl.errors.SpecError, match="label: label = 'sick': only a .csv file has a column of labels"):
        fl.sweep(tmp_path / "s.toml", tmp_path / "none.h5", progress=False)


def test_data_are_shown_in_a_line() -> None:
    data = fl.datasets.synthetic("a6a", rows=2000)
    assert repr(data) == "Dataset(synthetic a6a, 2,000 × 122 sparse)"
    assert repr(fl.datasets.Dataset(np.ones(3), np.ones(3), "mine")) == "Dataset(mine, 3 dense)"
