"""The paper's bounds beside what a solve measured."""

from __future__ import annotations

from typing import Any

import numpy as np

import fastldp as fl
from fastldp import theory
from fastldp.engine.recording import some_of


def bounds_of(problem: fl.Problem, budget: fl.Budget, method: Any, run: fl.Solution) -> dict[str, Any]:
    """The paper's bounds at the recorded rounds, and under "none" why one is missing."""
    if not isinstance(method, fl.PrimalDual):
        return {"none": "the paper's bounds are of PrimalDual"}
    if method.clip is not None:
        return {"none": "the paper's bounds are of gradients that are not clipped; --clip none has them"}
    bounds: dict[str, Any] = {}
    rounds = int(run.rounds[-1])
    try:
        step = method.schedule(problem, budget, rounds).step
        if not isinstance(method.allocation, str):
            return {"none": "the paper's bounds are of its allocations, which have names"}
        errors = theory.error_bounds(problem, budget, rounds, allocation=method.allocation, step=step)
        bounds["lemma_2"] = {
            "contraction": theory.contraction(problem, step),
            "initial_error": theory.initial_error(problem, step=step),
            "error_bound": errors[run.rounds - 1].tolist(),
            "optimality_scale": theory.optimality_scale(problem),
        }
        if method.allocation == "dynamic":
            bounds["theorem_1"] = {
                "error_bound": theory.error_bound(problem, budget, rounds, step=step),
                "noise_floor": theory.noise_floor(problem, budget),
                "min_rounds": theory.min_rounds(problem, budget, step=step),
            }
    except fl.FastLDPError as error:
        bounds["none"] = str(error)
    return bounds


def table(run: fl.Solution, bounds: dict[str, Any]) -> str:
    """What was measured beside what the paper promises of it."""
    lemma, theorem = bounds.get("lemma_2"), bounds.get("theorem_1")
    if lemma is None:
        return f"theory\n  {'no bound':<15} {bounds['none']}"
    scale = lemma["optimality_scale"]
    lines = ["theory", f"  {'round':>9}  {'optimality':>11}  {'≤ Lemma 2':>11}  {'ratio':>9}"]
    for k in some_of(run.rounds.size):
        # Of the repetitions that came this far.
        measured = run.optimality[~np.isnan(run.consensus[:, k]), k]
        if measured.size:
            mean, bound = measured.mean(), scale * lemma["error_bound"][k]
            lines.append(f"  {run.rounds[k]:>9,}  {mean:>11.4g}  {bound:>11.4g}  {bound / mean:>9.3g}")
    left, initial = f"{lemma['contraction']:.6g}", f"{lemma['initial_error']:.4g}"
    rows = [
        ("Lemma 2", f"a round leaves {left} of Φ and adds noise; Φ¹ = {initial}"),
        ("scale", f"mean optimality ≤ max{{1, 1/‖x*‖²}}/n · E Φ = {scale:.4g} E Φ"),
    ]
    if theorem:
        bound, floor = scale * theorem["error_bound"], scale * theorem["noise_floor"]
        rows.append(("Theorem 1", f"optimality ≤ {bound:.4g} after the last round, {floor:.4g} of it for the noise"))
        fewer = "; this run has fewer" if run.rounds[-1] < theorem["min_rounds"] else ""
        rows.append(("Table 1", f"allows all T ≥ {theorem['min_rounds']:,}{fewer}"))
    if "none" in bounds:
        rows.append(("no Theorem 1", bounds["none"]))
    return "\n".join([*lines, "", *(f"  {name:<15} {text}" for name, text in rows)])
