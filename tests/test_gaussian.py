"""The normals: those of the formula at every address, Gaussian as a whole, and independent of each other.

Every draw has a fixed seed, so a test always passes or always fails. The margins are such that a correct
sampler would fail any of these tests for fewer than one seed in a hundred.
"""

import hashlib
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import naive
from fastldp.kernels.chacha import key_of
from fastldp.kernels.gaussian import box_muller, last_term, store_draw, store_group, uniforms
from fastldp.kernels.jit import serial
from fastldp.kernels.simd import (
    float32x16,
    float64x8,
    lane_numbers,
    load,
    load_as,
    store,
    uint32x8,
    uint32x16,
    words_like,
)
from fastldp.kernels.vmath import exp, sigmoid

Array = NDArray[Any]
PRECISIONS = pytest.mark.parametrize("dtype", [np.float64, np.float32])
LANES = {np.float64: 8, np.float32: 16}
SEED = 2024


@serial
def fill(keys: Any, first_round: int, first_worker: int, purpose: int, out: Any, row: Any, dithers: Any) -> None:
    """out[round, worker, coordinate, lane]; row and dithers are scratch (1, coordinates, lanes)."""
    for t in range(out.shape[0]):
        for worker in range(out.shape[1]):
            store_draw(row, dithers, 0, keys, first_round + t, first_worker + worker, purpose)
            for j in range(row.shape[1]):
                store(load(row, 0, j), out, t, worker, j)


def sample(dtype: Any, rounds: int, workers: int, d: int, seed: int = SEED, purpose: int = 0) -> Array:
    """(rounds, workers, d, repetitions) normals, rounds counted from 1."""
    lanes = LANES[dtype]
    keys = np.stack([key_of(seed, repetition) for repetition in range(lanes)], axis=1)
    out = np.empty((rounds, workers, d, lanes), dtype)
    fill(keys, 1, 0, purpose, out, *np.empty((2, 1, d, lanes), dtype))
    return out


@pytest.fixture(scope="module")
def million() -> Array:
    return sample(np.float64, rounds=64, workers=16, d=128)


def reference(lanes: int, rounds: int, workers: int, d: int, purpose: int) -> Array:
    return np.array(
        [
            [
                np.array([naive.normals(SEED, lane, worker, t, d, purpose) for lane in range(lanes)]).T
                for worker in range(workers)
            ]
            for t in range(1, rounds + 1)
        ]
    )


