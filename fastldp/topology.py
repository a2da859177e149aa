"""Graphs of workers: who mixes whose messages, and with what weight, where no server stands between them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from fastldp import memory
from fastldp.errors import ArgumentError
from fastldp.validation import integer, known_name, real

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

NAMES = ("complete", "ring", "grid", "star", "random")
GIVEN = "given"
TEXTS = 'give "complete", "ring", "grid", "star" or "random:DEGREE:SEED"'
OWN = "a fastldp.Graph, a networkx graph, or a matrix of weights, NumPy's or scipy's"
# How far rows of weights may be from summing to one, and weights from being symmetric, for what rounding made of them.
ROUNDING = 1e-9
# What laying out a link takes, at most, in bytes.
OF_LINK = 140
# So often a random graph is drawn anew where links cannot be changed into ones that there are none of yet.
DRAWS = 100


class Mixing(NamedTuple):
    """The neighbours of each worker, in ascending order, with the weight and the number of the link to them."""

    begin: Integers
    """(n + 1,): where each worker's neighbours begin in the others."""
    neighbours: Integers
    weights: Array
    numbers: Integers
    """From 0, in the order of the pairs (i, k), i < k."""

    @property
    def links(self) -> int:
        """How many there are."""
        return self.numbers.size // 2

    @classmethod
    def of(cls, n: int, pairs: Integers, weights: Array) -> Mixing:
        """Of links i < k in ascending order, each once."""
        ends = np.concatenate([pairs, pairs[:, ::-1]])
        order = np.lexsort((ends[:, 1], ends[:, 0]))
        begin = np.searchsorted(ends[order, 0], np.arange(n + 1))
        numbers = np.tile(np.arange(len(pairs)), 2)[order]
        return cls(begin.astype(np.int64), ends[order, 1].copy(), np.tile(weights, 2)[order], numbers)

    def matrix(self) -> sparse.csr_array:
        """W, with what is left to each worker itself on the diagonal."""
        n = self.begin.size - 1
        apart = sparse.csr_array((self.weights, self.neighbours, self.begin), shape=(n, n))
        return sparse.csr_array(apart + sparse.diags_array(1 - np.asarray(apart.sum(axis=1)).ravel()))


@dataclass(frozen=True)
class _Given:
    """Links and weights of the caller's own."""

    workers: int
    pairs: bytes
    weights: bytes

    def arrays(self) -> tuple[Integers, Array]:
        return np.frombuffer(self.pairs, np.int64).reshape(-1, 2), np.frombuffer(self.weights)


