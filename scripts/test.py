"""The second command: install fastldp and run its tests, a quick covering set or with --all the whole suite."""

import argparse
import tempfile
from pathlib import Path

import environment


def as_installed(scratch: Path) -> Path:
    """A copy of the sources with the kernels inside the package: mypy knows nothing of mapped folders."""
    copy = scratch / "sources"
    environment.copy_of_sources(copy)
    (copy / "kernels").rename(copy / "fastldp" / "kernels")
    return copy


def main() -> None:
    """Stops at the first check that fails, with its exit code."""
    parser = argparse.ArgumentParser(description="Install fastldp into a virtual environment and run its tests.")
    parser.add_argument("--all", action="store_true", help="all tests, with those of Dask, Ray and Flower")
    parser.add_argument("--lint", action="store_true", help="ruff and mypy before the tests")
    chosen = parser.parse_args()
    extras = "test,dask,ray,flower" if chosen.all else "test"
    programs = environment.prepare("dev,docs" if chosen.lint else extras)
    with tempfile.TemporaryDirectory() as scratch:
        if chosen.lint:
            environment.run(programs / "ruff", "check", "--no-cache", ".")
            environment.run(programs / "ruff", "format", "--no-cache", "--check", ".")
            environment.run(programs / "mypy", "--cache-dir", f"{scratch}/mypy", cwd=as_installed(Path(scratch)))
        options = ["-p", "no:cacheprovider", "--basetemp", f"{scratch}/pytest", *environment.on_all_cores()]
        environment.run(programs / "pytest", *options, *([] if chosen.all else ["--quick"]))


if __name__ == "__main__":
    main()
