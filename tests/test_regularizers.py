"""Value and prox of every regularizer: the definition of the prox, its non-expansiveness, and the oracle."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import cases
import fastldp as fl
from fastldp.errors import ArgumentError

D = cases.WEIGHTS.size
NAMES = sorted(cases.REGULARIZERS)
extreme = st.sampled_from([0.0, -0.0, 5e-324, -1e-300, 1e-12, 1.0, -1.0, 1e8, -1e100, 1e150])
moderate = st.floats(-3, 3, allow_nan=False)
points = arrays(np.float64, D, elements=st.one_of(moderate, extreme))
moderate_points = arrays(np.float64, D, elements=moderate)
scales = st.floats(1e-6, 10)


@pytest.mark.parametrize("name", NAMES)
@given(z=points, scale=scales)
def test_prox_is_in_the_set_and_idempotent_there(name: str, z: np.ndarray, scale: float) -> None:
    g = cases.REGULARIZERS[name][0]
    u = g.prox(z, scale)
    assert np.isfinite(g.value(u))
    assert np.isfinite(u).all()
    # A second projection (scale 0 leaves only the set) moves nothing.
    np.testing.assert_allclose(g.prox(u, 0.0), u, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@given(z=points, v=moderate_points, scale=scales)
def test_prox_optimality_condition(name: str, z: np.ndarray, v: np.ndarray, scale: float) -> None:
    """u = prox(z) exactly when ⟨z − u, v − u⟩ ≤ scale·(g(v) − g(u)) for every v of the set."""
    g = cases.REGULARIZERS[name][0]
    u = g.prox(z, scale)
    v = g.prox(v, 0.0)
    products = (z - u) * (v - u)
    rounding = 1e-12 * (1 + np.abs(products).sum() + np.abs(z).max() * D)
    assert products.sum() <= scale * (g.value(v) - g.value(u)) + rounding


@pytest.mark.parametrize("name", NAMES)
@given(z=points, w=points, scale=scales)
def test_prox_is_nonexpansive(name: str, z: np.ndarray, w: np.ndarray, scale: float) -> None:
    g = cases.REGULARIZERS[name][0]
    apart = np.abs(z - w).max()
    before = apart * np.linalg.norm((z - w) / apart) if apart > 0 else 0.0
    after = np.linalg.norm(g.prox(z, scale) - g.prox(w, scale))
    rounding = 1e-14 * D * max(np.abs(z).max(), np.abs(w).max())
    assert after <= before * (1 + 1e-12) + rounding


@pytest.mark.parametrize("name", NAMES)
@given(z=moderate_points, scale=scales)
def test_prox_and_value_agree_with_the_oracle(name: str, z: np.ndarray, scale: float) -> None:
    ours, reference = cases.REGULARIZERS[name]
    u = ours.prox(z, scale)
    np.testing.assert_allclose(u, reference.prox(z, scale), rtol=1e-12, atol=1e-14)
    assert ours.value(u) == pytest.approx(reference.value(u), rel=1e-12)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"zero"}))
@given(x=moderate_points, a=moderate_points)
def test_margins_bound_the_margin_over_the_set(name: str, x: np.ndarray, a: np.ndarray) -> None:
    g = cases.REGULARIZERS[name][0]
    margins = g.margins(a[None, :])
    assert margins is not None
    low, high = margins
    assert low[0] - 1e-12 <= a @ g.prox(x, 0.0) <= high[0] + 1e-12


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"zero", "box_l1_vector"}))
def test_margins_are_reached(name: str) -> None:
    """The bound is the least one: far out in the direction of a, the projection attains it."""
    g = cases.REGULARIZERS[name][0]
    a = np.array([0.3, -1.0, 0.2, 0.7, -0.1, 0.5, 0.05, -0.4, 0.9])
    margins = g.margins(a[None, :])
    assert margins is not None
    # Clear weights of the ℓ1 norm do not matter for a projection: scale 0.
    assert a @ g.prox(1e6 * a, 0.0) == pytest.approx(margins[1][0], rel=1e-5)


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "g",
    [
        fl.GroupL2(np.array([0, 1, 0, 2, 1, 1, 2, 0, 0]), 0.1, 0.4),
        fl.Box(np.linspace(-1.0, 0.2, 9), np.linspace(0.3, 2.0, 9)),
    ],
    ids=lambda g: type(g).__name__,
)
def test_margins_over_sets_that_are_not_alike_on_all_sides(g: fl.Regularizer, as_given: Any) -> None:
    """Bounds of gradients are made of them: none in the set is beyond, and one is there."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, 9)) * (rng.random((20, 9)) < 0.7)
    margins = g.margins(as_given(A))
    assert margins is not None
    low, high = margins
    inside = np.array([g.prox(point, 0.0) for point in 3.0 * rng.standard_normal((200, 9))])
    found = A @ inside.T
    assert (found <= high[:, None] + 1e-12).all()
    assert (found >= low[:, None] - 1e-12).all()
    for sign, side in ((1.0, high), (-1.0, low)):
        reached = [a @ g.prox(sign * 1e6 * a, 0.0) for a in A]
        np.testing.assert_allclose(reached, side, rtol=1e-5, atol=1e-9)


def test_values_outside_the_set_are_infinite() -> None:
    far = np.full(D, 5.0)
    assert [cases.REGULARIZERS[name][0].value(far) for name in NAMES if name != "zero"] == [np.inf] * 6


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: fl.BoxL1(-0.1, 1.0), "weight"),
        (lambda: fl.BoxL1(np.nan, 1.0), "weight"),
        (lambda: fl.BoxL1(np.array([0.1, -0.2]), 1.0), "weight"),
        (lambda: fl.BoxL1(0.1, 0.0), "bound"),
        (lambda: fl.BoxL1(0.1, np.inf), "bound"),
        (lambda: fl.Box(-1.0), "bound"),
        (lambda: fl.L2Ball(-1.0), "radius"),
        (lambda: fl.L1Ball(np.nan), "radius"),
        (lambda: fl.Simplex(0), "radius"),
        (
            lambda: fl.Problem(np.eye(3), [1, 1, -1], workers=1, regularizer=fl.BoxL1(np.array([0.1, 0.2]), 1.0)),
            "weight",
        ),
    ],
)
def test_bad_parameters_are_named(make: object, argument: str) -> None:
    assert callable(make)
    with pytest.raises(ArgumentError, match=f"^{argument} = "):
        make()
