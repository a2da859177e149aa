"""The second command: install fastldp and run its tests; with --lint, ruff and mypy too."""

import sys
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
    lint = "--lint" in sys.argv[1:]
    programs = environment.prepare("dev,docs" if lint else "test")
    with tempfile.TemporaryDirectory() as scratch:
        if lint:
            environment.run(programs / "ruff", "check", "--no-cache", ".")
            environment.run(programs / "ruff", "format", "--no-cache", "--check", ".")
            environment.run(programs / "mypy", "--cache-dir", f"{scratch}/mypy", cwd=as_installed(Path(scratch)))
        environment.run(programs / "pytest", "-p", "no:cacheprovider", "--basetemp", f"{scratch}/pytest")


if __name__ == "__main__":
    main()
