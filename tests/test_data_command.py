"""`fastldp data`: the list of sets, where each comes from, and the numbers of one."""

import bz2
import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from fastldp.cli import main
from fastldp.datasets import known
from fastldp.datasets.loading import NAMES

TEXT = b"1 1:3 3:4\n-1 2:1\n-1 1:2\n-1 3:0.5\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing lies on this machine but what a test puts there; a6a is a small file."""
    digest = hashlib.sha256(TEXT).hexdigest()
    monkeypatch.setitem(known.FILES, "a6a", known.File("a6a", known.LIBSVM, digest))
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("FASTLDP_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FASTLDP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FASTLDP_MIRROR", raising=False)
    return tmp_path


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    assert main(["data", "--json"]) == 0
    return {one["name"]: one for one in json.loads(capsys.readouterr().out)}


def test_the_list_says_where_each_comes_from(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = listed(capsys)
    assert set(found) == {*NAMES} == {*known.SHAPES}
    assert not any(one["present"] for one in found.values())
    assert found["ijcnn1"]["source"] == "download"
    assert found["ijcnn1"]["place"] == known.LIBSVM + "ijcnn1.bz2"
    assert (found["ijcnn1"]["rows"], found["ijcnn1"]["features"]) == (49_990, 22)
    monkeypatch.setenv("FASTLDP_MIRROR", "https://mirror.example/sets")
    assert listed(capsys)["a9a"]["place"] == "https://mirror.example/sets/a9a"

    (folder / "cache").mkdir()
    (folder / "cache" / "w8a").write_bytes(b"unchecked")
    (folder / "data" / "a6a.bz2").write_bytes(bz2.compress(TEXT))
    found = listed(capsys)
    assert (found["w8a"]["source"], found["w8a"]["bytes"]) == ("cache", 9)
    assert found["a6a"]["source"] == "FASTLDP_DATA"
    assert found["a6a"]["place"] == str(folder / "data" / "a6a.bz2")
    assert main(["data"]) == 0
    shown = capsys.readouterr().out
    assert f"2 of {len(NAMES)} are on this machine" in shown
    assert str(folder / "cache" / "w8a") in shown


def test_a_set_of_several_files_is_present_when_all_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = known.files_of("mnist")
    (folder / "data" / "mnist").mkdir()
    for file in files[:-1]:
        (folder / "data" / file.served).write_bytes(b"12")
    assert listed(capsys)["mnist"]["present"] is False
    (folder / "data" / files[-1].served).write_bytes(b"12")
    found = listed(capsys)["mnist"]
    assert (found["present"], found["bytes"], found["place"]) == (True, 8, str(folder / "data" / "mnist"))


def test_a_set_is_found_and_described(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "data" / "a6a").write_bytes(TEXT)
    assert main(["data", "a6a", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["path"] == str(folder / "data" / "a6a")
    assert (facts["rows"], facts["features"]) == (4, 3)
    assert facts["density"] == pytest.approx(5 / 12)
    assert facts["labels"] == {"+1": 1, "-1": 3}
    assert facts["gradient bound"] == pytest.approx(5.0)
    assert main(["data", "a6a", "--rows", "2"]) == 0
    shown = capsys.readouterr().out
    assert "+1: 1 (50.0%), -1: 1 (50.0%)" in shown


def test_images_are_described(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {}
    (folder / "data" / "mnist").mkdir()
    for part, (images, labels) in known.MNIST_FILES.items():
        pixels = np.zeros((3, 28, 28), dtype=np.uint8)
        pixels[:, 0, :7] = 9
        contents = [
            bytes([0, 0, 8, 3]) + np.array([3, 28, 28], dtype=">i4").tobytes() + pixels.tobytes(),
            bytes([0, 0, 8, 1]) + np.array([3], dtype=">i4").tobytes() + bytes([0, 2, 2]),
        ]
        made = []
        for file, content in zip((images, labels), contents, strict=True):
            made.append(known.File(file.served, file.server, hashlib.sha256(content).hexdigest()))
            (folder / "data" / file.served).write_bytes(gzip.compress(content))
        parts[part] = tuple(made)
    for part, files in parts.items():
        monkeypatch.setitem(known.MNIST_FILES, part, files)
    assert main(["data", "mnist"]) == 0
    shown = capsys.readouterr().out
    assert "0: 1 (33.3%), 1: 0 (0.0%), 2: 2 (66.7%)" in shown
    assert "clip=" in shown
    assert f"density         {7 / 784:.6g}" in shown


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["data", "ijcnn"], "did you mean 'ijcnn1'?"),
        (["data", "--rows", "3"], "rows = 3"),
        (["data", "a6a", "--rows", "9"], "rows = 9: give a whole number from 1 to 4"),
    ],
)
def test_wrong_calls(call: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "data" / "a6a").write_bytes(TEXT)
    assert main(call) == 2
    assert words in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTLDP_DATA", str(folder / "nowhere"))
    assert main(["data"]) == 2
    assert "FASTLDP_DATA" in capsys.readouterr().err
