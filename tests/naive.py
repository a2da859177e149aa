"""The oracle: the paper in plain NumPy and plain loops, importing nothing of fastldp.

Zhang, Fay and Johansson, "Dynamic Privacy Allocation for Locally Differentially Private Federated Learning
with Composite Objectives". Equations are cited by their labels in paper.tex (eq-alg-Lambda, lem-descent);
what the paper leaves open is decided as the docstrings say. Slow on purpose: one formula a function.
"""

import hashlib
import itertools
import math
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Shards = list[tuple[Array, Array]]
# A loss by its name; a network by the widths of its layers, features first and classes last.
Slope = Callable[[float, float], float]
Loss = str | tuple[int, ...] | Slope

# --------------------------------------------------------------------------- noise: RFC 8439

MASK = 0xFFFFFFFF
CONSTANTS = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]  # "expand 32-byte k"
COLUMNS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
DIAGONALS = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]


def rotate_left(word: int, count: int) -> int:
    """word <<< count on 32 bits (RFC 8439 §2.1)."""
    return ((word << count) | (word >> (32 - count))) & MASK


def quarter_round(state: list[int], a: int, b: int, c: int, d: int) -> None:
    """RFC 8439 §2.1, in place on the words a, b, c, d of the state."""
    for left, right, turned, count in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[left] = (state[left] + state[right]) & MASK
        state[turned] = rotate_left(state[turned] ^ state[left], count)


def chacha20_block(key: list[int], words: tuple[int, int, int, int]) -> list[int]:
    """The 16 output words of RFC 8439 §2.3; words are the state's words 12 (counter) to 15."""
    initial = [*CONSTANTS, *key, *words]
    state = list(initial)
    for _ in range(10):
        for a, b, c, d in COLUMNS + DIAGONALS:
            quarter_round(state, a, b, c, d)
    return [(mixed + first) & MASK for mixed, first in zip(state, initial, strict=True)]


def key_of(seed: int, repetition: int, run: bytes = b"") -> list[int]:
    """The key of a run: blake2b of (seed, repetition, digest of the run) as 8 little-endian words."""
    material = seed.to_bytes(32, "little") + repetition.to_bytes(8, "little") + run
    digest = hashlib.blake2b(material, digest_size=32, person=b"fastldp noise v1").digest()
    return [int.from_bytes(digest[4 * i : 4 * i + 4], "little") for i in range(8)]


def uniform_bits(high: int, low: int) -> int:
    """The 53-bit integer k for which high·2⁻³² + (low >> 11)·2⁻⁵³ = k·2⁻⁵³, exactly."""
    return (high << 21) | (low >> 11)


def cos_sin_turn(bits: int) -> tuple[float, float]:
    """(cos 2πu, sin 2πu) for u = bits·2⁻⁵³: whole quarter turns are taken off on integers, without error."""
    quarter = (bits + (1 << 50)) >> 51
    angle = 2.0 * math.pi * ((bits - (quarter << 51)) * 2.0**-53)  # within ±π/4
    c, s = math.cos(angle), math.sin(angle)
    return [(c, s), (-s, c), (-c, -s), (s, -c)][quarter % 4]


def radius_uniform(high: int, low: int, finer: tuple[int, int]) -> float:
    """u1 in (0, 1]: the upper end of its cell of 2⁻⁵³; below 2⁻¹², the middle of its cell of 2⁻¹¹⁷, of 64 more bits."""
    k = uniform_bits(high, low)
    if k >= 1 << 41:
        return (k + 1) * 2.0**-53
    return float((((k << 32 | finer[0]) << 32 | finer[1]) << 1) + 1) * 2.0**-118


def box_muller(w0: int, w1: int, w2: int, w3: int, finer: tuple[int, int]) -> tuple[float, float]:
    """Two normals of four words, and of two more where they are large: r = √(−2 ln u1); (r cos 2πu2, r sin 2πu2)."""
    radius = math.sqrt(-2.0 * math.log(radius_uniform(w0, w1, finer)))
    c, s = cos_sin_turn(uniform_bits(w2, w3))
    return radius * c, radius * s


def dither(word: int) -> float:
    """k + ½ − 2¹⁰ for k, the 11 low bits of the word: the bits that `uniform_bits` leaves over."""
    return (word & 0x7FF) + 0.5 - 1024


