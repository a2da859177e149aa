"""The noise of releases, its mean over the workers: what a run owes to chance, to first order."""

from typing import Any

from fastldp.kernels.gaussian import store_draw
from fastldp.kernels.jit import serial
from fastldp.kernels.simd import load, store


@serial
def mean_normals(keys: Any, first: int, local_steps: int, workers: int, normals: Any, dithers: Any, out: Any) -> None:
    """out[s] = (1/n) Σᵢ N of release first + s, counted from 0, of as many runs as there are lanes.

    Release s is k of round t, counted from 1, where s = (t − 1) local_steps + k: the address of its noise. `keys` is
    (8, lanes), `out` (releases, d, lanes); normals and dithers are scratch, (1, d or d + 1, whichever is even, lanes).
    """
    for s in range(out.shape[0]):
        t, k = 1 + (first + s) // local_steps, (first + s) % local_steps
        for i in range(workers):
            store_draw(normals, dithers, 0, keys, t, i, k)
            for j in range(out.shape[1]):
                normal = load(normals, 0, j)
                store(normal if i == 0 else load(out, s, j) + normal, out, s, j)
        for j in range(out.shape[1]):
            store(load(out, s, j) / float(workers), out, s, j)
