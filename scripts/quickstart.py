"""The first command: install fastldp, solve a problem privately, and say in one screen what came out."""

from pathlib import Path

import environment


def main() -> None:
    """On generated data; ends with a picture, a file of results, and what to try next."""
    programs = environment.prepare("plot")
    here, out = Path.cwd(), environment.workplace() / "out"
    # Short paths are easier to read, and to type again.
    out = out.relative_to(here) if out.is_relative_to(here) else out
    # Sixteen runs fill the lanes of one kernel: a second one, for those left over, would have to be compiled too.
    problem = "--data", "ijcnn1", "--repetitions", "16"
    files = "--plot", out / "quickstart.png", "--save", out / "quickstart.npz"
    environment.run(programs / "fastldp", "solve", *problem, *files, cwd=here)


if __name__ == "__main__":
    main()
