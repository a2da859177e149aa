"""The gradient of one worker's loss over a network: dense layers, sigmoids between them, a softmax last.

Samples lie in the lanes: the units of a layer are Z[units, samples], so that all but the matrix products goes lane by
lane, and nothing is added across lanes but the gradients of the biases. The gradient of one sample is, for each layer,
the slopes δ of its units times its inputs (a, 1), so its norm is √Σ ‖δ‖²(‖a‖² + 1) over the layers: samples are clipped
by a number each, and no sample's gradient is ever formed.

A worker's samples are taken in chunks, whose gradients come from BLAS in the precision of the products, and are added
up in that of the run: so one sample's rounding errors reach no farther than its chunk.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.gradient import GRADIENTS
from fastldp.kernels.jit import formula, serial
from fastldp.kernels.simd import broadcast, convert, fma, keep_apart, lane_sum, load, maximum, minimum, select, sqrt, store
from fastldp.kernels.vmath import exp, sigmoid

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]


class Network(NamedTuple):
    """What the workers hold, the shape of the network, and room to work in.

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
    rooms: Integers  # (n,): the room each worker uses; those that work at the same time have different ones
    model: Floats  # (rooms, d): the model, in the precision of the products
    sums: Floats  # (rooms, d): the gradient of a chunk
    units: Floats  # (rooms, all units of a chunk): what each layer gives
    slopes: Floats  # the same: δ
    reaches: Floats  # (rooms, layers, samples of a chunk / lanes, lanes): ‖a‖² + 1 of the inputs of each layer
    norms: Floats  # (rooms, samples of a chunk / lanes, lanes): of samples' gradients, squared, and then their scales


@formula
def _weights(model: Any, layer: int, net: Any) -> Any:
    """A layer's weights, or their gradient: (units, inputs)."""
    inputs, units = net.widths[layer], net.widths[layer + 1]
    begin = net.offsets[layer]
    return model[begin : begin + units * inputs].reshape((units, inputs))


@formula
def _biases(model: Any, layer: int, net: Any) -> Any:
    """A layer's biases, or their gradient: (units,)."""
    inputs, units = net.widths[layer], net.widths[layer + 1]
    begin = net.offsets[layer] + units * inputs
    return model[begin : begin + units]


@formula
def _of_layer(room: Any, layer: int, count: int, net: Any) -> Any:
    """What a layer's units have in a room, for so many samples: (units, samples)."""
    begin = 0
    for before in range(layer):
        begin += net.widths[before + 1] * count
    units = net.widths[layer + 1]
    return room[begin : begin + units * count].reshape((units, count))


