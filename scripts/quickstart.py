"""The first command: install fastldp, solve a problem privately, and draw the paper's first figure in small."""

import environment


def main() -> None:
    """On generated data; ends with a picture, the paper's claims, and a folder to look into."""
    programs = environment.prepare("plot")
    out = environment.workplace() / "out"
    environment.run(programs / "fastldp", "solve", "--rounds", "500", "--save", out / "quickstart.npz")
    environment.run(programs / "fastldp", "reproduce", "fig1", "--quick", "--out", out / "quickstart")


if __name__ == "__main__":
    main()
