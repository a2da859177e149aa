"""What the engine asks of the machine."""

from pathlib import Path

import pytest

from fastldp.engine import hardware
from fastldp.kernels import jit


def _describe(folder: Path, *levels: tuple[str, str]) -> Path:
    for index, (level, size) in enumerate(levels):
        cache = folder / f"index{index}"
        cache.mkdir(parents=True)
        (cache / "level").write_text(f"{level}\n")
        (cache / "size").write_text(f"{size}\n")
    return folder


def test_the_second_level_is_found_where_linux_describes_it(tmp_path: Path) -> None:
    found = _describe(tmp_path / "one", ("1", "32K"), ("1", "32K"), ("2", "1024K"), ("3", "32M"))
    assert hardware._second_level_in(found) == 2**20
    assert hardware._second_level_in(_describe(tmp_path / "two", ("1", "48K"), ("2", "2M"))) == 2**21
    assert hardware._second_level_in(_describe(tmp_path / "three", ("2", "4096"))) == 4096


def test_where_nothing_is_said_the_usual_size_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hardware._second_level_in(tmp_path) == 0
    assert hardware._second_level_in(tmp_path / "none") == 0
    assert hardware._second_level_in(_describe(tmp_path / "odd", ("2", "large"))) == 0
    monkeypatch.setattr(hardware, "CACHES", tmp_path)
    assert hardware.second_level_bytes.__wrapped__() == hardware.USUAL_BYTES
    assert hardware.second_level_bytes() >= 2**16


@pytest.mark.parametrize(
    ("features", "held"),
    [("+sse2,+avx,+avx512f", (32, 64)), ("+sse2,+avx,-avx512f", (16, 32)), ("+sse2", (16, 16)), ("+neon", (32, 16))],
)
def test_vector_registers_by_the_instruction_set(
    features: str, held: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit.config, "CPU_FEATURES", features)
    assert hardware.vector_registers.__wrapped__() == held