@formula
def _in_lanes(values: Any, lanes: int) -> Any:
    return values.reshape((values.shape[0], values.shape[1] // lanes, lanes))


@serial
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


@serial
def _softmax_slopes(Z: Any, biases: Any, first: int, net: Any, reach: Any, D: Any, norms: Any) -> None:
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
        square = zero
        label = load(net.classes, first + g)
        for k in range(Z.shape[0]):
            delta = load(D, k, g) / total - select(label == broadcast(k, zero), 1.0, zero)
            store(delta, D, k, g)
            square = fma(delta, delta, square)
        store(square * load(reach, g), norms, g)


@serial
def _sigmoid_slopes(H: Any, reach: Any, D: Any, norms: Any) -> None:
    """δ times σ' = h(1 − h) of a hidden layer, in place, and what it adds to the squared norms."""
    keep_apart()
    for k in range(H.shape[0]):
        for g in range(H.shape[1]):
            h = load(H, k, g)
            delta = load(D, k, g) * (h - h * h)
            store(delta, D, k, g)
            store(fma(delta * delta, load(reach, g), load(norms, g)), norms, g)


@serial
def _scales(clip: float, first: int, net: Any, norms: Any, count: int) -> None:
    """min{1, C/‖gradient‖} of every sample; 0 for those that fill up."""
    keep_apart()
    for g in range(count):
        square = load(norms, g)
        # In this order of arguments a NaN comes through, so that a diverged run is seen.
        scale = minimum(load(net.counted, first + g), broadcast(clip * net.caution, square) / sqrt(square))
        store(scale, norms, g)


@serial
def _clip(D: Any, scales: Any, biases: Any) -> None:
    """δ of every sample times its scale, and the gradient of the biases, which is their sum."""
    keep_apart()
    for k in range(D.shape[0]):
        total = broadcast(0.0, load(scales, 0))
        for g in range(D.shape[1]):
            delta = load(D, k, g) * load(scales, g)
            store(delta, D, k, g)
            total = total + delta
        biases[k] = lane_sum(total)


@serial
def _add_chunk(clip: float, begin: int, end: int, room: int, net: Any) -> None:
    """The gradient of a chunk, to net.sums[room]."""
    keep_apart()
    layers, lanes, count = net.offsets.size, net.classes.shape[1], end - begin
    first, groups = begin // lanes, count // lanes
    values, model, sums = net.values[begin:end], net.model[room], net.sums[room]
    units, slopes, reaches, norms = net.units[room], net.slopes[room], net.reaches[room], net.norms[room]
    for g in range(groups):
        store(load(net.reach, first + g), reaches, 0, g)

    # Forward: the units of every layer; of the last the slopes.
    for layer in range(layers):
        Z = _of_layer(units, layer, count, net)
        weights, biases = _weights(model, layer, net), _biases(model, layer, net)
        if layer == 0:
            np.dot(weights, values.T, Z)
        else:
            np.dot(weights, _of_layer(units, layer - 1, count, net), Z)
        if layer < layers - 1:
            _activate(_in_lanes(Z, lanes), biases, reaches[layer + 1])
        else:
            D = _in_lanes(_of_layer(slopes, layer, count, net), lanes)
            _softmax_slopes(_in_lanes(Z, lanes), biases, first, net, reaches[layer], D, norms)

    # Backward: the slopes of every hidden layer.
    for layer in range(layers - 1, 0, -1):
        D = _of_layer(slopes, layer - 1, count, net)
        np.dot(_weights(model, layer, net).T, _of_layer(slopes, layer, count, net), D)
        H = _in_lanes(_of_layer(units, layer - 1, count, net), lanes)
        _sigmoid_slopes(H, reaches[layer - 1], _in_lanes(D, lanes), norms)

    # The gradients, of slopes that are clipped first.
    _scales(clip, first, net, norms, groups)
    for layer in range(layers):
        D = _of_layer(slopes, layer, count, net)
        _clip(_in_lanes(D, lanes), norms, _biases(sums, layer, net))
        if layer == 0:
            np.dot(D, values, _weights(sums, layer, net))
        else:
            np.dot(D, _of_layer(units, layer - 1, count, net).T, _weights(sums, layer, net))


@serial
def _add_to(total: Any, part: Any) -> None:
    keep_apart()
    for j in range(part.size):
        total[j] += part[j]


@serial
def _copy_to(copy: Any, x: Any) -> None:
    keep_apart()
    for j in range(x.size):
        copy[j] = x[j]


@serial
def add_network_gradient(clip: float, net: Any, i: int, x: Any, total: Any) -> None:
    """total += Σ_l of the gradients of worker i's samples at x, each clipped to the norm `clip`."""
    keep_apart()
    room = net.rooms[i]
    _copy_to(net.model[room], x)
    for chunk in range(net.chunks[i], net.chunks[i + 1]):
        _add_chunk(clip, net.starts[chunk], net.starts[chunk + 1], room, net)
        _add_to(total, net.sums[room])


def _network(loss: Any, clip: Any, samples: Any, i: Any, X: Any, row: Any, G: Any) -> Any:
    add_network_gradient(clip, samples, i, X[row], G[i])


GRADIENTS[Network] = _network
