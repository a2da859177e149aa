"""Build the documentation: python3 scripts/docs.py [--installed]. Into out/docs/html, offline; a warning is an error.

Installs fastldp into the virtual environment first, or with --installed takes what `scripts/test.py --lint` has left
there, with its compiled kernels. Works on a copy of the sources, for the gallery and the reference write pages of their
own beside those of docs/.
"""

import os
import shutil
import sys

import environment


def main() -> None:
    """Stops at the first page that has something wrong with it."""
    installed = "--installed" in sys.argv[1:]
    programs = environment.programs_of_environment() if installed else environment.prepare("docs")
    out = environment.workplace() / "out" / "docs"
    shutil.rmtree(out, ignore_errors=True)
    sources = out / "sources"
    environment.copy_of_sources(sources)
    # A picture of every example is made where nobody looks on.
    os.environ["MPLBACKEND"] = "Agg"
    environment.run(
        programs / "python", "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", out / "doctrees",
        sources / "docs", out / "html", cwd=out,
    )  # fmt: skip
    print(f"the pages are in {out / 'html' / 'index.html'}")


if __name__ == "__main__":
    main()