def draws(seed: int, repetition: int, worker: int, round_: int, d: int, purpose: int = 0) -> tuple[Array, Array]:
    """The d normals and d dithers at an address: words 12..15 are (block, round from 1, worker from 0, purpose).

    Sixteen coordinates take their leading words from block 2c and their further ones from 2c + 1, the last eight or
    fewer take both from block 2c, first the leading ones. What large normals need beside is in block 2c + 2³¹.
    """
    key = key_of(seed, repetition)
    values: list[float] = []
    dithers: list[float] = []
    for group in range((d + 15) // 16):
        w = chacha20_block(key, (2 * group, round_, worker, purpose))
        few = d - 16 * group <= 8
        leading = w[:8] if few else w
        further = w[8:] if few else chacha20_block(key, (2 * group + 1, round_, worker, purpose))
        # Seldom needed, and as slow as the others.
        large = any(uniform_bits(*words) < 1 << 41 for words in list(zip(leading, further, strict=False))[::2])
        finer = chacha20_block(key, (2 * group + (1 << 31), round_, worker, purpose)) if large else [0] * 16
        for k in range(0, len(leading), 2):
            of_two = leading[k], further[k], leading[k + 1], further[k + 1]
            values.extend(box_muller(*of_two, (finer[k], finer[k + 1])))
            dithers.extend((dither(further[k]), dither(further[k + 1])))
    return np.array(values[:d]), np.array(dithers[:d])


def normals(seed: int, repetition: int, worker: int, round_: int, d: int, purpose: int = 0) -> Array:
    """The d normals at an address."""
    return draws(seed, repetition, worker, round_, d, purpose)[0]


# --------------------------------------------------------------------------- losses: eqn:basic_opt, eq-logreg


def slope(loss: str | Slope, margin: float, label: float) -> float:
    """dφ/d(margin): −b/(1 + exp(margin·b)) of eq-logreg's φ, or margin − b of the squared loss; or given."""
    if callable(loss):
        return loss(margin, label)
    if loss == "squared":
        return margin - label
    small = math.exp(-abs(margin * label))  # never overflows
    return -label * (small if margin * label > 0 else 1.0) / (1.0 + small)


def loss_value(loss: str, margin: float, label: float) -> float:
    """φ: ln(1 + exp(−margin·b)) (eq-logreg) or ½(margin − b)²."""
    if loss == "squared":
        return 0.5 * (margin - label) ** 2
    return float(np.logaddexp(0.0, -margin * label))


def huber(delta: float) -> Slope:
    """Of ½r² for |r| ≤ δ and δ|r| − ½δ² beyond, r = margin − b (Huber 1964): r, or ±δ."""

    def of(margin: float, label: float) -> float:
        r = margin - label
        return r if abs(r) <= delta else math.copysign(delta, r)

    return of


def smoothed_hinge(width: float) -> Slope:
    """Of the hinge (1 − u)₊, u = b·margin, made quadratic for 1 − width ≤ u ≤ 1 (Shalev-Shwartz, Zhang 2013)."""

    def of(margin: float, label: float) -> float:
        u = label * margin
        if u >= 1:
            return 0.0
        return -label if u <= 1 - width else -label * (1 - u) / width

    return of


def clipped(v: Array, bound: float) -> Array:
    """v scaled to norm ≤ bound: the paper's Ĉ of Table 1."""
    norm = float(np.linalg.norm(v))
    return v if norm <= bound else v * (bound / norm)


def sample_gradient(loss: Loss, row: Array, label: float, x: Array) -> Array:
    """∇f_il(x) of one sample."""
    if isinstance(loss, tuple):
        return network_gradient(loss, row, int(label), x)
    return slope(loss, float(row @ x), label) * row


def gradient(loss: Loss, A: Array, b: Array, x: Array, clip: float = math.inf) -> Array:
    """The data part of ∇f_i(x): (1/m_i) Σ_l ∇f_il(x), each sample's clipped (eqn:basic_opt, without l2)."""
    total = np.zeros(len(x))
    for row, label in zip(A, b, strict=True):
        total += clipped(sample_gradient(loss, row, float(label), x), clip)
    return total / len(b)


def inside(loss: Loss, A: Array, b: Array, x: Array, clip: float) -> int:
    """How many samples have a gradient that is shorter than the threshold."""
    return sum(
        float(np.linalg.norm(sample_gradient(loss, row, float(label), x))) < clip
        for row, label in zip(A, b, strict=True)
    )


def full_gradient(loss: str, A: Array, b: Array, l2: float, x: Array) -> Array:
    """∇f_i(x) with the l2 term, which counts to f_i."""
    return gradient(loss, A, b, x) + l2 * x


def layers(widths: tuple[int, ...], x: Array) -> list[tuple[Array, Array]]:
    """W and c of every layer; x has them one after the other, W by rows (a row a unit), then c."""
    found, at = [], 0
    for inputs, units in itertools.pairwise(widths):
        W = x[at : at + units * inputs].reshape(units, inputs)
        at += units * inputs
        found.append((W, x[at : at + units]))
        at += units
    return found


def network_units(widths: tuple[int, ...], a: Array, x: Array) -> list[Array]:
    """The sample, what each hidden layer gives for it, 1/(1 + exp(−(Wh + c))), and the softmax of the last."""
    given = [a]
    for k, (W, c) in enumerate(layers(widths, x)):
        z = W @ given[-1] + c
        last = k == len(widths) - 2
        given.append(np.exp(z - max(z)) / sum(np.exp(z - max(z))) if last else 1.0 / (1.0 + np.exp(-z)))
    return given


def cross_entropy(widths: tuple[int, ...], a: Array, label: int, x: Array) -> float:
    """−ln of the probability of the sample's class: the appendix on nonconvex problems."""
    return -math.log(network_units(widths, a, x)[-1][label])


def network_gradient(widths: tuple[int, ...], a: Array, label: int, x: Array) -> Array:
    """The gradient of one sample's cross-entropy, formed: δ hᵀ and δ of every layer, from the last to the first."""
    h = network_units(widths, a, x)
    delta = h[-1] - np.eye(widths[-1])[label]
    parts: list[Array] = []
    for k in reversed(range(len(widths) - 1)):
        parts = [np.outer(delta, h[k]).ravel(), delta, *parts]
        delta = layers(widths, x)[k][0].T @ delta * h[k] * (1.0 - h[k])
    return np.concatenate(parts)


def accuracy(widths: tuple[int, ...], A: Array, b: Array, x: Array) -> float:
    """The share of samples whose class is the most probable."""
    chosen = [int(np.argmax(network_units(widths, a, x)[-1])) for a in A]
    return float(np.mean(np.array(chosen) == b))


def local_objective(loss: str, A: Array, b: Array, l2: float, x: Array) -> float:
    """f_i(x) = (1/m_i) Σ_l φ(a_ilᵀx, b_il) + (l2/2)‖x‖²."""
    total = 0.0
    for row, label in zip(A, b, strict=True):
        total += loss_value(loss, float(row @ x), float(label))
    return total / len(b) + 0.5 * l2 * float(x @ x)


# --------------------------------------------------------------------------- regularizers: asm:g-prox


class Regularizer(NamedTuple):
    """g by its value and its prox: prox(z, s) = argmin_u s·g(u) + ½‖z − u‖²."""

    value: Callable[[Array], float]
    prox: Callable[[Array, float], Array]


def indicator(inside: bool) -> float:
    """0 on the set, ∞ off it."""
    return 0.0 if inside else math.inf


def at_most(value: float, limit: float) -> bool:
    """value ≤ limit up to rounding, so that a projection lies in its own set."""
    return value <= limit * (1.0 + 1e-12)


def box_l1(weight: float | Array, bound: float) -> Regularizer:
    """The paper's example (2): Σ ω_j|z_j| over [−α, α]^d; prox = min{max{|z| − sω, 0}, α}·sign(z)."""

    def value(x: Array) -> float:
        return float(np.sum(weight * np.abs(x))) + box(bound).value(x)

    def prox(z: Array, scale: float) -> Array:
        return np.minimum(np.maximum(np.abs(z) - scale * weight, 0.0), bound) * np.sign(z)

    return Regularizer(value, prox)


def box(bound: float) -> Regularizer:
    """The indicator of [−α, α]^d (the paper's example (1)); prox is the projection."""
    return Regularizer(
        lambda x: indicator(at_most(float(np.max(np.abs(x))), bound)),
        lambda z, scale: np.minimum(np.maximum(z, -bound), bound),
    )


def l2_ball(radius: float) -> Regularizer:
    """The indicator of ‖x‖₂ ≤ r; the projection scales to the sphere."""
    return Regularizer(
        lambda x: indicator(at_most(float(np.linalg.norm(x)), radius)),
        lambda z, scale: clipped(z, radius),
    )


def project_simplex(z: Array, radius: float) -> Array:
    """Onto {x ≥ 0, Σx = r}: (z − θ)₊, θ of the longest prefix of sorted z that stays positive."""
    theta, total = 0.0, 0.0
    for count, entry in enumerate(sorted(z.tolist(), reverse=True), start=1):
        total += entry
        if entry > (total - radius) / count:
            theta = (total - radius) / count
    return np.maximum(z - theta, 0.0)


def simplex(radius: float) -> Regularizer:
    """The indicator of {x ≥ 0, Σx = r}."""

    def value(x: Array) -> float:
        return indicator(bool(np.all(x >= 0.0)) and math.isclose(float(np.sum(x)), radius, rel_tol=1e-12))

    return Regularizer(value, lambda z, scale: project_simplex(z, radius))


def l1_ball(radius: float) -> Regularizer:
    """The indicator of ‖x‖₁ ≤ r; from outside, project |z| onto the simplex and put the signs back."""

    def prox(z: Array, scale: float) -> Array:
        return z if float(np.sum(np.abs(z))) <= radius else np.sign(z) * project_simplex(np.abs(z), radius)

    return Regularizer(lambda x: indicator(at_most(float(np.sum(np.abs(x))), radius)), prox)


def l1(weight: float | Array) -> Regularizer:
    """Σ ω_j|x_j|; prox is the soft threshold."""
    return Regularizer(
        lambda x: float(np.sum(weight * np.abs(x))),
        lambda z, scale: np.sign(z) * np.maximum(np.abs(z) - scale * weight, 0.0),
    )


def sides(lower: float | Array, upper: float | Array) -> Regularizer:
    """The indicator of a box with two sides."""
    return Regularizer(
        lambda x: indicator(bool(np.all((x >= lower) & (x <= upper)))),
        lambda z, scale: np.minimum(np.maximum(z, lower), upper),
    )


def group_l2(groups: list[int], weights: list[float], bound: float = math.inf) -> Regularizer:
    """Σ_k ω_k‖x_k‖₂ over groups, ‖x_k‖₂ ≤ α: the norm of each group shrinks by sω_k and is cut at α."""

    def of(x: Array, k: int) -> float:
        return math.sqrt(sum(float(v) ** 2 for v, group in zip(x, groups, strict=True) if group == k))

    def value(x: Array) -> float:
        norms = [of(x, k) for k in range(len(weights))]
        return sum(w * v for w, v in zip(weights, norms, strict=True)) + indicator(at_most(max(norms), bound))

    def prox(z: Array, scale: float) -> Array:
        out = np.zeros_like(z)
        for j, k in enumerate(groups):
            norm = of(z, k)
            if norm > 0:
                out[j] = z[j] / norm * min(bound, max(0.0, norm - scale * weights[k]))
        return out

    return Regularizer(value, prox)


def zero() -> Regularizer:
    """g = 0: the prox is the identity."""
    return Regularizer(lambda x: 0.0, lambda z, scale: z)


def weights_of(shards: Shards, weighting: str) -> Array:
    """w_i = 1/n of eqn:basic_opt, or m_i/M where rows count, M = Σ_i m_i."""
    sizes = [len(b) for _, b in shards]
    return np.array([m / sum(sizes) if weighting == "rows" else 1.0 / len(sizes) for m in sizes])


def objective(loss: str, shards: Shards, l2: float, g: Regularizer, x: Array, weighting: str = "uniform") -> float:
    """Σ_i w_i f_i(x) + g(x) (eqn:basic_opt)."""
    w = weights_of(shards, weighting)
    return sum(float(w[i]) * local_objective(loss, A, b, l2, x) for i, (A, b) in enumerate(shards)) + g.value(x)


def objective_gradient(loss: str, shards: Shards, l2: float, x: Array, weighting: str = "uniform") -> Array:
    """Σ_i w_i ∇f_i(x)."""
    w = weights_of(shards, weighting)
    return np.asarray(sum(w[i] * full_gradient(loss, A, b, l2, x) for i, (A, b) in enumerate(shards)))


# --------------------------------------------------------------------------- constants: asm-convex


def eigenvalues(A: Array) -> Array:
    """The spectrum of AᵀA/m, ascending."""
    return np.asarray(np.linalg.eigvalsh(A.T @ A / len(A)), dtype=np.float64)


def smoothness(loss: str, shards: Shards, l2: float, weighting: str = "uniform") -> float:
    """L_f = max_i w_i L_i; L_i = c·λmax(AᵀA)/m_i + l2 with c = 1/4 (logistic) or 1 (squared)."""
    curvature, w = 0.25 if loss == "logistic" else 1.0, weights_of(shards, weighting)
    return max(float(w[i]) * (curvature * float(eigenvalues(A)[-1]) + l2) for i, (A, _) in enumerate(shards))


def strong_convexity(loss: str, shards: Shards, l2: float, weighting: str = "uniform") -> float:
    """μ_f = min_i w_i μ_i; μ_i = l2 (logistic) or λmin(AᵀA)/m_i + l2 (squared)."""
    curvature, w = 0.0 if loss == "logistic" else 1.0, weights_of(shards, weighting)
    least = [curvature * max(float(eigenvalues(A)[0]), 0.0) + l2 for A, _ in shards]
    return min(float(w[i]) * least[i] for i in range(len(shards)))


def gradient_bound_logistic(A: Array) -> float:
    """B = max_l ‖a_l‖, since |dφ/d(margin)| < 1."""
    return max(float(np.linalg.norm(row)) for row in A)


# --------------------------------------------------------------------------- privacy: lem-total-dp, thm-final


def rho_zcdp(epsilon: float, delta: float) -> float:
    """The ρ of eq-epsilon, ε = ρ + 2√(ρ ln(1/δ)): ρ = (√(ε + ln(1/δ)) − √ln(1/δ))²."""
    log = math.log(1.0 / delta)
    return (math.sqrt(epsilon + log) - math.sqrt(log)) ** 2


def normal_cdf(z: float) -> float:
    """Φ(z), accurate in the left tail."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def delta_gdp(rho: float, epsilon: float) -> float:
    """δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) with μ² = 2ρ."""
    mu = math.sqrt(2.0 * rho)
    return normal_cdf(-epsilon / mu + mu / 2.0) - math.exp(epsilon) * normal_cdf(-epsilon / mu - mu / 2.0)


def rho_spent(variances: Array, B: float, n: int, m: int) -> float:
    """ρ = Σ_t 2B²/(n²m²ξ_t²) (lem-total-dp)."""
    return sum(2.0 * B**2 / (n**2 * m**2 * float(variance)) for variance in variances)


def dynamic_variances(T: int, step: float, mu: float, B: float, rho: float, n: float, m: int) -> Array:
    """ξ_t² = √(π/q_t), q_t = (1 − γ min{μ_f, 1})^(T−t), √π = 2B² Σ√q_t/(ρn²m²) (eq-variance); n is 1/w_i."""
    q = np.array([(1.0 - step * min(mu, 1.0)) ** (T - t) for t in range(1, T + 1)])
    root_pi = 2.0 * B**2 * float(np.sum(np.sqrt(q))) / (rho * n**2 * m**2)
    variances: Array = root_pi / np.sqrt(q)
    return variances


def static_variances(T: int, B: float, rho: float, n: int, m: int) -> Array:
    """ξ_t² = 2B²T/(ρn²m²) for every t (after lem-descent)."""
    return np.full(T, 2.0 * B**2 * T / (rho * n**2 * m**2))


def planned_weights(H: Array, step: float, n: int, T: int) -> Array:
    """w_t = tr (I − γH/n)^{2(T−t)}, t = 1..T."""
    M = np.eye(len(H)) - step * H / n
    return np.array([np.trace(np.linalg.matrix_power(M, 2 * (T - t))) for t in range(1, T + 1)])


def planned_variances(H: Array, T: int, step: float, B: float, rho: float, n: int, m: int) -> Array:
    """ξ_t² ∝ 1/√w_t, scaled so that Σ 2B²/(n²m²ξ_t²) = ρ."""
    root_w = np.sqrt(planned_weights(H, step, n, T))
    return 2 * B**2 / (rho * n**2 * m**2) * sum(root_w) / root_w


def linear_error(H: Array, e: Array, step: float, n: int, variances: Array) -> tuple[float, float]:
    """E‖e‖² after T rounds of e ← (I − γH/n)e − γζ̄, from its mean and its covariance; ζ̄ has these variances."""
    M, covariance = np.eye(len(H)) - step * H / n, np.zeros_like(H)
    for v in variances:
        e, covariance = M @ e, M @ covariance @ M.T + step**2 * v * np.eye(len(H))
    return float(e @ e), float(np.trace(covariance))


def disagreement(H: Array, W: Array, step: float, variances: Array) -> float:
    """(1/n) Σ E‖x̄ − xᵢ‖² after noise of these (n, T) variances, of workers whose fᵢ bend alike.

    From the covariance of all xᵢ and Λᵢ, round by round and along each eigenvector of H:
    v = (I − γH/n)x − γΛ − γζ, Λ ← Λ + (I − W)v, x ← v − γ(I − W)v.
    """
    n, total = len(W), 0.0
    one, apart = np.eye(n), np.eye(n) - W
    into_both = np.vstack([one - step * apart, apart])
    for h in np.linalg.eigvalsh(H):
        M = into_both @ np.hstack([(1 - step * h / n) * one, -step * one])
        M[n:, n:] += one
        covariance = np.zeros((2 * n, 2 * n))
        for v in variances.T:
            covariance = M @ covariance @ M.T + step**2 * (into_both * v) @ into_both.T
        total += float(np.trace(covariance[:n, :n]) - np.mean(covariance[:n, :n]) * n) / n
    return total


def error_after(tau: float, H: Array, e: Array, price: float, planned: bool) -> float:
    """‖e^{−Hτ}e₀‖² + price·(∫√w)², or price·τ∫w where the noise is equal, w = tr e^{−2Hs}; by a fine midpoint rule."""
    rates, directions = np.linalg.eigh(H)
    ds = tau / 20_000
    w = sum(np.exp(-2 * rate * ds * (np.arange(20_000) + 0.5)) for rate in rates)
    start = float(np.exp(-2 * rates * tau) @ (directions.T @ e) ** 2)
    return start + price * float((np.sum(np.sqrt(w)) * ds) ** 2 if planned else tau * np.sum(w) * ds)


def local_variance(releases: int, clip: float, rho: float, m: int) -> float:
    """σ² = 2C²·releases/(ρm²), of each release of a baseline: sensitivity 2C/m."""
    return 2.0 * clip**2 * releases / (rho * m**2)


def spacing(sigma: float) -> float:
    """s: 2⁻¹⁵ times the largest power of two that is at most σ."""
    return 2.0 ** (math.floor(math.log2(sigma)) - 15)


def release(q: Array, sigma: float, noise: Array, dithers: Array, gridded: bool) -> Array:
    """h = s·(k + round(Nσ/s + f) + U), q/s = k + f, k the nearest multiple of 2¹⁰; off the grid q + σN, or q."""
    if sigma == 0.0 or not gridded:
        return q + sigma * noise
    s = spacing(sigma)
    whole = 1024 * np.rint(q / s / 1024)
    # Added last: beyond 2⁵² there are no halves.
    h: Array = s * (whole + (np.rint(noise * (sigma / s) + (q / s - whole)) + dithers))
    return h


class Address(NamedTuple):
    """Where a draw of noise lives: the arguments of `normals`."""

    seed: int
    repetition: int
    worker: int
    round_: int
    d: int
    purpose: int = 0


COUNT = 2**32 - 2  # the purpose of a count's noise; before the first round, one less


class Adaptive:
    """Clipping as of Andrew et al. (2021): C ← C·exp(−η(p − q)), p the share of samples whose gradients are within C.

    Here the server is not trusted: each worker releases its own count over all samples, with noise, in the rounds
    `counted`, and C of a round is made of the counts of the rounds before it. All is in units of C: deviations of
    gradients are those of queries over C. `steps` has, if given, thresholds and the paces that steps have there.
    """

    def __init__(
        self,
        quantile: float,
        start: float,
        gains: dict[int, float],  # η by round: 0, −1, −2, ... come before the first
        deviations: Array,  # (n,): of the counts
        samples: int,
        limits: tuple[float, float] = (0.0, math.inf),
        steps: tuple[Array, Array] | None = None,
        factor: float = 1.0,
    ) -> None:
        self.quantile, self.start, self.gains = quantile, start, gains
        self.deviations, self.samples, self.limits, self.steps = deviations, samples, limits, steps
        self.factor = factor  # what C is multiplied by after the counts before the first round
        self.released: dict[int, list[float]] = {}

    def begin(self, loss: Loss, shards: Shards, x0: Array, at: Address, gridded: bool) -> None:
        """The counts before the first round, at the start."""
        for round_ in sorted(t for t in self.gains if t <= 0):
            C = self.threshold(round_)
            for i, shard in enumerate(shards):
                self.count(inside(loss, *shard, x0, C), at._replace(worker=i, round_=round_), gridded)

    def threshold(self, round_: int) -> float:
        """C of a round."""
        C = self.start
        for t in sorted(self.released):
            if t < round_:
                C = C * math.exp(-self.gains[t] * (sum(self.released[t]) - self.quantile))
                C = C * self.factor if t == 0 else C
                most = self.limits[1] / min(1.0, self.factor) if t < 0 else self.limits[1]
                C = min(max(C, self.limits[0]), most)
        return C

    def pace(self, round_: int) -> float:
        """What the step of a round is multiplied by: ln of it is linear in ln C between the thresholds given."""
        if self.steps is None or not any(t < round_ for t in self.released):
            return 1.0
        return math.exp(np.interp(math.log(self.threshold(round_)), np.log(self.steps[0]), np.log(self.steps[1])))

    def count(self, inside_: int, at: Address, gridded: bool) -> None:
        """The release of a worker's count."""
        sigma = float(self.deviations[at.worker])
        address = (*at[:3], abs(at.round_), 1, COUNT if at.round_ > 0 else COUNT - 1)
        noise, dithers = draws(*address) if sigma > 0.0 else (np.zeros(1), np.zeros(1))
        h = release(np.array([inside_ / self.samples]), sigma, noise, dithers, gridded)
        self.released.setdefault(at.round_, []).append(float(h[0]))


