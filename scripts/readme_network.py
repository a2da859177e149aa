"""Regenerates the README's figure and numbers of the network: python scripts/readme_network.py [FOLDER].

Needs MNIST (FASTLDP_DATA at a folder that has it, or a download) and most of an hour; what `fastldp reproduce fig3`
left in FOLDER, by default out/reproduction, is not made again. Run it with the Python that has fastldp in it, such as
.venv/bin/python after scripts/quickstart.py.
"""

import csv
import shutil
import sys
from pathlib import Path

from fastldp.cli import main as fastldp

PICTURES = Path(__file__).parent / "figures"
MEASURES = ("test accuracy", "train loss", "consensus error")


def main() -> None:
    """Everything, printed as Markdown."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/reproduction")
    if fastldp(["reproduce", "fig3", "--out", str(folder)]):
        sys.exit("the reproduction was not finished; the same command goes on")
    PICTURES.mkdir(exist_ok=True)
    shutil.copyfile(folder / "fig3.png", PICTURES / "fig3.png")
    last_rounds(folder / "fig3.csv")
    print((folder / "fig3-verdicts.md").read_text(encoding="utf-8"))


def last_rounds(path: Path) -> None:
    """What every run ends with."""
    with path.open(encoding="utf-8", newline="") as file:
        ends = {row["series"]: float(row["mean"]) for row in csv.DictReader(file) if row["round"] == row["rounds"]}
    print("| after the last round | test accuracy | train loss | consensus error |\n|---|---|---|---|")
    for run in dict.fromkeys(name.rsplit(", ", 1)[0] for name in ends):
        accuracy, loss, consensus = (ends[f"{run}, {measure}"] for measure in MEASURES)
        print(f"| {run} | {accuracy:.1%} | {loss:.3f} | {consensus:.3g} |")
    print()


if __name__ == "__main__":
    main()
