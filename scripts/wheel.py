"""Build sdist and wheel as a release has them, and run the quick tests on the wheel alone."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import environment

# Extras whose least versions are tried too.
EXTRAS = ("plot", "data", "tables")


def least_versions() -> list[str]:
    """The requirements of pyproject.toml at their least versions, as pip takes them."""
    project = tomllib.loads((environment.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for extra in EXTRAS for one in extras[extra])]
    return [one.replace(">=", "==") for one in wanted]


def made(home: Path, python: str, *packages: str) -> Path:
    """A new virtual environment with some packages; its Python."""
    subprocess.run([python, "-m", "venv", home], check=True)
    own = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    environment.run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return own


def main() -> None:
    """Stops at the first step that fails, with its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the Python to try (this one)")
    parser.add_argument("--least", action="store_true", help="with the least versions that pyproject.toml allows")
    parser.add_argument("tests", nargs="*", help="test files (all)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where sdist and wheel go (nowhere)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        sources, built = scratch / "sources", chosen.keep or scratch / "built"
        environment.copy_of_sources(sources)
        builder = made(scratch / "builder", chosen.python, "build")
        environment.run(builder, "-m", "build", "--outdir", built, sources)
        # What imports fastldp from here on has the wheel's.
        shutil.rmtree(sources / "fastldp")
        shutil.rmtree(sources / "kernels")
        wheel = max(built.glob("*.whl"), key=os.path.getmtime)
        tester = made(scratch / "tester", chosen.python, f"{wheel}[test]", *(least_versions() if chosen.least else ()))
        # Old packages use what others have deprecated since.
        warnings = ["-W", "default::DeprecationWarning"] if chosen.least else []
        options = ["-p", "no:cacheprovider", "--basetemp", f"{scratch}/pytest", *environment.on_all_cores(), *warnings]
        environment.run(tester, "-m", "pytest", *options, "--quick", *chosen.tests, cwd=sources)


if __name__ == "__main__":
    main()
