"""The report of an audit: what the attack showed, beside what the ledger claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastldp.reporting.page import Code, Heading, Page, Section, Table, Words, curves

if TYPE_CHECKING:
    from fastldp.auditing.audit import Audit


def report_of(found: Audit, title: str) -> Page:
    """The page about this audit."""
    exact = "no attack can show more of such releases"
    return Page(
        kind="Report of an audit",
        title=title or ("Nothing contradicts the ledger" if found.passed else "The ledger is wrong"),
        lead=found.description,
        tiles=[
            ("ε shown", f"{found.shown_epsilon:.4f}", f"with {found.confidence:.0%} confidence"),
            ("ε exact", f"{found.exact_epsilon:.4f}", exact),
            ("ε claimed", f"{found.epsilon:.4f}", f"δ = {found.delta:g}, {found.accounting}"),
            ("transcripts", f"{found.transcripts:,}", "of each of two neighbouring inputs"),
        ],
        sections=[
            Section("What was asked", [Words(WORDS)]),
            Section("What was found", [_losses(found), *_findings(found), _numbers(found)]),
            Section("What could not have been seen", [Table(["fault"], [[one] for one in found.unseen])]),
            Section("All of it", [Code(found.summary())]),
        ],
    )


WORDS = (
    "Two inputs that differ in one sample of one worker were solved many times by the kernels of every other solve. "
    "An adversary who knows everything but which of the two it was computed the privacy loss of each transcript: the "
    "logarithm of how much likelier it is under one input than under the other."
)


def _losses(found: Audit) -> Any:
    """How the losses are spread under either input, as densities."""
    middles = (found.edges[1:] + found.edges[:-1]) / 2
    widths = np.diff(found.edges)
    series: list[dict[str, Any]] = []
    for name, counts in zip(("of the input", "of its neighbour"), found.counts, strict=True):
        density = counts / max(1, counts.sum()) / widths
        error = np.sqrt(counts) / max(1, counts.sum()) / widths
        series.append({"name": f"losses {name}", "x": middles, "y": density, "error": error})
    return curves(series, "privacy loss", "density")


def _findings(found: Audit) -> list[Any]:
    if found.passed:
        return [Words("Nothing that was found contradicts the ledger.")]
    return [Heading("What is wrong"), Table(["finding"], [[one] for one in found.findings])]


def _numbers(found: Audit) -> Any:
    rows = [
        ["mean privacy loss", f"{found.loss_mean[0]:.6f}", f"{found.loss_mean[1]:.6f}"],
        ["its variance", f"{found.loss_variance[0]:.6f}", f"{found.loss_variance[1]:.6f}"],
        ["power, Σ ‖difference of the queries‖²/σ²", f"{found.power:.6f}", f"{found.ledger_power:.6f}"],
        ["variance of the noise, least", f"{found.noise_variance[0]:.4f}", "1.0000"],
        ["variance of the noise, greatest", f"{found.noise_variance[1]:.4f}", "1.0000"],
    ]
    return Table(["", "measured", "predicted, or at most"], rows)
