"""The same job done by others: Algorithm 1 on dense data, with noise, in NumPy, JAX and PyTorch.

Each peer is a function of a `Job` that prepares its arrays and returns a function which runs the job once; compiling
and warming up is not part of what is timed. `deviation` zero gives the noiseless trajectory, by which all are compared.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
# The NumPy scalar type of a name.
DTYPES: dict[str, Any] = {"float64": np.float64, "float32": np.float32}
Runner = Callable[[], Array]


class Job(NamedTuple):
    """Runs of the paper's method on equal shards: logistic loss, l2, weighted ℓ1 over a box."""

    A: Array  # (n, m, d)
    b: Array  # (n, m)
    runs: int
    rounds: int
    step: float
    l2: float
    weight: float
    bound: float
    deviations: Array  # (rounds,)
    dtype: str


def numpy_loop(job: Job) -> Runner:
    """One repetition at a time, the workers batched: what a careful NumPy user writes first."""
    n, m, d = job.A.shape
    A, b = job.A.astype(job.dtype), job.b.astype(job.dtype)
    transposed = np.ascontiguousarray(A.transpose(0, 2, 1))

    def run() -> Array:
        results = np.empty((job.runs, n, d), job.dtype)
        for r in range(job.runs):
            rng = np.random.default_rng(r)
            x = np.zeros((n, d), job.dtype)
            dual = np.zeros((n, d), job.dtype)
            for deviation in job.deviations:
                margins = np.matmul(A, x[:, :, None])[:, :, 0]
                slopes = -b / (1 + np.exp(b * margins))
                gradient = np.matmul(transposed, slopes[:, :, None])[:, :, 0] / (n * m)
                noise = deviation * rng.standard_normal((n, d), dtype=DTYPES[job.dtype])
                message = x - job.step * (gradient + job.l2 / n * x + noise + dual)
                apart = message - message.mean(axis=0)
                dual += apart
                z = message - job.step * apart
                shrunk = np.maximum(np.abs(z) - job.step * job.weight / n, 0)
                x = np.copysign(np.minimum(shrunk, job.bound), z)
            results[r] = x
        return results

    return run


def numpy_batched(job: Job) -> Runner:
    """All repetitions in one matmul a round, in place, without needless temporaries."""
    n, m, d = job.A.shape
    dtype, scalar, R = job.dtype, DTYPES[job.dtype], job.runs
    # Signed rows: the slope is the logistic function of their margin.
    A = np.ascontiguousarray(-job.b[:, :, None] * job.A).astype(dtype)
    transposed = np.ascontiguousarray(A.transpose(0, 2, 1)) / scalar(n * m)
    step, shrink, threshold = (scalar(v) for v in (job.step, job.l2 / n, job.step * job.weight / n))

    def run() -> Array:
        rng = np.random.default_rng(0)
        x = np.zeros((n, d, R), dtype)
        dual = np.zeros((n, d, R), dtype)
        margins = np.empty((n, m, R), dtype)
        h = np.empty((n, d, R), dtype)
        noise = np.empty((n, d, R), dtype)
        for deviation in job.deviations:
            np.matmul(A, x, out=margins)
            np.negative(margins, out=margins)
            np.exp(margins, out=margins)
            margins += 1
            np.reciprocal(margins, out=margins)
            np.matmul(transposed, margins, out=h)
            rng.standard_normal(out=noise, dtype=scalar)
            noise *= scalar(deviation)
            h += noise
            h += dual
            np.multiply(x, shrink, out=noise)
            h += noise
            h *= step
            x -= h  # the message
            np.subtract(x, x.mean(axis=0), out=h)
            dual += h
            h *= step
            x -= h  # z
            np.abs(x, out=h)
            h -= threshold
            np.clip(h, 0, job.bound, out=h)
            np.copysign(h, x, out=x)
        return np.ascontiguousarray(np.moveaxis(x, -1, 0))

    return run


def jax_scan(job: Job) -> Runner:
    """`jit(vmap(scan))`, the way JAX is meant to be used."""
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", job.dtype == "float64")
    jnp = import_module("jax.numpy")

    n, m, d = job.A.shape
    A = jnp.asarray(-job.b[:, :, None] * job.A, job.dtype)
    deviations = jnp.asarray(job.deviations, job.dtype)

    def trajectory(key: Any) -> Any:
        def one_round(carry: Any, inputs: Any) -> Any:
            x, dual = carry
            deviation, t = inputs
            slopes = jax.nn.sigmoid(jnp.einsum("nmd,nd->nm", A, x))
            gradient = jnp.einsum("nmd,nm->nd", A, slopes) / (n * m)
            noise = deviation * jax.random.normal(jax.random.fold_in(key, t), (n, d), job.dtype)
            message = x - job.step * (gradient + job.l2 / n * x + noise + dual)
            apart = message - message.mean(axis=0)
            z = message - job.step * apart
            shrunk = jnp.clip(jnp.abs(z) - job.step * job.weight / n, 0, job.bound)
            return (jnp.copysign(shrunk, z), dual + apart), None

        zero = jnp.zeros((n, d), job.dtype)
        (x, _), _ = jax.lax.scan(one_round, (zero, zero), (deviations, jnp.arange(job.rounds)))
        return x

    keys = jax.random.split(jax.random.key(0), job.runs)
    compiled = jax.jit(jax.vmap(trajectory) if job.runs > 1 else lambda keys: trajectory(keys[0])[None])
    compiled(keys).block_until_ready()
    return lambda: np.asarray(compiled(keys).block_until_ready())


def torch_in_place(job: Job) -> Runner:
    """All repetitions in one bmm a round, preallocated and in place."""
    torch = import_module("torch")
    dtype = {"float64": torch.float64, "float32": torch.float32}[job.dtype]
    n, m, d = job.A.shape
    R = job.runs
    A = torch.as_tensor(np.ascontiguousarray(-job.b[:, :, None] * job.A)).to(dtype)
    transposed = (A.transpose(1, 2) / (n * m)).contiguous()
    deviations = [float(v) for v in job.deviations]

    def run() -> Array:
        generator = torch.Generator().manual_seed(0)
        x, dual = torch.zeros(n, d, R, dtype=dtype), torch.zeros(n, d, R, dtype=dtype)
        margins, h = torch.empty(n, m, R, dtype=dtype), torch.empty(n, d, R, dtype=dtype)
        noise, mean = torch.empty(n, d, R, dtype=dtype), torch.empty(1, d, R, dtype=dtype)
        with torch.inference_mode():
            for deviation in deviations:
                torch.bmm(A, x, out=margins)
                margins.sigmoid_()
                torch.bmm(transposed, margins, out=h)
                noise.normal_(generator=generator)
                h.add_(noise, alpha=deviation).add_(dual).add_(x, alpha=job.l2 / n)
                x.add_(h, alpha=-job.step)  # the message
                torch.mean(x, dim=0, keepdim=True, out=mean)
                torch.sub(x, mean, out=h)
                dual.add_(h)
                x.add_(h, alpha=-job.step)  # z
                torch.abs(x, out=h)
                h.sub_(job.step * job.weight / n).clamp_(0, job.bound)
                torch.copysign(h, x, out=x)
        return np.asarray(x.permute(2, 0, 1).contiguous().numpy())

    return run


PEERS: dict[str, Callable[[Job], Runner]] = {
    "numpy loop": numpy_loop,
    "numpy batched": numpy_batched,
    "jax": jax_scan,
    "torch": torch_in_place,
}
