"""The gradient of one worker's loss over a network: dense layers, sigmoids between them, a softmax last.

Samples lie in the lanes: the units of a layer are Z[units, samples], so that all but the matrix products goes lane by
lane, and nothing is added across lanes but the gradients of the biases. The gradient of one sample is, for each layer,
the slopes δ of its units times its inputs (a, 1), so its norm is √Σ ‖δ‖²(‖a‖² + 1) over the layers: samples are clipped
by a number each, and no sample's gradient is ever formed. A sample whose norm is not known, since at a point of huge
weights something overflowed, counts as zero: so no point makes a sample's part of the sum longer than the threshold, or
a NaN that would tell of it.

A worker's samples are taken in chunks, whose gradients come from BLAS in the precision of the products, and are added
up in that of the run: so one sample's rounding errors reach no farther than its chunk.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.gradient import GRADIENTS
from fastldp.kernels.jit import piece_with_views
from fastldp.kernels.sampling import count_drawn, number_drawn
from fastldp.kernels.simd import (
    broadcast,
    by_precision,
    fma,
    keep_apart,
    lane_sum,
    load,
    maximum,
    minimum,
    select,
    sqrt,
    store,
)
from fastldp.kernels.vmath import exp, sigmoid

# Squares below this lose digits, so norms begin with it for each of them: they are not taken for smaller than they are.
LEAST_SQUARE_64, LEAST_SQUARE_32 = float(np.finfo(np.float64).tiny), float(np.finfo(np.float32).tiny)
# From here on a threshold over a norm would lose digits, if it is the least that is allowed.
LARGEST_SQUARE_64, LARGEST_SQUARE_32 = 1e300, 1e34
# Beyond this nothing is clipped, and a run that diverged may show it.
LARGEST_CLIP = 1e150

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]


class Network(NamedTuple):
    """What the workers hold, the shape of the network, and scratch.

    The model is the layers one after the other: the weights (units, inputs), then the biases.
    """

    values: Floats  # (rows, features): every worker's rows, filled up to whole lanes with zeros
    classes: Floats  # (rows / lanes, lanes): the class of each row
    counted: Floats  # (rows / lanes, lanes): 1, or 0 for a row that fills up
    reach: Floats  # (rows / lanes, lanes): ‖a‖² + 1
    chunks: Integers  # (n + 1,): worker i has the chunks chunks[i] to chunks[i + 1]
    starts: Integers  # (chunks + 1,): chunk c has the rows starts[c] to starts[c + 1]
    widths: Integers  # (layers + 1,): features, units of each hidden layer, classes
    offsets: Integers  # (layers,): where the model has each layer
    caution: float  # what the rounding of a norm may have hidden, taken off the clipping threshold
    model: Floats  # (shares, d): the model, in the precision of the products
    sums: Floats  # (shares, d): the gradient of a chunk
    units: Floats  # (shares, all units of a chunk): what each layer gives
    slopes: Floats  # the same: δ
    reaches: Floats  # (shares, layers, samples of a chunk / lanes, lanes): ‖a‖² + 1 of the inputs of each layer
    norms: Floats  # (shares, samples of a chunk / lanes, lanes): of samples' gradients, squared, and then their scales
    drawn_values: Floats  # (shares · samples of a chunk, features): where samples are drawn, those at work
    drawn_classes: Floats  # (shares · samples of a chunk / lanes, lanes), as are the two that follow
    drawn_counted: Floats
    drawn_reach: Floats


# Views and products are functions of their own, not inlined: they take no time, but LLVM would take much for them.
@piece_with_views
def _weights(model: Any, layer: int, widths: Any, offsets: Any) -> Any:
    """A layer's weights, or their gradient: (units, inputs)."""
    keep_apart()
    begin, size = offsets[layer], widths[layer + 1] * widths[layer]
    return model[begin : begin + size].reshape((widths[layer + 1], widths[layer]))


