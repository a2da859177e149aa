"""Archives from outside: what they promise is checked before memory is given, and every error says what to do."""

import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuzzed_files
from fastldp import memory
from fastldp.archives import digest_of, read_arrays
from fastldp.errors import FileFormatError, TooLargeError

ARRAYS: dict[str, Any] = {
    "numbers": np.arange(12.0).reshape(3, 4),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "big_endian": np.arange(3, dtype=">i2"),
    "nothing": np.zeros((0, 5)),
    "scalar": np.asarray(1.5),
    "yes": np.asarray(True),
    "text": np.asarray("ε = 1"),
    "no text": np.asarray(""),
    "large": np.arange(400_000.0),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_every_kind(save: Any, tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    save(path, **ARRAYS)
    found = read_arrays(path, "")
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].flags.writeable
    assert digest_of(found) == digest_of(ARRAYS)
    assert list(read_arrays(path, "", ("text", "yes"))) == ["yes", "text"]


def test_the_digest_covers_everything() -> None:
    array = np.arange(4.0)
    digests = [
        digest_of({"a": array, "b": array}),
        digest_of({"a": array}),
        digest_of({"c": array, "b": array}),
        digest_of({"a": array.reshape(2, 2), "b": array}),
        digest_of({"a": array.view(np.int64), "b": array}),
        digest_of({"a": array + 1, "b": array}),
        digest_of({"a": np.concatenate([array, array]), "b": array[:0]}),
    ]
    assert len(set(digests)) == len(digests)
    assert digest_of({"b": array, "a": np.array([0.0, 9, 1, 9, 2, 9, 3])[::2]}) == digests[0]


def test_a_forged_shape_takes_no_memory(tmp_path: Path) -> None:
    forged = fuzzed_files.npy("{'descr': '<f8', 'fortran_order': False, 'shape': (100000, 1000000), }", bytes(800))
    (tmp_path / "a.npz").write_bytes(fuzzed_files.archive({"A.npy": forged}))
    tracemalloc.start()
    try:
        with pytest.raises(
            FileFormatError, match=r"a\.npz: .*'A': its shape \(100000, 1000000\) takes 800,000,000,000.*800\); mend it"
        ):
            read_arrays(tmp_path / "a.npz", "mend it")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", A=np.array([{}], dtype=object))
    with pytest.raises(FileFormatError, match=r"array 'A': it holds pickled objects"):
        read_arrays(tmp_path / "a.npz", "")


def test_more_than_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", A=np.zeros(10**6))
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    with pytest.raises(TooLargeError, match=r"a\.npz = 'about 0\.008 GB': only 0\.001 GB are free"):
        read_arrays(tmp_path / "a.npz", "")


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_packings_are_refused(packing: int, tmp_path: Path) -> None:
    """Their ratios have no limit."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", packing) as file:
        file.writestr("A.npy", fuzzed_files.npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", bytes(16)))
    with pytest.raises(FileFormatError, match="packed in a way that NumPy does not write"):
        read_arrays(tmp_path / "a.npz", "")


def test_names_and_files_that_are_missing(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", A=np.zeros(3))
    with pytest.raises(FileFormatError, match=r"it has no array 'b'\); write it with"):
        read_arrays(tmp_path / "a.npz", "write it with np.savez", ("A", "b"))
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(tmp_path / "a.npz", "a") as file:
        file.writestr("A.npy", b"")
    with pytest.raises(FileFormatError, match="two arrays 'A'"):
        read_arrays(tmp_path / "a.npz", "")
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "nowhere.npz", "")
    with pytest.raises(FileFormatError, match="directory"):
        read_arrays(tmp_path, "")
