"""`fastldp reproduce`: the paper's figures and table again, and which of its claims held."""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import sys
import textwrap
import time
from pathlib import Path

from fastldp import figures
from fastldp.cli import options
from fastldp.errors import ArgumentError
from fastldp.validation import integer

SUMMARY = "draw the paper's figures and Table 1 again, and say which of its claims held"
ALL = ("fig1", "fig2", "table1")
WHAT = (*ALL, "all", "fig3", "planner", "readings", "scaffold")
EXAMPLES = """\
examples:
  fastldp reproduce fig1 --quick              a small trial on generated data, in a minute
  fastldp reproduce all                       the paper's data and sizes, in five to ten minutes on two cores
  fastldp reproduce fig2 --data synthetic     the paper's sizes on generated data, without a download
  fastldp reproduce fig3                      the network on MNIST, not part of all: it takes over an hour
  fastldp reproduce readings                  the claims of Figure 1 under twenty readings of its protocol
  fastldp reproduce readings --most 20        the same, judged by 20 repetitions alone: sooner, and less is decided
  fastldp reproduce scaffold                  where DP-SCAFFOLD is better than DP-FedAvg, and where it is not
  fastldp reproduce planner                   beyond the paper: the planner against the paper's step and a search
Every experiment is a recipe in TOML, run by fastldp sweep: the folder has the specification, the results (.h5), the
points of the curves (.csv), the pictures (.png, .pdf), the verdicts, and a page with all of it to open in a browser
(fig1.html). Stopped, the same command goes on. table1 takes
its errors from both figures, whose runs it makes where the folder has none.
exit code: 0 when all was made, whatever the verdicts say; 1 for an error, 2 for a wrong call, 130 after Ctrl-C
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", choices=WHAT, help="a figure, the table, all of fig1, fig2 and table1, or what takes longer"
    )
    parser.add_argument("--quick", action="store_true", help="short horizons and few runs: a trial, not a reproduction")
    parser.add_argument("--data", choices=("real", "synthetic"), help="(real, or with --quick synthetic)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="(reproduction, or reproduction-quick)")
    parser.add_argument(
        "--most", type=int, metavar="RUNS", help="judge claims by so many repetitions at most (1,280; quick: 8)"
    )
    options.add(parser, "--jobs")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def run(arguments: argparse.Namespace) -> int:
    figures.require_matplotlib()
    if arguments.jobs is not None:
        integer("--jobs", arguments.jobs, "give a number of cores ≥ 1", at_least=1)
    # Loaded now, for they draw: matplotlib takes a while.
    from fastldp.reporting.reproductions import report_of
    from fastldp.reproduction import EXPERIMENTS, verdicts
    from fastldp.reproduction.claims import LOOKS, QUICK_LOOKS
    from fastldp.reproduction.experiment import Place, Stopped

    if arguments.most is not None:
        least = (QUICK_LOOKS if arguments.quick else LOOKS)[0]
        integer("--most", arguments.most, f"the first look is at {least} repetitions; give as many", at_least=least)
    synthetic = (arguments.data or ("synthetic" if arguments.quick else "real")) == "synthetic"
    folder = arguments.out or Path("reproduction-quick" if arguments.quick else "reproduction")
    if folder.exists() and not folder.is_dir():
        raise ArgumentError("out", str(folder), "there is a file of that name; give a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        remedy = f"no such folder can be made ({error.strerror}); give another"
        raise ArgumentError("out", str(folder), remedy) from None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    place = Place(folder, arguments.quick, synthetic, arguments.jobs, progress=True, most=arguments.most)
    began = time.perf_counter()
    found, notes = [], []
    judged: dict[str, list[verdicts.Verdict]] = {}
    try:
        for name in ALL if arguments.what == "all" else [arguments.what]:
            experiment = EXPERIMENTS[name](place)
            made = judged[name] = experiment.run()
            text = verdicts.markdown(made) + "".join(f"\n{note}.\n" for note in experiment.notes)
            (folder / f"{name}-verdicts.md").write_text(text, encoding="utf-8")
            found += made
            notes += experiment.notes
    except KeyboardInterrupt as stopped:
        told = stopped if isinstance(stopped, Stopped) else "interrupted; the same command goes on from here"
        print(f"fastldp: {told}", file=sys.stderr)
        return 130
    command = shlex.join(["fastldp", *arguments.words])
    report_of(folder, judged, notes, quick=arguments.quick, command=command).save(folder / f"{arguments.what}.html")
    if arguments.json:
        print(json.dumps([verdict._asdict() for verdict in found]))
        return 0
    print(f"\n{verdicts.table(found)}\n")
    if (folder / "table1.txt").exists() and arguments.what in ("table1", "all"):
        print((folder / "table1.txt").read_text(encoding="utf-8"))
    for note in notes:
        print(textwrap.fill(note, 118))
    print()
    if arguments.quick:
        print("a quick trial: horizons too short for the paper's claims to show")
    print(
        f"{time.perf_counter() - began:.0f} s; files in {folder}/: "
        + ", ".join(sorted(p.name for p in folder.glob("*.*")))
    )
    return 0
