"""LIBSVM files: against the oracle on every kind of line, exact numbers, and errors that name the line."""

import bz2
import gzip
import lzma
import math
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fastldp as fl
import naive
from fastldp.datasets import libsvm
from fastldp.errors import ArgumentError, FileFormatError


def read(text: str | bytes, **options: object) -> fl.datasets.Dataset:
    content = text.encode() if isinstance(text, str) else text
    return libsvm.from_text(content, "a file", **({"features": None, "zero_based": "auto"} | options))  # type: ignore[arg-type]


def rows_of(data: fl.datasets.Dataset, base: int) -> list[tuple[float, list[tuple[int, float]]]]:
    """The rows as the oracle has them."""
    A = data.A
    return [
        (
            float(label),
            [(int(A.indices[k]) + base, float(A.data[k])) for k in range(int(A.indptr[row]), int(A.indptr[row + 1]))],
        )
        for row, label in enumerate(data.b)
    ]


def line_of(error: pytest.ExceptionInfo[FileFormatError]) -> int:
    found = re.search(r"line (\d+)", str(error.value))
    assert found, error.value
    return int(found[1])


# Against the oracle

numbers = st.one_of(
    st.integers(-1000, 1000).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-10, 10).map("{:.6g}".format),
    st.from_regex(r"[+-]?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
broken = st.sampled_from(
    ["nan", "-inf", "Infinity", "1e", ".", "+", "--1", "0x10", "1_0", "1e999", "1,5", "", "²", "1d3", "\0", "1.2.3"]
)
indices = st.one_of(st.integers(0, 30), st.sampled_from([10**6, 2**31 - 1, 2**31, 10**18, 10**30]))
blanks = st.sampled_from([" ", "  ", "\t", " \t "])
endings = st.sampled_from(["", " ", "\r", "\t\r", " # a comment with 3:4", "#"])


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Mostly in the format, sometimes not in one of the usual ways."""
    kind = draw(st.integers(0, 19))
    if kind == 0:
        return draw(st.sampled_from(["", "   ", "\r", "# nothing", " \t# 1 2:3"]))
    if kind == 1:
        return draw(st.text("0123456789:.+-eE qid#\t\r", max_size=12))
    pairs = sorted(draw(st.lists(indices.filter(lambda i: 0 < i < 10**7), max_size=5, unique=True)))
    words = [f"{index}:{draw(numbers)}" for index in pairs]
    if kind == 2:
        words.append(f"{draw(indices)}:{draw(numbers)}")
    if kind == 3:
        words.insert(
            0, draw(st.sampled_from(["qid:7", "qid:", "qid:x", "5", "3:", ":3", "3:4:5", "-1:2", "+1:2", "é:1"]))
        )
    if kind == 4:
        words.append(f"31:{draw(broken)}")
    label = draw(broken) if kind == 5 else draw(numbers)
    return draw(blanks).join([label, *words]) + draw(endings)


@settings(max_examples=200)
@given(text=st.lists(lines(), min_size=1, max_size=6).map("\n".join), end=st.booleans(), chunk=st.integers(1, 40))
@example(text="1 2:18446744073709551616 3:1", end=True, chunk=1)
@example(text="1 1:5e-324 2:2.2250738585072011e-308 3:1.7976931348623157e308", end=False, chunk=1)
@example(text="0.1e-400 1:0e999999999999 2:-0", end=False, chunk=1)
def test_any_text(text: str, end: bool, chunk: int) -> None:
    text += "\n" * end
    reference, bad = naive.libsvm_rows(text)
    before, libsvm.CHUNK = libsvm.CHUNK, chunk
    try:
        if bad:
            with pytest.raises(FileFormatError) as error:
                read(text)
            assert line_of(error) in bad
        elif not reference or not any(entries for _, entries in reference):
            with pytest.raises(FileFormatError, match="has no"):
                read(text)
        else:
            base = 0 if any(index == 0 for _, entries in reference for index, _ in entries) else 1
            computed = read(text)
            assert rows_of(computed, base) == reference
            signs = [math.copysign(1, value) for _, entries in reference for _, value in entries]
            np.testing.assert_array_equal(np.copysign(1, computed.A.data), signs)
            assert computed.A.has_canonical_format
    finally:
        libsvm.CHUNK = before


def test_numbers_are_rounded_as_python_rounds_them() -> None:
    """Doubles of all magnitudes in seventeen digits, more digits than fit, and numbers half way between two doubles."""
    rng = np.random.default_rng(5)
    doubles = [number for number in _doubles(rng, 20_000) if math.isfinite(number)]
    halves = [2**53 + 2 * int(k) + 1 for k in rng.integers(0, 2**52, 2000)]
    texts = [
        *(f"{number:.16e}" for number in doubles),
        *(f"{number:.18e}" for number in doubles[:5000]),
        *(f"{number:.30e}" for number in doubles[:500]),
        *(str(half) for half in halves),
        *(f"{half * 5}e-1" for half in halves),
        *(f"{half}{zeros}.{ones}" for half in halves[:50] for zeros, ones in (("", "0" * 20 + "1"), ("0" * 9, "0"))),
    ]
    computed = read("\n".join(f"{text} 1:{text}" for text in texts))
    reference = [float(text) for text in texts]
    assert computed.b.tolist() == reference
    assert computed.A.data.tolist() == reference


def _doubles(rng: np.random.Generator, count: int) -> list[float]:
    return [number for (number,) in struct.iter_unpack("<d", rng.bytes(8 * count))]


def test_the_result_does_not_depend_on_chunks_or_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    text = "".join(
        f"{rng.integers(-1, 2)} " + " ".join(f"{j + 1}:{rng.normal()!r}" for j in range(rng.integers(0, 9))) + "\n"
        for _ in range(300)
    )
    whole = read(text)
    for chunk, cores in ((7, 1), (100, 3), (5000, 2)):
        monkeypatch.setattr(libsvm, "CHUNK", chunk)
        monkeypatch.setattr(libsvm, "available_cores", lambda cores=cores: cores)
        again = read(text)
        np.testing.assert_array_equal(again.b, whole.b)
        for array in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(again.A, array), getattr(whole.A, array))


# What is in the format


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["plain", "gzip", "bzip2", "xz"]
)
def test_packed_files(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(pack(b"1 1:2\n-1 3:4\n"))
    assert fl.datasets.read_libsvm(file).A.toarray().tolist() == [[2, 0, 0], [0, 0, 4]]
    if pack is not bytes:
        file.write_bytes(file.read_bytes()[:-5])
        with pytest.raises(FileFormatError, match="not whole"):
            fl.datasets.read_libsvm(file)


def test_the_kinds_of_lines() -> None:
    data = read("\n# head\r\n+1\tqid:12  2:1e-3\t1000000:-.5 # tail\r\n\r\n-1\r\n 0.5 3:0 ")
    assert data.b.tolist() == [1, -1, 0.5]
    assert data.A.shape == (3, 1_000_000)
    assert data.A.indices.tolist() == [1, 999_999, 2]
    assert data.A.data.tolist() == [1e-3, -0.5, 0.0]  # a zero that is spelled out is kept
    assert data.A.dtype == np.float64
    assert data.A.indices.dtype == np.int32


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read("\ufeff-1 1:5\n1 2:6").b.tolist() == [-1, 1]
    with pytest.raises(FileFormatError, match="line 2: the label"):
        read("-1 1:5\n\ufeff1 2:6\n")


def test_where_indices_begin() -> None:
    assert read("1 0:5 2:6").A.toarray().tolist() == [[5, 0, 6]]
    assert read("1 1:5 2:6").A.toarray().tolist() == [[5, 6]]
    assert read("1 1:5 2:6", zero_based=True).A.toarray().tolist() == [[0, 5, 6]]
    with pytest.raises(FileFormatError, match=r"line 2: .*zero_based=True"):
        read("1 1:5\n1 0:5", zero_based=False)
    with pytest.raises(ArgumentError, match="zero_based"):
        read("1 1:5", zero_based="perhaps")


def test_the_number_of_columns() -> None:
    assert read("1 1:5", features=4).A.shape == (1, 4)
    assert read("1\n-1", features=4).A.shape == (2, 4)
    assert read("1 4:5", features=4).A.shape == (1, 4)
    for text, options in (("1 1:1\n1 5:5", {}), ("1 0:1\n1 4:5", {}), ("1 1:1\n1 4:5", {"zero_based": True})):
        with pytest.raises(FileFormatError, match="line 2: .*larger than"):
            read(text, features=4, **options)
    with pytest.raises(ArgumentError, match="features = 0"):
        read("1 1:5", features=0)


# What is not: the message names the line and the word


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2:1 2:3", "'2:3' repeats"),
        ("1 3:1 2:3", "'2:3' repeats one or comes after"),
        ("x 1:2", "label 'x'"),
        ("nan 1:2", "label 'nan' is not a finite"),
        ("1,2 1:2", "label '1,2'"),
        ("1 a:2", "'a:2' is not index:value"),
        ("1 -3:2", "'-3:2' is not index:value"),
        ("1 3", "'3' is not index:value"),
        ("1 3:x", "value of '3:x'"),
        ("1 3:inf", "value of '3:inf' is not a finite"),
        ("1 3:1e999", "'3:1e999' is too large"),
        ("1e999 3:1", "'1e999' is too large"),
        (f"1 {10**18}:1", "larger than 2,147,483,647"),
        ("1 2:1 qid:3", "'qid:3' is not index:value"),
        ("1 3:4\x0b", r"'3:4\\x0b'"),
        ("1 3:" + "9" * 500 + "x", r"9\.\.\.'"),
    ],
)
def test_errors_name_line_and_word(line: str, message: str) -> None:
    with pytest.raises(FileFormatError, match=message) as error:
        read(f"1 1:2\n\n# comment\n{line}\n1 1:2\n")
    assert line_of(error) == 4
    assert "cut off" not in str(error.value)


@pytest.mark.parametrize("tail", ["-1 3:", "-1 3", "-", "-1 3:1e", "-1 3:-"])
def test_a_line_cut_off_is_said_to_be(tail: str) -> None:
    with pytest.raises(FileFormatError, match="line 2: .*may be cut off"):
        read("1 1:2\n" + tail)


def test_nothing_to_read(tmp_path: Path) -> None:
    for text in ("", "\n\n", "# only a comment"):
        with pytest.raises(FileFormatError, match="no rows"):
            read(text)
    with pytest.raises(FileFormatError, match="features="):
        read("1\n-1\n")
    with pytest.raises(ArgumentError, match="no such file"):
        fl.datasets.read_libsvm(tmp_path / "nowhere")
