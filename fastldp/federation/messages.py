"""What goes between server and worker: requests and answers, as bytes that carry their own checksum."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import RefusedError

Array = NDArray[np.float64]

ASK, ANSWER = b"fastldpQ", b"fastldpA"
CHECKSUM = hashlib.sha256().digest_size
# A header says how many arrays follow and how long they are.
LONGEST_HEADER = 2**20


@dataclass(frozen=True, eq=False)
class Ask:
    """What a server asks of a worker in a round: a noisy gradient at a point, or several from there on.

    Attributes
    ----------
    worker : int
        Whom it asks.
    round : int
        1 in the first round; 0 is a warm start, and rounds before that only count gradients.
    terms : str
        The digest of the terms.
    point : array of shape (d,)
        Where the gradient is taken; the first, where a round has several.
    kept : dict of arrays of shape (d,)
        What the worker's steps between several releases start from, by name; empty where there is one.
    threshold : float or None
        What gradients are clipped to, where that adapts: it follows from counts that all have released.
    pace : float
        What steps are multiplied by, where that adapts.
    """

    worker: int
    round: int
    terms: str
    point: Array
    kept: Mapping[str, Array] = field(default_factory=dict)
    threshold: float | None = None
    pace: float = 1.0

    def to_bytes(self) -> bytes:
        """For the wire; the same request has the same bytes."""
        header = {
            "worker": self.worker,
            "round": self.round,
            "terms": self.terms,
            "kept": list(self.kept),
            "threshold": self.threshold,
            "pace": self.pace,
        }
        return packed(ASK, header, [self.point, *self.kept.values()])

    @classmethod
    def from_bytes(cls, data: bytes) -> Ask:
        """From the wire; refused where a byte has changed."""
        header, arrays = unpacked(ASK, data)
        try:
            names = header.pop("kept")
            _check_types(header, whole=("worker", "round"), text=("terms",), number=("threshold", "pace"))
            point, *kept = arrays
            return cls(**header, point=point, kept=dict(zip(names, kept, strict=True)))
        except (TypeError, ValueError, KeyError) as error:
            _refuse(f"it is no request: {error}")

    @cached_property
    def digest(self) -> str:
        """What it is known by."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class Answer:
    """What a worker releases in a round.

    Attributes
    ----------
    worker : int
        Who released it.
    round : int
        Of which round it is.
    terms : str
        The digest of the terms.
    releases : array of shape (releases, d)
        The noisy gradients n wᵢ∇fᵢ of the round, without the l2 term, in their order; of Algorithm 1 they are wᵢ∇fᵢ.
    count : float or None
        The noisy share of all samples whose gradients are shorter than the threshold, in rounds that count.
    """

    worker: int
    round: int
    terms: str
    releases: Array
    count: float | None = None

    def to_bytes(self) -> bytes:
        """For the wire; the same answer has the same bytes."""
        count = None if self.count is None else float(self.count)
        header = {"worker": self.worker, "round": self.round, "terms": self.terms, "count": count}
        return packed(ANSWER, header, [self.releases])

    @classmethod
    def from_bytes(cls, data: bytes) -> Answer:
        """From the wire; refused where a byte has changed."""
        header, arrays = unpacked(ANSWER, data)
        try:
            _check_types(header, whole=("worker", "round"), text=("terms",), number=("count",))
            (releases,) = arrays
            return cls(**header, releases=releases)
        except (TypeError, ValueError, KeyError) as error:
            _refuse(f"it is no answer: {error}")


def packed(kind: bytes, header: Mapping[str, Any], arrays: Sequence[Array]) -> bytes:
    """A header and arrays of doubles, with a checksum of all."""
    flat = [np.ascontiguousarray(array, dtype="<f8") for array in arrays]
    # Numbers of a header may be no numbers; Python writes those in a way that it reads.
    head = json.dumps({**header, "shapes": [array.shape for array in flat]}, sort_keys=True).encode()
    body = b"".join([kind, struct.pack("<I", len(head)), head, *(array.tobytes() for array in flat)])
    return body + hashlib.sha256(body).digest()


def unpacked(kind: bytes, data: bytes) -> tuple[dict[str, Any], list[Array]]:
    """The inverse; whatever is not as it was is refused."""
    if not isinstance(data, bytes | bytearray | memoryview):
        _refuse(f"it is {type(data).__name__}, where bytes are needed")
    data = bytes(data)
    body, checksum = data[:-CHECKSUM], data[-CHECKSUM:]
    if len(data) < len(kind) + 4 + CHECKSUM or hashlib.sha256(body).digest() != checksum:
        _refuse("it was damaged on its way: its checksum is another; send it again", "checksum")
    if body[: len(kind)] != kind:
        _refuse(f"it begins with {body[: len(kind)]!r}, where {kind!r} is needed")
    try:
        place = len(kind) + 4
        (length,) = struct.unpack("<I", body[len(kind) : place])
        if length > LONGEST_HEADER:
            raise ValueError(f"a header of {length} bytes")
        header = json.loads(body[place : place + length])
        place += length
        arrays = []
        for shape in header.pop("shapes"):
            count = int(np.prod(shape, dtype=np.int64))
            if any(size < 0 for size in shape) or place + 8 * count > len(body):
                raise ValueError(f"an array of shape {shape} beyond its end")
            arrays.append(np.frombuffer(body, "<f8", count, place).reshape(shape).astype(np.float64))
            place += 8 * count
        if place != len(body):
            raise ValueError(f"{len(body) - place} bytes that belong to nothing")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, struct.error) as error:
        _refuse(f"it cannot be read: {error}")
    return header, arrays


def _check_types(
    header: Mapping[str, Any], *, whole: Sequence[str], text: Sequence[str], number: Sequence[str]
) -> None:
    """Refuse what others would stumble over; a number may be none."""
    kinds: dict[str, tuple[type, ...]] = dict.fromkeys(whole, (int,)) | dict.fromkeys(text, (str,))
    kinds |= dict.fromkeys(number, (float, type(None)))
    for name, allowed in kinds.items():
        if type(header[name]) not in allowed:
            raise TypeError(f"{name} = {header[name]!r}"[:80])


def _refuse(message: str, reason: str = "form") -> NoReturn:
    raise RefusedError(reason, message)