@pytest.mark.parametrize("d", [2, 8, 10, 16, 18, 24, 26, 40])
def test_the_formula_at_every_address(d: int) -> None:
    computed = sample(np.float64, rounds=3, workers=2, d=d, purpose=5)
    np.testing.assert_allclose(computed, reference(8, 3, 2, d, 5), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("d", [2, 8, 10, 16, 18, 24, 26, 40])
def test_single_precision_is_the_same_noise(d: int) -> None:
    computed = sample(np.float32, rounds=3, workers=2, d=d, purpose=5)
    np.testing.assert_allclose(computed, reference(16, 3, 2, d, 5), rtol=0, atol=1e-5)


def test_large_normals_are_made_of_further_words(million: Array) -> None:
    """All beyond √(24 ln 2) of a million: the formula with 117 bits, and about as many as there should be."""
    even, odd = million[:, :, 0::2], million[:, :, 1::2]
    large = np.argwhere(np.hypot(even, odd) > math.sqrt(24 * math.log(2)))
    expected = even.size * 2.0**-12
    assert abs(len(large) - expected) < 4 * math.sqrt(expected)
    for t, worker, pair, lane in large:
        reference = naive.normals(SEED, int(lane), int(worker), int(t) + 1, 128)[2 * pair : 2 * pair + 2]
        np.testing.assert_allclose(million[t, worker, 2 * pair : 2 * pair + 2, lane], reference, rtol=1e-14)


@serial
def fill_groups_in_lanes(keys: Any, out: Any, row: Any, dithers: Any) -> None:
    """out[round, worker, coordinate in the group, group]; row and dithers are scratch (1, 16, lanes)."""
    for t in range(out.shape[0]):
        for worker in range(out.shape[1]):
            groups = lane_numbers(words_like(load(row, 0, 0)))
            store_group(row, dithers, 0, 0, 128, keys, groups, (1 + t, worker, 0), False)
            for k in range(16):
                store(load(row, 0, k), out, t, worker, k)


@serial
def fill_rounds_in_lanes(keys: Any, first_round: int, out: Any, dithers: Any) -> None:
    """out[worker, round, coordinate]; dithers are scratch of the same shape."""
    for worker in range(out.shape[0]):
        rounds = lane_numbers(words_like(float64x8)) + np.uint32(first_round)
        store_draw(out, dithers, worker, keys, rounds, worker, 0, True)


@pytest.mark.thorough
def test_large_normals_are_the_same_whatever_the_lanes_hold(million: Array) -> None:
    """Runs, groups of coordinates or rounds: to the last bit, those that need further words included."""
    expected = million[..., 0]
    assert (np.hypot(expected[:, :, 0::2], expected[:, :, 1::2]) > math.sqrt(24 * math.log(2))).sum() > 4
    keys = np.repeat(key_of(SEED, 0)[:, None], 8, axis=1)
    groups = np.empty((64, 16, 16, 8))
    fill_groups_in_lanes(keys, groups, *np.empty((2, 1, 16, 8)))
    np.testing.assert_array_equal(groups.transpose(0, 1, 3, 2).reshape(expected.shape), expected)
    rounds = np.empty((8, 16, 8, 128))
    for eight in range(8):
        fill_rounds_in_lanes(keys, 1 + 8 * eight, rounds[eight], np.empty((16, 8, 128)))
    np.testing.assert_array_equal(rounds.transpose(0, 2, 1, 3).reshape(expected.shape), expected)


@serial
def from_words(like: Any, words_like: Any, words: Any, out: Any) -> None:
    for k in range(words.shape[0]):
        a0, b0 = load_as(words_like, words, k, 0), load_as(words_like, words, k, 1)
        a1, b1 = load_as(words_like, words, k, 2), load_as(words_like, words, k, 3)
        end = last_term(like, a0, load_as(words_like, words, k, 4), load_as(words_like, words, k, 5))
        a, b = box_muller(*uniforms(like, a0, b0, a1, b1, end))
        store(a, out, k, 0)
        store(b, out, k, 1)


def normals_from(dtype: Any, words: Array) -> Array:
    """(k, 2): the normals of each row of six words."""
    kind, words_kind = (float64x8, uint32x8) if dtype == np.float64 else (float32x16, uint32x16)
    out = np.empty((len(words), 2, kind.lanes), dtype)
    from_words(kind, words_kind, np.repeat(words[:, :, None], kind.lanes, axis=2), out)
    return out[..., 0]


@PRECISIONS
def test_extreme_words(dtype: Any) -> None:
    """All zeros and all ones, in every combination: the largest radius, none, and the ends of a turn."""
    out = normals_from(dtype, np.array(np.meshgrid(*[[0, 2**32 - 1]] * 6), np.uint32).reshape(6, 64).T)
    assert np.all(np.isfinite(out))
    radius = np.hypot(out[:, 0], out[:, 1])
    largest = math.sqrt(2 * math.log(2) * (118 if dtype == np.float64 else 32))
    assert radius.max() == pytest.approx(largest, rel=1e-6)
    assert radius.min() == 0.0


def test_words_around_the_threshold_of_further_words() -> None:
    """Just below 2⁻¹² the six words count, from there on four; and down to the smallest uniform."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, (400, 6), np.uint32)
    words[:, 0] = np.repeat([2**20, 2**20 - 1, 1, 0], 100)
    words[350:, 1] = 0
    words[375:, 4] = 0
    expected = [naive.box_muller(a0, b0, a1, b1, (e0, e1)) for a0, b0, a1, b1, e0, e1 in words.tolist()]
    np.testing.assert_allclose(normals_from(np.float64, words), expected, rtol=1e-14, atol=1e-14)


@PRECISIONS
def test_distribution(dtype: Any) -> None:
    values = sample(dtype, rounds=64, workers=8, d=128).ravel().astype(np.float64)
    n = len(values)
    assert stats.kstest(values, "norm").pvalue > 1e-3
    # E x^k and the variance of x^k, for a standard normal.
    moment = {k: (0.0 if k % 2 else float(math.prod(range(1, k, 2)))) for k in range(13)}
    for k in range(1, 7):
        deviation = math.sqrt((moment[2 * k] - moment[k] ** 2) / n)
        assert abs(np.mean(values**k) - moment[k]) < 4 * deviation


def test_tails(million: Array) -> None:
    size = np.abs(million)
    for threshold in (2.0, 3.0, 4.0, 4.5):
        expected = size.size * 2 * stats.norm.sf(threshold)
        assert abs(np.count_nonzero(size > threshold) - expected) < 4 * math.sqrt(expected)
    # Of a million the largest is near 5.
    assert 4.5 < size.max() < 7


@pytest.mark.parametrize("axis", range(4), ids=["rounds", "workers", "coordinates", "repetitions"])
def test_neighbours_along_every_axis_are_independent(million: Array, axis: int) -> None:
    """The next one and the one after: in value, in size, and jointly in an 8 x 8 table of quantiles."""
    edges = stats.norm.ppf(np.linspace(0, 1, 9))[1:-1]
    for lag in (1, 2):
        first = np.moveaxis(million, axis, 0)[:-lag].ravel()
        second = np.moveaxis(million, axis, 0)[lag:].ravel()
        n = len(first)
        assert abs(np.mean(first * second)) * math.sqrt(n) < 4
        assert abs(np.mean((first**2 - 1) * (second**2 - 1))) * math.sqrt(n) / 2 < 4
        cells = 8 * np.searchsorted(edges, first) + np.searchsorted(edges, second)
        assert stats.chisquare(np.bincount(cells, minlength=64)).pvalue > 1e-4


def test_the_two_of_a_pair_are_independent(million: Array) -> None:
    """Cosine and sine of one draw share a radius: the angle must be uniform, and independent of it."""
    even, odd = million[:, :, 0::2].ravel(), million[:, :, 1::2].ravel()
    angle = np.arctan2(odd, even) / (2 * math.pi) + 0.5
    radius = np.exp(-(even**2 + odd**2) / 2)
    assert stats.kstest(angle, "uniform").pvalue > 1e-3
    assert stats.kstest(radius, "uniform").pvalue > 1e-3
    cells = 16 * np.minimum(15, (16 * angle).astype(int)) + np.minimum(15, (16 * radius).astype(int))
    assert stats.chisquare(np.bincount(cells, minlength=256)).pvalue > 1e-4


def test_no_two_addresses_share_noise(million: Array) -> None:
    """Noise that leaves out the worker, the round or the repetition repeats itself: here no value does."""
    assert len(np.unique(million)) == million.size


def test_averages_over_workers_shrink(million: Array) -> None:
    """The published mistake: identical noise of all workers, which averaging never reduces."""
    mean = million.mean(axis=1)
    assert mean.var() * million.shape[1] == pytest.approx(1.0, abs=4 * math.sqrt(2 / mean.size))


def test_other_seeds_and_purposes_are_unrelated() -> None:
    base = sample(np.float64, 16, 4, 64)
    n = base.size
    for other in (sample(np.float64, 16, 4, 64, seed=SEED + 1), sample(np.float64, 16, 4, 64, purpose=1)):
        assert abs(np.mean(base * other)) * math.sqrt(n) < 4
        assert not np.any(base == other)


@serial
def mixture(keys: Any, out: Any, dithers: Any) -> None:
    """Something of everything: normals, logistic function, exponential."""
    store_draw(out, dithers, 0, keys, 1, 2, 3)
    for j in range(out.shape[1]):
        x = load(out, 0, j)
        store(load(dithers, 0, j) + x + sigmoid(x) * exp(x), out, 0, j)


def fingerprint() -> str:
    digest = hashlib.sha256()
    for dtype, lanes in LANES.items():
        out = np.empty((1, 2**14, lanes), dtype)  # some normals among them need further words
        mixture(np.stack([key_of(SEED, lane) for lane in range(lanes)], axis=1), out, np.empty_like(out))
        digest.update(out.tobytes())
    return digest.hexdigest()


@pytest.mark.thorough
def test_the_bits_do_not_depend_on_the_machine() -> None:
    """Without vector instructions, without a fused product in hardware: slow, but the same to the last bit."""
    plain = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    command = [sys.executable, "-c", "import test_gaussian; print(test_gaussian.fingerprint())"]
    folder = Path(__file__).parent
    there = subprocess.run(command, env=plain, cwd=folder, check=True, capture_output=True, text=True)
    assert there.stdout.strip() == fingerprint()
