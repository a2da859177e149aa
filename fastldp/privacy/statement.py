"""What a ledger promises, in words for people who do not know the field."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fastldp.privacy.ledger import Ledger

# The adjacency of a ledger whose workers send to neighbours.
AMONG_NEIGHBOURS = "replace one sample's gradient (local: nobody who sees a message is trusted, no neighbour either)"
# What a file that keeps a seed says first.
SECRET = "This file holds the seed of its noise: whoever reads it can take the noise off every message"
# And one whose runs have the same noise.
SHARED = "Its runs have noise in common: whoever sees the messages of two of them can take it off without the seed"
NOISE = {
    "os": "The noise came from the operating system and its key was not kept, so nobody can take it off again.",
    "seeded": "The noise was made from a seed: whoever has the seed can take the noise off, so this holds only while "
    "the seed is secret and used for this run alone.",
    "common": "The noise was made from a seed and is the same in all runs of it: whoever has the seed, or the messages "
    "of two such runs, can take the noise off, so this holds only while the seed is secret and no other run is shown.",
    "": "Where the noise came from was not written down.",
}


def statement(ledger: Ledger, repetitions: int = 1) -> str:
    """The promise of one run in words; of several repetitions also what publishing all of them spends."""
    epsilon = float(np.max(ledger.promised_epsilon))
    weakest = " (the weakest of the workers' promises)" if np.ptp(ledger.promised_epsilon) > 0 else ""
    whom = (
        "its neighbours included, who see" if ledger.adjacency == AMONG_NEIGHBOURS else "the server included, who sees"
    )
    parts = [
        f"What each worker sends is protected from everyone, {whom} all of its messages (local "
        "differential privacy; no other party has to be trusted). What is protected is one sample of the worker's "
        "data: had it been replaced by any other, every set of outcomes would have been as probable as it was, up to a "
        f"factor of e^ε = {math.exp(min(epsilon, 700.0)):.3g} and δ = {ledger.delta:g} (ε = {epsilon:g}{weakest}).",
        *_drawn(ledger),
        *_as_normals(ledger),
        "Who gave several samples is protected less, and the number of samples of each worker is not hidden.",
        _read(ledger),
        "Step and noise were planned from public numbers, which spends nothing."
        if ledger.plan and not ledger.read_off_data
        else "If parameters were chosen by trying them on these data, that spent more, which is not counted here.",
        NOISE[ledger.noise],
    ]
    if repetitions > 1:
        spends = float(np.max(ledger.epsilon_of_all(repetitions)))
        parts.append(
            f"All this is of one run: publishing all {repetitions} repetitions spends ε = {spends:.3g} at the same δ."
        )
    if ledger.precision != "float64":
        parts.append("In single precision rounding is not accounted for: for exploration, not to be deployed.")
    elif ledger.total_delta > ledger.delta:
        parts.append("For lack of room in δ the promise holds for ideal noise only: see the sampler's line.")
    return " ".join(parts)


def _as_normals(ledger: Ledger) -> list[str]:
    if ledger.amplified:
        return []
    return [
        "Telling whether it was replaced is no easier than telling a normal distribution from one that is moved by "
        f"μ = {float(np.max(ledger.mu)):.3g} of its standard deviations (Gaussian differential privacy)."
    ]


def _drawn(ledger: Ledger) -> list[str]:
    if not ledger.amplified:
        return []
    parts = [
        "This counts on samples being drawn at random, by coins that only their worker knows: it holds while it keeps "
        "these secret, as it does its noise."
    ]
    if ledger.worker_rate < 1:
        parts.append(
            "It is over the coins that decide who takes part in a round, too: a worker that took part more often than "
            "was to be expected has sent more."
        )
    return parts


def brief(ledger: Ledger) -> tuple[str, str]:
    """The promise in two sentences: what it is, and what it does not cover."""
    epsilon = float(np.max(ledger.promised_epsilon))
    secret = "" if ledger.noise == "os" else " while the seed is secret"
    return (
        f"All that a worker sends in a run is ({epsilon:g}, {ledger.delta:g})-LDP{secret}: were one of its samples "
        f"another, no outcome would be over e^ε = {math.exp(min(epsilon, 700.0)):.3g} times as likely, up to δ.",
        f"Read off the data, hence not covered: {ledger.read_off_data}."
        if ledger.read_off_data
        else "Nothing was read off the data without noise.",
    )


def _read(ledger: Ledger) -> str:
    if not ledger.read_off_data:
        return "Nothing was read off the data without noise."
    return (
        f"Read off the data without noise, which the promise does not cover: {ledger.read_off_data}. Papers do so; a "
        "deployment must not."
    )
