"""Partitions: every row once, every worker some, the asked-for sizes, classes and seeds."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastldp as fl
from fastldp.datasets import partition, sample
from fastldp.errors import ArgumentError, DataError, UnknownNameError

WAYS = ("contiguous", "shuffled", "label", "dirichlet")
DIGITS = np.random.default_rng(0).integers(0, 10, 5000)


@given(
    how=st.sampled_from(WAYS[:-1]),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    classes=st.integers(1, 4),
    seed=st.integers(0, 5),
)
def test_any_sizes(how: str, sizes: list[int], classes: int, seed: int) -> None:
    labels = np.arange(sum(sizes)) % classes
    owners = partition(labels, len(sizes), how, sizes=sizes, seed=seed)
    assert owners.dtype == np.int64
    assert np.bincount(owners).tolist() == sizes
    np.testing.assert_array_equal(owners, partition(labels, len(sizes), how, sizes=sizes, seed=seed))


@pytest.mark.parametrize("how", WAYS)
def test_problems_take_partitions(how: str) -> None:
    data = fl.datasets.synthetic("ijcnn1", rows=200)
    owners = partition(data.b, 7, how)
    problem = fl.Problem(data.A, data.b, workers=owners)
    assert problem.sizes.sum() == 200
    if how != "dirichlet":
        assert sorted(problem.sizes.tolist(), reverse=True) == [29] * 4 + [28] * 3


@pytest.mark.parametrize("how", WAYS[1:])
def test_seeds_differ(how: str) -> None:
    assert (partition(DIGITS, 10, how, seed=1) != partition(DIGITS, 10, how, seed=2)).any()


def test_contiguous_is_what_a_problem_does_by_itself() -> None:
    A, b = np.eye(7), np.ones(7)
    owners = partition(b, 3)
    assert owners.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert fl.Problem(A, b, workers=owners).starts.tolist() == fl.Problem(A, b, workers=3).starts.tolist()


def test_shuffled_has_every_class_everywhere() -> None:
    owners = partition(DIGITS, 5, "shuffled")
    for worker in range(5):
        shares = np.bincount(DIGITS[owners == worker]) / 1000
        assert np.abs(shares - 0.1).max() < 0.04


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_by_label(share: float) -> None:
    labels = np.repeat(np.arange(10), 500)
    owners = partition(labels, 10, "label", share=share)
    own = np.array([(labels[owners == worker] == worker).mean() for worker in range(10)])
    # A class loses what was drawn uniformly, here and there, and the next makes up for it.
    np.testing.assert_allclose(own, 1 - share + 0.1 * share, atol=0.1 if share else 0)


def test_the_papers_mnist_split() -> None:
    labels = np.random.default_rng(1).integers(0, 10, 60000)
    rows, owners = sample(labels, 10, "label", sizes=3850, share=1000 / 3850, seed=4)
    assert np.bincount(owners).tolist() == [3850] * 10
    assert np.unique(rows).size == rows.size == 38500
    assert (np.diff(rows) > 0).all()
    for worker in range(10):
        counts = np.bincount(labels[rows[owners == worker]], minlength=10)
        # 2,850 of its own digit and its part of the 1,000; the others evenly.
        assert abs(counts[worker] - 2950) < 60
        assert np.abs(np.delete(counts, worker) - 100).max() < 60
    again = sample(labels, 10, "label", sizes=3850, share=1000 / 3850, seed=4)
    np.testing.assert_array_equal(again.rows, rows)
    np.testing.assert_array_equal(again.workers, owners)


def test_samples_of_unequal_sizes() -> None:
    for how in WAYS[:-1]:
        rows, owners = sample(DIGITS, 3, how, sizes=[5, 70, 300])
        assert np.bincount(owners).tolist() == [5, 70, 300]
        assert np.unique(rows).size == 375
    assert sample(DIGITS, 2, "contiguous", sizes=[1, 2]).rows.tolist() == [0, 1, 2]


def test_dirichlet_concentrates_as_alpha_falls() -> None:
    def largest_share(alpha: float) -> float:
        owners = partition(DIGITS, 10, "dirichlet", alpha=alpha, seed=3)
        tables = [np.bincount(DIGITS[owners == worker], minlength=10) for worker in range(10)]
        return float(np.mean([table.max() / table.sum() for table in tables]))

    assert largest_share(0.1) > 0.4
    assert largest_share(1000.0) < 0.15
    # Shares of all workers are distributed alike.
    sizes = np.mean([np.bincount(partition(DIGITS, 4, "dirichlet", seed=seed)) for seed in range(200)], axis=0)
    np.testing.assert_allclose(sizes, 1250, rtol=0.1)


def test_labels_of_any_kind() -> None:
    assert partition(["b", "a", "b"], 2, "label", sizes=[1, 2], share=0).tolist() == [1, 0, 1]
    assert partition(np.array([2.5, -1.0]), 2, "label", share=0).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([1, -1], 3), {}, ArgumentError, "workers = 3: .*every worker needs one"),
        (([1, -1], 0), {}, ArgumentError, "workers = 0"),
        (([1, -1], 2, "random"), {}, UnknownNameError, "use one of"),
        (([], 1), {}, DataError, "one label a row"),
        (([[1, -1]], 1), {}, DataError, "one label a row"),
        (([1, np.nan], 1), {}, DataError, "NaN labels"),
        (([1, -1], 2), {"sizes": [1, 2]}, DataError, r"add up to 3, .*2 rows; .*sample\(\)"),
        (([1, -1], 2), {"sizes": [0, 2]}, DataError, "worker 0 has no rows"),
        (([1, -1], 2), {"sizes": [2]}, DataError, "one a worker"),
        (([1, -1], 2), {"sizes": 2**63}, DataError, "only 2 rows"),
        (([1, -1], 2), {"sizes": [2**63, 1]}, DataError, "one a worker"),
        (([1, -1], 2), {"sizes": [2**62, 0]}, DataError, "worker 1 has no rows"),
        (([1, -1], 2), {"sizes": 1.5}, ArgumentError, "sizes = 1.5"),
        (([1, -1], 2), {"share": 0.5}, ArgumentError, 'only how="label"'),
        (([1, -1], 2, "label"), {"share": 1.5}, ArgumentError, "share = 1.5"),
        (([1, -1], 2, "label"), {"alpha": 1.0}, ArgumentError, 'only how="dirichlet"'),
        (([1, -1], 2, "dirichlet"), {"alpha": 0.0}, ArgumentError, "alpha = 0"),
        (([1, -1], 2, "dirichlet"), {"sizes": 1}, ArgumentError, "decide the sizes"),
        (([1, -1] * 20, 40, "dirichlet"), {"alpha": 0.01}, DataError, "larger alpha or fewer workers"),
        (([1, -1], 2, "shuffled"), {"seed": -1}, ArgumentError, "seed = -1"),
    ],
)
def test_what_cannot_be_split(arguments: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        partition(*arguments, **options)


def test_samples_that_cannot_be_drawn() -> None:
    with pytest.raises(DataError, match="only 4 rows"):
        sample([1, 1, 1, -1], 2, sizes=3)
    with pytest.raises(DataError, match="class 0, in the order of the labels, has 1 rows left and 2 are needed"):
        sample([1, 1, 1, 1, -1], 2, "label", sizes=2, share=0)
    with pytest.raises(UnknownNameError, match="dirichlet"):
        sample([1, -1], 1, "dirichlet", sizes=1)
