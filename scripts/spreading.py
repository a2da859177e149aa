"""How noise is best spread over rounds where samples are drawn: spreading.py [--write].

Beside the closed form of Theorem 1, ξ² ∝ 1/√w, and the same noise in all rounds; all calibrated to one promise. With
--write the table is put into docs/amplification.md: some minutes.
"""

import sys

import numpy as np

from fastldp.privacy.amplification import Releases, best_multipliers, scale_of
from readme import ROOT, write

EPSILON, DELTA = 1.0, 1e-5
ROUNDS, CONTRACTION = 100, 0.05
RATES = (1.0, 0.1, 0.03, 0.01, 0.003)


def main() -> None:
    """A row for each rate."""
    weights = (1 - CONTRACTION) ** np.arange(ROUNDS - 1, -1, -1.0)
    lines = ["| q | s of the last round | closed form over the best | static over the best |", "|---|---|---|---|"]
    for rate in RATES:
        best = best_multipliers(weights, rate, EPSILON, DELTA)
        closed, static = (
            shape * scale_of(Releases(rate, shape), EPSILON, DELTA) for shape in (weights**-0.25, np.ones(ROUNDS))
        )
        least = float(weights @ best**2)
        others = " | ".join(f"{float(weights @ one**2) / least:.4f}" for one in (closed, static))
        lines.append(f"| {rate:g} | {best[-1]:.3g} | {others} |")
        print(lines[-1], flush=True)
    if "--write" in sys.argv[1:]:
        write(ROOT / "docs" / "amplification.md", "spreading", "\n".join(lines))


if __name__ == "__main__":
    main()
