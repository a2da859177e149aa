"""The first command: install fastldp and solve the paper's nonsmooth problem privately, on generated data."""

import environment


def main() -> None:
    """Ends with a table, the privacy ledger, a picture and a file of results."""
    programs = environment.prepare("plot")
    out = environment.workplace() / "out"
    picture, results = out / "quickstart.png", out / "quickstart.npz"
    environment.run(programs / "fastldp", "solve", "--plot", picture, "--save", results)


if __name__ == "__main__":
    main()