@dataclass(frozen=True)
class Graph:
    """Who is a neighbour of whom, for `PrimalDual(topology=...)`: made by one of its class methods, for any n.

    A link has the weight of Metropolis, Wᵢₖ = 1/(1 + max(degreeᵢ, degreeₖ)), and a worker keeps the rest, so that W is
    symmetric and doubly stochastic; a matrix of your own has its own weights.

    Parameters
    ----------
    name : str
        ``"complete"``, ``"ring"``, ``"grid"``, ``"star"`` or ``"random"``.
    degree, seed : int
        Of a random graph.
    given : object
        What `of` keeps of a graph of your own.

    Examples
    --------
    >>> Graph.ring(), Graph.random(degree=8), Graph.of("random:8:1")
    (Graph.ring(), Graph.random(degree=8, seed=0), Graph.random(degree=8, seed=1))
    >>> Graph.star().matrix(3).toarray().round(2).tolist()
    [[0.33, 0.33, 0.33], [0.33, 0.67, 0.0], [0.33, 0.0, 0.67]]
    """

    name: str
    degree: int | None = None
    seed: int | None = None
    given: _Given | None = None

    def __post_init__(self) -> None:
        known_name("topology", self.name, NAMES if self.given is None else (GIVEN,))
        of_random = self.name == "random"
        for name, value in (("degree", self.degree), ("seed", self.seed)):
            if value is None and of_random:
                raise ArgumentError(name, value, f"a random graph needs a {name}: Graph.random(degree=8, seed=0)")
            if value is not None and not of_random:
                raise ArgumentError(name, value, f"only a random graph has one, not the {self.name}; leave it out")
        if of_random:
            integer("degree", self.degree, "give a whole number ≥ 2", at_least=2)
            integer("seed", self.seed, "give a whole number ≥ 0", at_least=0)

    @classmethod
    def complete(cls) -> Graph:
        """All workers are neighbours: W = 11ᵀ/n, what a server does, at the cost of n²; without failures it is one."""
        return cls("complete")

    @classmethod
    def ring(cls) -> Graph:
        """Worker i is a neighbour of i − 1 and i + 1, and the last one of the first."""
        return cls("ring")

    @classmethod
    def grid(cls) -> Graph:
        """Rows of ⌈√n⌉ workers below each other, the last as long as there are workers; neighbours lie side by side."""
        return cls("grid")

    @classmethod
    def star(cls) -> Graph:
        """Worker 0 is the neighbour of all others, and these have no other."""
        return cls("star")

    @classmethod
    def random(cls, degree: int, seed: int = 0) -> Graph:
        """Each worker has so many neighbours, drawn by the seed; the graph is connected.

        It has a ring through all workers in random order, so it is connected by construction. An odd degree needs an
        even number of workers.
        """
        return cls("random", degree, seed)

    @classmethod
    def of(cls, topology: Any) -> Graph:
        """A graph by its text, such as ``"ring"`` or ``"random:8:0"``; or one of your own.

        Of a networkx graph the links are taken, with Metropolis weights: node k of ``graph.nodes`` is worker k, or node
        k itself where these are the numbers from 0 on. Of a matrix of weights, sparse or not, the weights are: it must
        be symmetric, doubly stochastic and connected.
        """
        if isinstance(topology, cls):
            return topology
        if isinstance(topology, str):
            return cls._of_text(topology)
        if hasattr(topology, "edges") and hasattr(topology, "nodes"):
            return cls._of_networkx(topology)
        if sparse.issparse(topology) or (isinstance(topology, np.ndarray) and topology.ndim == 2):
            return cls._of_matrix(topology)
        raise ArgumentError("topology", topology, f"{TEXTS}, {OWN}")

    @classmethod
    def _of_text(cls, text: str) -> Graph:
        name, *numbers = text.split(":")
        if name not in NAMES:
            known_name("topology", text, NAMES, f"; or give {OWN}")
        try:
            found = [int(number) for number in numbers]
        except ValueError:
            raise ArgumentError("topology", text, TEXTS) from None
        if len(found) > (2 if name == "random" else 0) or (name == "random" and not found):
            raise ArgumentError("topology", text, TEXTS)
        return cls.random(*found) if name == "random" else cls(name)

    @classmethod
    def _of_networkx(cls, graph: Any) -> Graph:
        if getattr(graph, "is_directed", lambda: False)():
            raise ArgumentError("topology", graph, "its links have directions; give graph.to_undirected()")
        nodes = list(graph.nodes)
        n = len(nodes)
        place = {node: k for k, node in enumerate(nodes)}
        if all(isinstance(node, int) for node in nodes) and set(nodes) == set(range(n)):
            place = {node: node for node in nodes}
        links = [(place[a], place[b]) for a, b in graph.edges() if a != b]
        if n == 0:
            raise ArgumentError("topology", graph, "it has no nodes; give a node for each worker")
        pairs = _distinct(links)
        _refuse_apart(graph, n, pairs)
        return cls._kept(n, pairs, metropolis(n, pairs))

    @classmethod
    def _of_matrix(cls, matrix: Any) -> Graph:
        n, shape = matrix.shape[0], matrix.shape
        if len(shape) != 2 or shape[0] != shape[1] or n == 0:
            raise ArgumentError("topology", matrix, f"weights have a row and a column for each worker, not {shape}")
        if matrix.dtype.kind not in "biuf":
            raise ArgumentError("topology", matrix, "weights are finite real numbers")
        W = sparse.csr_array(matrix).astype(np.float64)
        if not np.isfinite(W.data).all():
            raise ArgumentError("topology", matrix, "weights are finite real numbers")
        W.sum_duplicates()
        if W.data.size and W.data.min() < -ROUNDING:
            remedy = f"weights are ≥ 0, and one is {W.data.min():g}; Graph.of(a networkx graph) makes some of links"
            raise ArgumentError("topology", matrix, remedy)
        unlike = abs(W - W.T)
        if unlike.nnz and unlike.max() > ROUNDING:
            i, k = (int(part[np.argmax(unlike.tocoo().data)]) for part in unlike.tocoo().coords)
            told = f"W[{i}, {k}] = {W[i, k]:.10g} and W[{k}, {i}] = {W[k, i]:.10g}"
            raise ArgumentError("topology", matrix, f"weights are symmetric, and {told}; both ends need the same")
        sums = np.asarray(W.sum(axis=1)).ravel()
        worst = int(np.argmax(np.abs(sums - 1)))
        if abs(sums[worst] - 1) > ROUNDING:
            remedy = f"each row sums to 1, and row {worst} to {sums[worst]:.10g}; put the rest on its diagonal"
            raise ArgumentError("topology", matrix, remedy)
        upper = sparse.triu((W + W.T) / 2, k=1).tocoo()
        there = upper.data > 0
        ends = np.stack(upper.coords, axis=1).astype(np.int64)[there]
        order = np.lexsort((ends[:, 1], ends[:, 0]))
        # What rounding may have made of nothing connects nobody.
        _refuse_apart(matrix, n, ends[upper.data[there] > ROUNDING])
        return cls._kept(n, ends[order], upper.data[there][order])

    @classmethod
    def _kept(cls, n: int, pairs: Integers, weights: Array) -> Graph:
        return cls(GIVEN, given=_Given(n, pairs.astype(np.int64).tobytes(), weights.astype(np.float64).tobytes()))

    def __str__(self) -> str:
        """Its text, as specifications and commands write it; of one of your own what it is."""
        if self.given is not None:
            return f"{self.given.workers:,} workers, {len(self.given.pairs) // 16:,} links"
        return ":".join([self.name, *(str(one) for one in (self.degree, self.seed) if one is not None)])

    def __repr__(self) -> str:
        if self.given is not None:
            return f"<Graph of {self}>"
        return f"Graph.random(degree={self.degree}, seed={self.seed})" if self.degree else f"Graph.{self.name}()"

    @property
    def plain(self) -> Any:
        """By what a run's parameters name it: its text, or a digest."""
        if self.given is None:
            return str(self)
        digest = hashlib.sha256(self.given.pairs + self.given.weights).hexdigest()
        return {"workers": self.given.workers, "links": len(self.given.pairs) // 16, "sha256": digest}

    def pairs(self, n: int) -> Integers:
        """(links, 2): the neighbours among n workers, i < k, in ascending order."""
        if self.given is not None:
            if n != self.given.workers:
                remedy = f"it is of {self.given.workers:,} workers, and the problem has {n:,}; give one of as many"
                raise ArgumentError("topology", self, remedy)
            return self.given.arrays()[0]
        i = np.arange(n, dtype=np.int64)
        if self.name == "complete":
            memory.refuse_beyond("topology", n * (n - 1) // 2 * OF_LINK, "give a graph of fewer links", value=str(self))
            return np.stack(np.triu_indices(n, 1), axis=1).astype(np.int64)
        if self.name == "ring":
            return _distinct(np.stack([i, (i + 1) % n], axis=1))
        if self.name == "star":
            return np.stack([np.zeros(n - 1, np.int64), i[1:]], axis=1)
        if self.name == "grid":
            width = math.isqrt(n - 1) + 1
            right, below = i[(i % width < width - 1) & (i + 1 < n)], i[i + width < n]
            return _distinct(
                np.concatenate([np.stack([right, right + 1], axis=1), np.stack([below, below + width], axis=1)])
            )
        assert self.degree is not None  # of random graphs it was checked
        assert self.seed is not None
        return random_pairs(n, self.degree, self.seed)

    def mixing(self, n: int) -> Mixing:
        """The neighbours of n workers with their weights."""
        return _mixing(self, n)

    def matrix(self, n: int) -> sparse.csr_array:
        """W of n workers, whose rows and columns sum to one."""
        return self.mixing(n).matrix()


@lru_cache(maxsize=8)
def _mixing(graph: Graph, n: int) -> Mixing:
    """Kept, for a sweep asks for it once a setting."""
    pairs = graph.pairs(n)
    return Mixing.of(n, pairs, metropolis(n, pairs) if graph.given is None else graph.given.arrays()[1])


def metropolis(n: int, pairs: Integers) -> Array:
    """1/(1 + max(degreeᵢ, degreeₖ)) of each link."""
    degrees = np.bincount(pairs.ravel(), minlength=n)
    return np.asarray(1 / (1 + degrees[pairs].max(axis=1, initial=0)))


def failures(share: Any) -> float | None:
    """The share of links that are missing in a round, or None where none ever is.

    >>> failures(0), failures(0.1)
    (None, 0.1)
    """
    if share is None:
        return None
    remedy = "give the share of links that are missing in a round, at least 0 and below 1"
    return real("failures", share, remedy, at_least=0, below=1) or None


def random_pairs(n: int, degree: int, seed: int) -> Integers:
    """Links of a random graph in which all have so many: rings in random order, and of an odd degree pairs.

    Links that two of these have in common are changed with others. Everything is drawn from the bits of PCG64, which
    are the same for all versions of NumPy.
    """
    if n <= 2 or degree == n - 1:
        return Graph.complete().pairs(n)
    if degree >= n:
        raise ArgumentError("degree", degree, f"a worker has at most {n - 1} neighbours of {n} workers; give fewer")
    if n * degree % 2:
        remedy = f"an odd degree of an odd number of workers, {n}, has no graph; give {degree - 1} or {degree + 1}"
        raise ArgumentError("degree", degree, remedy)
    bits = np.random.PCG64([seed, n, degree])
    for _ in range(DRAWS):
        found = _drawn(n, degree, bits)
        if found is not None:
            return found
    raise ArgumentError("degree", degree, f"no such graph of {n} workers was found; give a smaller degree")


def _drawn(n: int, degree: int, bits: np.random.PCG64) -> Integers | None:
    """One draw; None where links that are there twice could not be changed."""

    def shuffled() -> Integers:
        return np.argsort(bits.random_raw(n), kind="stable")

    rings = []
    for _ in range(degree // 2):
        order = shuffled()
        rings.append(np.stack([order, np.roll(order, -1)], axis=1))
    if degree % 2:
        rings.append(shuffled().reshape(-1, 2))
    # The first ring stays as it is: all are connected by it.
    links = [tuple(sorted(pair)) for pair in np.concatenate(rings).tolist()]
    there: set[Any] = set()
    twice = [k for k, link in enumerate(links) if link in there or there.add(link)]  # type: ignore[func-returns-value]
    patience = DRAWS * (len(twice) + 1)
    while twice and patience:
        patience -= 1
        k, (raw, turn) = twice[-1], bits.random_raw(2).tolist()
        other = n + raw % (len(links) - n)
        (a, b), (c, e) = links[k], links[other]
        if turn & 1:
            c, e = e, c
        new = tuple(sorted((a, c))), tuple(sorted((b, e)))
        if other in twice or a == c or b == e or new[0] == new[1] or any(one in there for one in new):
            continue
        there.discard(links[other])
        there.update(new)
        links[k], links[other] = new
        twice.pop()
    return None if twice else _distinct(links)


def _distinct(links: Iterable[Any]) -> Integers:
    """Each pair once, the smaller number first, in ascending order; without those of a worker with itself."""
    ends = np.sort(np.asarray(links, dtype=np.int64).reshape(-1, 2), axis=1)
    return np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)


def _refuse_apart(topology: Any, n: int, pairs: Integers) -> None:
    """Raise where some workers never hear of others."""
    ones = np.ones(len(pairs))
    count, parts = csgraph.connected_components(sparse.csr_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(n, n)))
    if count > 1:
        lost = int(np.flatnonzero(parts != parts[0])[0])
        remedy = f"it is in {count} parts, and nothing leads from worker 0 to worker {lost}; connect them by links"
        raise ArgumentError("topology", topology, remedy)