class Sampled(NamedTuple):
    """Poisson sampling: a release is of samples each drawn with probability q = limit/2³², clipped as given.

    And a worker takes part in a round with probability r = workers/2³². Who does not sends nothing; in secret, noise
    alone, as of no sample drawn, and releases are divided by r too.
    """

    limit: int = 2**32
    clip: float | Adaptive = math.inf
    workers: int = 2**32
    secret: bool = False

    def takes_part(self, seed: int, repetition: int, worker: int, round_: int) -> bool:
        """By the worker's coin; before the first round all do."""
        key = derived_key(seed, repetition, b"fastldp takes v1")
        coin = chacha20_block(key, (worker // 16, round_, 0, 0))[worker % 16]
        return round_ <= 0 or coin < self.workers

    def drawn(self, at: Address, size: int) -> list[int]:
        """The numbers of a worker's samples whose coins are below the limit."""
        key = derived_key(at.seed, at.repetition, b"fastldp draws v1")
        if self.secret and not self.takes_part(*at[:4]):
            return []
        address = at.round_, at.worker, at.purpose
        coins = [word for block in range(-(-size // 16)) for word in chacha20_block(key, (block, *address))]
        return [number for number in range(size) if coins[number] < self.limit]


Clip = float | Adaptive | Sampled


def derived_key(seed: int, repetition: int, what: bytes) -> list[int]:
    """A key of its own for something of a run: blake2b of the run's."""
    own = b"".join(word.to_bytes(4, "little") for word in key_of(seed, repetition))
    digest = hashlib.blake2b(own, digest_size=32, person=what).digest()
    return [int.from_bytes(digest[4 * i : 4 * i + 4], "little") for i in range(8)]


def participants(clip: Clip, seed: int, repetition: int, round_: int, n: int, least: int = 1) -> list[int]:
    """The workers that send something in a round: none, where they are fewer than that."""
    if not isinstance(clip, Sampled) or clip.secret:
        return list(range(n))
    found = [i for i in range(n) if clip.takes_part(seed, repetition, i, round_)]
    return found if len(found) >= least else []


def pace(clip: Clip, round_: int) -> float:
    """What the step of a round is multiplied by."""
    if isinstance(clip, Sampled):
        return pace(clip.clip, round_)
    return clip.pace(round_) if isinstance(clip, Adaptive) else 1.0


def unit(clip: Clip, round_: int) -> float:
    """What deviations are in units of."""
    if isinstance(clip, Sampled):
        return unit(clip.clip, round_)
    return clip.threshold(round_) if isinstance(clip, Adaptive) else 1.0


def released_gradient(
    loss: Loss,
    shard: tuple[Array, Array],
    x: Array,
    weight: float,
    sigma: float,
    at: Address,
    gridded: bool,
    clip: Clip,
) -> Array:
    """h = release of a multiple of ∇f_i(x): all a worker computes from its data; where clipping adapts a count too.

    Where samples are drawn with probability q, of the sum over these divided by q m_i.
    """
    if isinstance(clip, Sampled):
        drawn = clip.drawn(at, len(shard[1]))
        rate = clip.limit / 2**32 * (clip.workers / 2**32 if clip.secret else 1.0)
        weight = weight * len(drawn) / (rate * len(shard[1]))
        # Of no sample the mean is no number, and the sum is zero, as the weight is.
        drawn = drawn or [0]
        shard = shard[0][drawn], shard[1][drawn]
        return released_gradient(loss, shard, x, weight, sigma, at, gridded, clip.clip)
    # A warm start's round 0 comes after the counts before the first round.
    C, in_units_of = (clip.threshold(max(at.round_, 1)),) * 2 if isinstance(clip, Adaptive) else (clip, 1.0)
    q = weight * gradient(loss, *shard, x, C) / in_units_of
    noise, dithers = draws(*at) if sigma > 0.0 else (np.zeros(at.d), np.zeros(at.d))
    h = in_units_of * release(q, sigma, noise, dithers, gridded)
    if isinstance(clip, Adaptive) and at.round_ > 0 and at.round_ in clip.gains and at.purpose == 0:
        clip.count(inside(loss, *shard, x, C), at, gridded)
    return h


# --------------------------------------------------------------------------- Algorithm 1: eq-alg-Lambda


class History(NamedTuple):
    """x^t and Λ^t for t = 1..T+1, and of every round the messages x̃_i and their mean."""

    x: Array  # (T+1, n, d)
    dual: Array  # (T+1, n, d)
    messages: Array  # (T, n, d)
    mean: Array  # (T, d)


def primal_dual(
    shards: Shards,
    loss: Loss,
    l2: float,
    g: Regularizer,
    x0: Array,
    step: float,
    deviations: Array,
    seed: int,
    repetition: int,
    gridded: bool = True,
    clip: Clip = math.inf,
    rounds: int | None = None,
    weighting: str = "uniform",
) -> History:
    """Algorithm 1 with the deviations ξ_{i,t} as (n, T); `rounds` stops before the horizon T.

    x0 is x¹, one for all or one a worker. The l2 term is added after the release: it knows no data. Where workers are
    weighted, the block of worker i in the gradient of the stacked f is w_i∇f_i(x_i). Who is absent stays as it was, and
    the mean is that of the participants.
    """
    n, d, w = len(shards), x0.shape[-1], weights_of(shards, weighting)
    T = deviations.shape[1] if rounds is None else rounds
    x, dual = np.zeros((T + 1, n, d)), np.zeros((T + 1, n, d))
    messages, mean = np.zeros((T, n, d)), np.zeros((T, d))
    x[0] = x0
    base = step
    for t in range(T):
        step = base * pace(clip, t + 1)
        here = participants(clip, seed, repetition, t + 1, n, least=2)
        x[t + 1], dual[t + 1], mean[t] = x[t], dual[t], mean[t - 1]
        for i in here:
            at = Address(seed, repetition, i, t + 1, d)
            h = released_gradient(loss, shards[i], x[t, i], w[i], float(deviations[i, t]), at, gridded, clip)
            messages[t, i] = x[t, i] - step * (h + w[i] * l2 * x[t, i] + dual[t, i])
        mean[t] = sum(messages[t, i] for i in here) / len(here) if here else mean[t]
        for i in here:
            dual[t + 1, i] = dual[t, i] + messages[t, i] - mean[t]
            z = messages[t, i] - step * (messages[t, i] - mean[t])
            x[t + 1, i] = g.prox(z, step / n)
    return History(x, dual, messages, mean)


class Mixed(NamedTuple):
    """The same on a graph, where each worker has what it made of its neighbours' messages in the place of the mean."""

    x: Array  # (T+1, n, d)
    dual: Array  # (T+1, n, d)
    messages: Array  # (T, n, d)
    heard: Array  # (T, n, d)


# The worker and the purpose in the address of a link's coin: no worker has this number, and no release this purpose.
NO_WORKER = 2**32 - 1


def metropolis(n: int, links: list[tuple[int, int]]) -> Array:
    """W of a graph: 1/(1 + the larger degree) for each link, and what is left for the worker itself."""
    degrees = [sum(i in link for link in links) for i in range(n)]
    W = np.zeros((n, n))
    for i, k in links:
        W[i, k] = W[k, i] = 1 / (1 + max(degrees[i], degrees[k]))
    for i in range(n):
        W[i, i] = 1 - sum(W[i, k] for k in range(n) if k != i)
    return W


def with_failures(W: Array, seed: int, repetition: int, round_: int, failures: float) -> Array:
    """W of a round: a link is missing where the 24 leading bits at its address are below failures·2²⁴.

    The links i < k are numbered in order; sixteen have their words in one block. Both ends keep the weight themselves.
    """
    W = W.copy()
    n = len(W)
    links = [(i, k) for i in range(n) for k in range(i + 1, n) if W[i, k] > 0]
    for number, (i, k) in enumerate(links):
        address = (number // 16, round_, NO_WORKER, COIN)
        word = chacha20_block(key_of(seed, repetition), address)[number % 16]
        if word >> 8 < failures * 2**24:
            W[i, i] += W[i, k]
            W[k, k] += W[i, k]
            W[i, k] = W[k, i] = 0.0
    return W


def gossip(
    shards: Shards,
    loss: Loss,
    l2: float,
    g: Regularizer,
    x0: Array,
    step: float,
    deviations: Array,
    W: Array,
    seed: int,
    repetition: int,
    gridded: bool = True,
    clip: Clip = math.inf,
    weighting: str = "uniform",
    failures: float = 0.0,
) -> Mixed:
    """Algorithm 1 with Σ_j W_ij x̃_j in the place of the mean, in the dual and in z."""
    n, d, w, T = len(shards), x0.shape[-1], weights_of(shards, weighting), deviations.shape[1]
    x, dual = np.zeros((T + 1, n, d)), np.zeros((T + 1, n, d))
    messages, heard = np.zeros((T, n, d)), np.zeros((T, n, d))
    x[0] = x0
    for t in range(T):
        for i in range(n):
            at = Address(seed, repetition, i, t + 1, d)
            h = released_gradient(loss, shards[i], x[t, i], w[i], float(deviations[i, t]), at, gridded, clip)
            messages[t, i] = x[t, i] - step * (h + w[i] * l2 * x[t, i] + dual[t, i])
        of_round = with_failures(W, seed, repetition, t + 1, failures) if failures else W
        for i in range(n):
            heard[t, i] = sum(of_round[i, k] * messages[t, k] for k in range(n))
            dual[t + 1, i] = dual[t, i] + messages[t, i] - heard[t, i]
            x[t + 1, i] = g.prox(messages[t, i] - step * (messages[t, i] - heard[t, i]), step / n)
    return Mixed(x, dual, messages, heard)


def dual_star(loss: str, shards: Shards, l2: float, x_star: Array, weighting: str = "uniform") -> Array:
    """Λ* = Ly*: eq-fix-8 with z* of eq-z* gives Λ_i* = −w_i∇f_i(x*) + (1/n) Σ_j w_j∇f_j(x*)."""
    n, w = len(shards), weights_of(shards, weighting)
    gradients = [w[i] * full_gradient(loss, A, b, l2, x_star) for i, (A, b) in enumerate(shards)]
    return np.array([-gradients[i] + sum(gradients) / n for i in range(n)])


# --------------------------------------------------------------------------- metrics: the experiments


def squared_norm(v: Array) -> float:
    """‖v‖²."""
    return float(v @ v)


def consensus(x: Array) -> float:
    """(1/n) Σ_i ‖x̄ − x_i‖², x̄ the mean of the models: optimality's first term."""
    n, mean = len(x), sum(x) / len(x)
    return sum(squared_norm(mean - x[i]) for i in range(n)) / n


def distance(x: Array, x_star: Array) -> float:
    """‖x̄ − x*‖²/‖x*‖²: optimality's second term."""
    return squared_norm(sum(x) / len(x) - x_star) / squared_norm(x_star)


def optimality(x: Array, x_star: Array) -> float:
    """The error of the paper's experiments."""
    return consensus(x) + distance(x, x_star)


def lyapunov(x: Array, dual: Array, x_star: Array, dual_star: Array, step: float) -> float:
    """Φ = ‖x − x*‖² + γ‖y − y*‖² (before lem-descent); y and y* lie in range(L), where Λ = Ly = y."""
    n = len(x)
    primal = sum(squared_norm(x[i] - x_star) for i in range(n))
    return primal + step * sum(squared_norm(dual[i] - dual_star[i]) for i in range(n))


# --------------------------------------------------------------------------- baselines


class Averaging(NamedTuple):
    """The server's models x^t, t = 1..T+1, and where the local steps of each round ended."""

    x: Array  # (T+1, d)
    local: Array  # (T, n, d)


def fedavg(
    shards: Shards,
    loss: Loss,
    l2: float,
    x0: Array,
    step: float,
    local_steps: int,
    server_step: float,
    deviations: Array,
    rounds: int,
    seed: int,
    repetition: int,
    gridded: bool = True,
    clip: Clip = math.inf,
    weighting: str = "uniform",
) -> Averaging:
    """DP-FedAvg: K steps y ← y − η(∇f_i(y) + noise), then x ← x + η_g Σ_i w_i(y_i − x); deviations (n,)."""
    n, d, w = len(shards), len(x0), weights_of(shards, weighting)
    x, local = np.zeros((rounds + 1, d)), np.zeros((rounds, n, d))
    x[0] = x0
    base = step
    for t in range(rounds):
        step = base * pace(clip, t + 1)
        here = participants(clip, seed, repetition, t + 1, n)
        for i in here:
            y = x[t]
            for k in range(local_steps):
                at = Address(seed, repetition, i, t + 1, d, k)
                h = released_gradient(loss, shards[i], y, 1.0, float(deviations[i]), at, gridded, clip)
                y = y - step * (h + l2 * y)
            local[t, i] = y
        x[t + 1] = x[t] + server_step * sum(w[i] * (local[t, i] - x[t]) for i in here) / (sum(w[i] for i in here) or 1)
    return Averaging(x, local)


def extrapolation(moves: Array, noise: float, w: Array) -> float:
    """FedExP's η_g = max{1, Σ_i w_i‖Δ_i‖²/(2‖Σ_i w_iΔ_i‖²)}, what noise adds to the mean of the squares taken off."""
    mean = squared_norm(np.asarray(sum(weight * move for weight, move in zip(w, moves, strict=True))))
    squares = sum(weight * squared_norm(move) for weight, move in zip(w, moves, strict=True))
    return max(1.0, float(squares - noise) / (2.0 * mean)) if mean > 0.0 else 1.0


def fedexp(
    shards: Shards,
    loss: Loss,
    l2: float,
    x0: Array,
    step: float,
    local_steps: int,
    deviations: Array,
    rounds: int,
    seed: int,
    repetition: int,
    gridded: bool = True,
    clip: Clip = math.inf,
    weighting: str = "uniform",
) -> Averaging:
    """LDP-FedEXP: a round of DP-FedAvg, then x ← x + η_g Δ̄ with η_g of the noisy updates Δ_i = y_i − x.

    The noise of a worker's K releases adds Kη²dσ_i² to ‖Δ_i‖².
    """
    n, d, w = len(shards), len(x0), weights_of(shards, weighting)
    x, local = np.zeros((rounds + 1, d)), np.zeros((rounds, n, d))
    x[0] = x0
    noise = sum(float(w[i]) * local_steps * step**2 * d * float(deviations[i]) ** 2 for i in range(n))
    for t in range(rounds):
        scale = unit(clip, t + 1)
        here = participants(clip, seed, repetition, t + 1, n)
        for i in here:
            y = x[t]
            for k in range(local_steps):
                at = Address(seed, repetition, i, t + 1, d, k)
                h = released_gradient(loss, shards[i], y, 1, float(deviations[i]), at, gridded, clip)
                y = y - step * (h + l2 * y)
            local[t, i] = y
        x[t + 1] = x[t]
        if here:
            moves, counting = local[t, here] - x[t], w[here] / sum(w[here])
            mean = sum(counting[i] * moves[i] for i in range(len(here)))
            x[t + 1] = x[t] + extrapolation(moves, noise * scale**2, counting) * mean
    return Averaging(x, local)


class Scaffold(NamedTuple):
    """As Averaging, with the control variates c_i^t and c^t, t = 1..T+1."""

    x: Array  # (T+1, d)
    local: Array  # (T, n, d)
    control: Array  # (T+1, n, d)
    server_control: Array  # (T+1, d)


def scaffold(
    shards: Shards,
    loss: Loss,
    l2: float,
    x0: Array,
    step: float,
    local_steps: int,
    server_step: float,
    deviations: Array,
    rounds: int,
    seed: int,
    repetition: int,
    gridded: bool = True,
    clip: Clip = math.inf,
    warm_start: bool = False,
    weighting: str = "uniform",
) -> Scaffold:
    """DP-SCAFFOLD: y ← y − η(∇f_i(y) + noise − c_i + c), c_i⁺ = c_i − c + (x − y)/(Kη), c += Σ_i w_i(c_i⁺ − c_i).

    The warm start's releases are addressed as round 0: c_i = mean of K noisy gradients at x0, c = Σ_i w_i c_i.
    """
    n, d, K, w = len(shards), len(x0), local_steps, weights_of(shards, weighting)
    x, local = np.zeros((rounds + 1, d)), np.zeros((rounds, n, d))
    control, server_control = np.zeros((rounds + 1, n, d)), np.zeros((rounds + 1, d))
    x[0] = x0

    def noisy_gradient(i: int, round_: int, k: int, y: Array) -> Array:
        at = Address(seed, repetition, i, round_, d, k)
        return released_gradient(loss, shards[i], y, 1.0, float(deviations[i]), at, gridded, clip) + l2 * y

    if warm_start:
        for i in range(n):
            control[0, i] = sum(noisy_gradient(i, 0, k, x0) for k in range(K)) / K
        server_control[0] = sum(w[i] * control[0, i] for i in range(n))
    base = step
    for t in range(rounds):
        step = base * pace(clip, t + 1)
        here = participants(clip, seed, repetition, t + 1, n)
        control[t + 1] = control[t]
        for i in here:
            y = x[t]
            for k in range(K):
                y = y - step * (noisy_gradient(i, t + 1, k, y) - control[t, i] + server_control[t])
            local[t, i] = y
            control[t + 1, i] = control[t, i] - server_control[t] + (x[t] - y) / (K * step)
        x[t + 1] = x[t] + server_step * sum(w[i] * (local[t, i] - x[t]) for i in here) / (sum(w[i] for i in here) or 1)
        server_control[t + 1] = server_control[t] + sum(w[i] * (control[t + 1, i] - control[t, i]) for i in range(n))
    return Scaffold(x, local, control, server_control)


class Releases(NamedTuple):
    """The server's models x^t, t = 1..T+1 (of AC-SA the aggregates), and what the workers released."""

    x: Array  # (T+1, d)
    messages: Array  # (T, n, d)


def isrl(
    shards: Shards,
    loss: Loss,
    l2: float,
    g: Regularizer,
    x0: Array,
    step: float,
    deviations: Array,
    rounds: int,
    seed: int,
    repetition: int,
    gridded: bool = True,
    clip: Clip = math.inf,
    weighting: str = "uniform",
) -> Releases:
    """ISRL-DP: x ← prox_{ηg}(x − η mean_i(n w_i∇f_i(x) + noise)); the projection where g is a set."""
    n, d, w = len(shards), len(x0), weights_of(shards, weighting)
    x, messages = np.zeros((rounds + 1, d)), np.zeros((rounds, n, d))
    x[0] = x0
    base = step
    for t in range(rounds):
        step = base * pace(clip, t + 1)
        here = participants(clip, seed, repetition, t + 1, n)
        for i in here:
            at = Address(seed, repetition, i, t + 1, d)
            messages[t, i] = released_gradient(loss, shards[i], x[t], n * w[i], float(deviations[i]), at, gridded, clip)
        mean = sum(messages[t, i] for i in here) / max(1, len(here))
        x[t + 1] = g.prox(x[t] - step * (mean + l2 * x[t]), step) if here else x[t]
    return Releases(x, messages)


def tail_mean(x: Array, count: int) -> Array:
    """ISRL-DP's answer: the mean of the last `count` of x²..x^{T+1}, or with 0 the last alone."""
    tail = x[1:][-max(count, 1) :]
    return np.asarray(sum(tail) / len(tail))


def isrl_accelerated(
    shards: Shards,
    loss: Loss,
    l2: float,
    g: Regularizer,
    x0: Array,
    upsilon: float,
    mu: float,
    deviations: Array,
    rounds: int,
    seed: int,
    repetition: int,
    gridded: bool = True,
    clip: Clip = math.inf,
    weighting: str = "uniform",
) -> Releases:
    """Accelerated ISRL-DP (Lowy and Razaviyayn 2023), one stage of Ghadimi and Lan's AC-SA (2012).

    α_r = 2/(r+1), η_r = 4υ/(r(r+1)); w_md mixes w_ag and w; w minimises
    α[⟨h, w⟩ + g(w) + (μ/2)‖w_md − w‖²] + ½[(1−α)μ + η]‖w_old − w‖²; w_ag ← αw + (1−α)w_ag.
    """
    n, d, weights = len(shards), len(x0), weights_of(shards, weighting)
    x, messages = np.zeros((rounds + 1, d)), np.zeros((rounds, n, d))
    x[0] = w = x0
    for t in range(rounds):
        alpha, eta = 2.0 / (t + 2), 4.0 * upsilon / ((t + 1) * (t + 2))
        pull = (1.0 - alpha) * mu + eta
        md = ((1.0 - alpha) * (mu + eta) * x[t] + alpha * pull * w) / (eta + (1.0 - alpha**2) * mu)
        here = participants(clip, seed, repetition, t + 1, n)
        for i in here:
            at = Address(seed, repetition, i, t + 1, d)
            messages[t, i] = released_gradient(
                loss, shards[i], md, n * weights[i], float(deviations[i]), at, gridded, clip
            )
        x[t + 1] = x[t]
        if not here:
            continue
        h = sum(messages[t, i] for i in here) / len(here) + l2 * md
        w = g.prox((alpha * mu * md + pull * w - alpha * h) / (mu + eta), alpha / (mu + eta))
        x[t + 1] = alpha * w + (1.0 - alpha) * x[t]
    return Releases(x, messages)


class Skipping(NamedTuple):
    """The server's models x^t and the workers' control variates h_i^t, t = 1..T+1, and when they communicated."""

    x: Array  # (T+1, d)
    control: Array  # (T+1, n, d)
    coins: npt.NDArray[np.bool_]  # (T,)


# The purpose of a coin: no release has it.
COIN = 2**32 - 1


def coin(seed: int, repetition: int, round_: int, probability: float) -> bool:
    """Whether the 24 leading bits at an address are below p·2²⁴: worker 0's of this round, for this purpose."""
    word = chacha20_block(key_of(seed, repetition), (0, round_, 0, COIN))[0]
    return word >> 8 < probability * 2**24


def scaffnew(
    shards: Shards,
    loss: Loss,
    l2: float,
    g: Regularizer,
    x0: Array,
    step: float,
    probability: float,
    deviations: Array,
    rounds: int,
    seed: int,
    repetition: int,
    gridded: bool = True,
    clip: Clip = math.inf,
    weighting: str = "uniform",
) -> Skipping:
    """ProxSkip (Mishchenko et al. 2022, Algorithm 1) on Σ_i f_i(x_i) + ψ, ψ = n·g where all x_i agree, with noise.

    With weights n w_i f_i is in the place of f_i.
    x̂_i = x_i − γ(∇f_i(x_i) + noise − h_i); where the coin says so x_i = prox_{(γ/p)g}(mean_j x̂_j − (γ/p)h_j), else
    x_i = x̂_i; and h_i += (p/γ)(x_i − x̂_i). For g = 0 the h_i sum to zero: Scaffnew. p is taken as the coins have it.
    """
    n, d, p = len(shards), len(x0), math.ceil(probability * 2**24) / 2**24
    w = weights_of(shards, weighting)
    model, control = np.zeros((rounds + 1, d)), np.zeros((rounds + 1, n, d))
    coins = np.zeros(rounds, dtype=np.bool_)
    model[0] = x0
    x = np.tile(x0, (n, 1))
    for t in range(rounds):
        moved = np.zeros((n, d))
        for i in range(n):
            at = Address(seed, repetition, i, t + 1, d)
            h = released_gradient(loss, shards[i], x[i], n * w[i], float(deviations[i]), at, gridded, clip)
            moved[i] = x[i] - step * (h + n * w[i] * l2 * x[i] - control[t, i])
        coins[t] = coin(seed, repetition, t + 1, p)
        if coins[t]:
            model[t + 1] = g.prox(sum(moved[j] - step / p * control[t, j] for j in range(n)) / n, step / p)
            x = np.tile(model[t + 1], (n, 1))
        else:
            model[t + 1] = model[t]
            x = moved
        control[t + 1] = control[t] + p / step * (x - moved)
    return Skipping(model, control, coins)


# --------------------------------------------------------------------------- data: LIBSVM's text format

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


def libsvm_row(line: str, first_index: int) -> tuple[float, list[tuple[int, float]]]:
    """Label and entries of a line that holds something; ValueError where it is not in the format."""
    words = re.split(r"[ \t\r]+", line.strip(" \t\r"))
    label, *pairs = words
    if pairs and re.fullmatch(r"qid:[0-9]+", pairs[0]):
        pairs = pairs[1:]
    if not re.fullmatch(NUMBER, label) or not all(re.fullmatch(f"[0-9]+:{NUMBER}", pair) for pair in pairs):
        raise ValueError("not in the format")
    entries = [(int(index), float(value)) for index, value in (pair.split(":") for pair in pairs)]
    indices = [index for index, _ in entries]
    if indices != sorted(set(indices)) or not all(first_index <= index < 2**31 for index in indices):
        raise ValueError("indices")
    if not all(math.isfinite(number) for number in [float(label), *(value for _, value in entries)]):
        raise ValueError("not finite")
    return float(label), entries


def libsvm_rows(text: str, first_index: int = 0) -> tuple[list[tuple[float, list[tuple[int, float]]]], list[int]]:
    """The rows of a file, and the numbers of the lines that are not in the format."""
    rows, bad = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.split("#")[0]
        if content.strip(" \t\r"):
            try:
                rows.append(libsvm_row(content, first_index))
            except ValueError:
                bad.append(number)
    return rows, bad


def sampled_delta(rate: float, s: float, epsilon: float) -> float:
    """∫ (P − e^ε Q)₊ for P, Q = (1 − q) N(0, s²) + q N(±1, s²), by a sum over small steps."""
    z = np.linspace(-1 - 15 * s, 1 + 15 * s, 2_000_001)

    def density(mean: float) -> Array:
        return np.asarray(np.exp(-((z - mean) ** 2) / (2 * s * s)) / (s * math.sqrt(2 * math.pi)))

    p, q = ((1 - rate) * density(0) + rate * density(mean) for mean in (1, -1))
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0)) * (z[1] - z[0]))


def sampled_delta_in_a_plane(rate: float, s: float, alpha: float, a: Array, b: Array) -> float:
    """The same of gradients a and b, not on a line: in the plane they span, as all else is alike."""
    x = np.array([np.linalg.norm(a), 0.0])
    along = float(a @ b) / float(np.linalg.norm(a))
    y = np.array([along, math.sqrt(max(0.0, float(b @ b) - along**2))])
    side = np.linspace(-1 - 8 * s, 1 + 8 * s, 400)
    first, second = np.meshgrid(side, side, indexing="ij")

    def density(mean: Array) -> Array:
        square = (first - mean[0]) ** 2 + (second - mean[1]) ** 2
        return np.asarray(np.exp(-square / (2 * s * s)) / (2 * math.pi * s * s))

    p, q = ((1 - rate) * density(np.zeros(2)) + rate * density(mean) for mean in (x, y))
    return float(np.sum(np.maximum(p - alpha * q, 0)) * (side[1] - side[0]) ** 2)