@piece_with_views
def _biases(model: Any, layer: int, widths: Any, offsets: Any) -> Any:
    """A layer's biases, or their gradient: (units,)."""
    keep_apart()
    begin = offsets[layer] + widths[layer + 1] * widths[layer]
    return model[begin : begin + widths[layer + 1]]


@piece_with_views
def _of_layer(scratch: Any, layer: int, count: int, widths: Any) -> Any:
    """What a layer's units have in a row of scratch, for so many samples: (units, samples)."""
    keep_apart()
    begin = 0
    for before in range(layer):
        begin += widths[before + 1] * count
    return scratch[begin : begin + widths[layer + 1] * count].reshape((widths[layer + 1], count))


@piece_with_views
def _in_lanes(values: Any, lanes: int) -> Any:
    keep_apart()
    return values.reshape((values.shape[0], values.shape[1] // lanes, lanes))


@piece_with_views
def _multiply(A: Any, B: Any, product: Any) -> None:
    """The matrix product, by BLAS."""
    keep_apart()
    np.dot(A, B, product)


@piece_with_views
def _activate(Z: Any, biases: Any, reach: Any) -> None:
    """h = σ(z + b) in place, and ‖h‖² + 1 of every sample."""
    keep_apart()
    one = broadcast(1.0, load(Z, 0, 0))
    for g in range(Z.shape[1]):
        store(one, reach, g)
    for k in range(Z.shape[0]):
        bias = broadcast(biases[k], one)
        for g in range(Z.shape[1]):
            h = sigmoid(load(Z, k, g) + bias)
            store(h, Z, k, g)
            store(fma(h, h, load(reach, g)), reach, g)


@piece_with_views
def _softmax_slopes(Z: Any, biases: Any, classes: Any, reach: Any, D: Any, norms: Any) -> None:
    """δ = p − e_class of the last layer, p the softmax of z + b, and what it adds to the squared norms."""
    keep_apart()
    zero = broadcast(0.0, load(Z, 0, 0))
    for g in range(Z.shape[1]):
        top = load(Z, 0, g) + biases[0]
        for k in range(1, Z.shape[0]):
            top = maximum(top, load(Z, k, g) + biases[k])
        total = zero
        for k in range(Z.shape[0]):
            share = exp(load(Z, k, g) + biases[k] - top)
            store(share, D, k, g)
            total = total + share
        square = zero + by_precision(zero, LEAST_SQUARE_64, LEAST_SQUARE_32)
        label = load(classes, g)
        for k in range(Z.shape[0]):
            delta = load(D, k, g) / total - select(label == broadcast(k, zero), 1.0, zero)
            store(delta, D, k, g)
            square = fma(delta, delta, square)
        store(square * load(reach, g), norms, g)


@piece_with_views
def _sigmoid_slopes(H: Any, reach: Any, D: Any, norms: Any) -> None:
    """δ times σ' = h(1 − h) of a hidden layer, in place, and what it adds to the squared norms."""
    keep_apart()
    zero = broadcast(0.0, load(H, 0, 0))
    lost = broadcast(float(H.shape[0]), zero) * by_precision(zero, LEAST_SQUARE_64, LEAST_SQUARE_32)
    for g in range(H.shape[1]):
        store(fma(lost, load(reach, g), load(norms, g)), norms, g)
    for k in range(H.shape[0]):
        for g in range(H.shape[1]):
            h = load(H, k, g)
            delta = load(D, k, g) * (h - h * h)
            store(delta, D, k, g)
            store(fma(delta * delta, load(reach, g), load(norms, g)), norms, g)


@piece_with_views
def _scales(clip: float, counted: Any, norms: Any) -> None:
    """min{1, C/‖gradient‖} of every sample; 0 for those that fill up, or whose norm is NaN, infinite or huge."""
    keep_apart()
    beyond = 0.0 if clip < LARGEST_CLIP else np.nan
    for g in range(counted.shape[0]):
        square = load(norms, g)
        scale = minimum(load(counted, g), broadcast(clip, square) / sqrt(square))
        known = square < by_precision(square, LARGEST_SQUARE_64, LARGEST_SQUARE_32)
        store(select(known, scale, broadcast(beyond, square)), norms, g)


@piece_with_views
def _unclipped(counted: Any, scales: Any) -> Any:
    """How many samples have the scale 1: those that fill up are not counted."""
    keep_apart()
    inside = broadcast(0.0, load(scales, 0))
    for g in range(counted.shape[0]):
        inside = inside + select(load(scales, g) == 1.0, load(counted, g), broadcast(0.0, inside))
    return lane_sum(inside)


@piece_with_views
def _clip(D: Any, scales: Any, biases: Any) -> None:
    """δ of every sample times its scale, and the gradient of the biases, which is their sum."""
    keep_apart()
    for k in range(D.shape[0]):
        total = broadcast(0.0, load(scales, 0))
        for g in range(D.shape[1]):
            scale = load(scales, g)
            # 0 for what does not count, even where δ is NaN or infinite.
            delta = select(scale == 0.0, 0.0, load(D, k, g) * scale)
            store(delta, D, k, g)
            total = total + delta
        biases[k] = lane_sum(total)


@piece_with_views
def _forward(begin: int, end: int, share: int, net: Any) -> None:
    """The units of every layer; of the last the slopes."""
    keep_apart()
    widths, layers, lanes, count = net.widths, net.offsets.size, net.classes.shape[1], end - begin
    units, reaches = net.units[share], net.reaches[share]
    for g in range(count // lanes):
        store(load(net.reach, begin // lanes + g), reaches, 0, g)
    for layer in range(layers):
        Z = _of_layer(units, layer, count, widths)
        weights = _weights(net.model[share], layer, widths, net.offsets)
        biases = _biases(net.model[share], layer, widths, net.offsets)
        if layer == 0:
            _multiply(weights, net.values[begin:end].T, Z)
        else:
            _multiply(weights, _of_layer(units, layer - 1, count, widths), Z)
        if layer < layers - 1:
            _activate(_in_lanes(Z, lanes), biases, reaches[layer + 1])
        else:
            D = _in_lanes(_of_layer(net.slopes[share], layer, count, widths), lanes)
            classes = net.classes[begin // lanes : end // lanes]
            _softmax_slopes(_in_lanes(Z, lanes), biases, classes, reaches[layer], D, net.norms[share])


@piece_with_views
def _backward(count: int, share: int, net: Any) -> None:
    """The slopes of every hidden layer, from the last to the first."""
    keep_apart()
    widths, lanes, slopes = net.widths, net.classes.shape[1], net.slopes[share]
    for layer in range(net.offsets.size - 1, 0, -1):
        D = _of_layer(slopes, layer - 1, count, widths)
        weights = _weights(net.model[share], layer, widths, net.offsets)
        _multiply(weights.T, _of_layer(slopes, layer, count, widths), D)
        H = _in_lanes(_of_layer(net.units[share], layer - 1, count, widths), lanes)
        _sigmoid_slopes(H, net.reaches[share, layer - 1], _in_lanes(D, lanes), net.norms[share])


@piece_with_views
def _sum(begin: int, end: int, share: int, net: Any) -> None:
    """The gradient of every layer, from slopes that are clipped first, to net.sums."""
    keep_apart()
    widths, offsets, lanes, count = net.widths, net.offsets, net.classes.shape[1], end - begin
    for layer in range(offsets.size):
        D = _of_layer(net.slopes[share], layer, count, widths)
        _clip(_in_lanes(D, lanes), net.norms[share], _biases(net.sums[share], layer, widths, offsets))
        weights = _weights(net.sums[share], layer, widths, offsets)
        if layer == 0:
            _multiply(D, net.values[begin:end], weights)
        else:
            _multiply(D, _of_layer(net.units[share], layer - 1, count, widths).T, weights)


@piece_with_views
def _add_to(total: Any, part: Any) -> None:
    keep_apart()
    for j in range(part.size):
        total[j] += part[j]


@piece_with_views
def _copy_to(copy: Any, x: Any) -> None:
    keep_apart()
    for j in range(x.size):
        copy[j] = x[j]


@piece_with_views
def _gather(net: Any, draw: Any, of_worker: int, first: int, count: int, begin: int) -> int:
    """So many of the drawn rows, from the first on, beside each other from `begin` on; where their lanes are full."""
    keep_apart()
    lanes = net.classes.shape[1]
    share, end = begin // net.norms.shape[1] // lanes, int(begin + -(-count // lanes) * lanes)
    # What fills up counts as nothing, whatever it is.
    for at in range(begin, end):
        row = of_worker + number_drawn(draw, share, first + min(at - begin, count - 1))
        counted = net.counted[row // lanes, row % lanes] if at - begin < count else 0.0
        net.drawn_values[at] = net.values[row]
        net.drawn_classes[at // lanes, at % lanes] = net.classes[row // lanes, row % lanes]
        net.drawn_reach[at // lanes, at % lanes] = net.reach[row // lanes, row % lanes]
        net.drawn_counted[at // lanes, at % lanes] = counted
    return end


@piece_with_views
def _of_drawn(net: Any) -> Any:
    """The network of the rows that were gathered."""
    keep_apart()
    return Network(
        net.drawn_values,
        net.drawn_classes,
        net.drawn_counted,
        net.drawn_reach,
        net.chunks,
        net.starts,
        net.widths,
        net.offsets,
        net.caution,
        net.model,
        net.sums,
        net.units,
        net.slopes,
        net.reaches,
        net.norms,
        net.drawn_values,
        net.drawn_classes,
        net.drawn_counted,
        net.drawn_reach,
    )


@piece_with_views
def _add_chunk(clip: float, net: Any, begin: int, end: int, G: Any, share: int, counting: bool, inside: Any) -> None:
    """Add the gradients of these rows, clipped, to G[share]."""
    keep_apart()
    lanes = net.classes.shape[1]
    _forward(begin, end, share, net)
    _backward(end - begin, share, net)
    counted = net.counted[begin // lanes : end // lanes]
    _scales(clip * net.caution, counted, net.norms[share])
    if counting:
        inside[share] += _unclipped(counted, net.norms[share])
    _sum(begin, end, share, net)
    _add_to(G[share], net.sums[share])


@piece_with_views
def store_network_gradient(
    clip: float, net: Any, i: int, X: Any, row: int, G: Any, share: int, counting: bool, inside: Any, draw: Any
) -> None:
    """G[share] = Σ_l of the gradients of worker i's samples at X[row], each clipped to the norm `clip`; and inside."""
    keep_apart()
    inside[share] = 0.0
    _copy_to(net.model[share], X[row])
    G[share] = 0.0
    of_worker, after = net.starts[net.chunks[i]], net.starts[net.chunks[i + 1]]
    drawn = count_drawn(draw, i, after - of_worker, share, counting)
    if drawn < 0:
        for chunk in range(net.chunks[i], net.chunks[i + 1]):
            begin, end = net.starts[chunk], net.starts[chunk + 1]
            _add_chunk(clip, net, begin, end, G, share, counting, inside)
    else:
        longest = net.norms.shape[1] * net.classes.shape[1]
        for first in range(0, drawn, longest):
            end = _gather(net, draw, of_worker, first, min(longest, drawn - first), share * longest)
            _add_chunk(clip, _of_drawn(net), share * longest, end, G, share, counting, inside)


def _network(
    objective: Any, samples: Any, i: Any, X: Any, row: Any, scratch: Any, share: Any, counting: Any, draw: Any
) -> Any:
    clip = load(objective.clip, 0)
    store_network_gradient(clip, samples, i, X, row, scratch.gradient, share, counting, scratch.inside, draw)


GRADIENTS[Network] = _network
