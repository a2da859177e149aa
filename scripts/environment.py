"""A virtual environment with fastldp in it: what the other scripts start with. Needs Python and pip alone."""

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What the scripts that measure share is there.
sys.path.append(str(ROOT / "bench"))
# Tests gain nothing by more processes, each of which loads all that is compiled.
MOST_PROCESSES = 8
NOT_SOURCES = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "out")


def writable(folder: Path) -> bool:
    """Whether files can be made in a folder."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def workplace() -> Path:
    """Where environment and output go: the checkout, or else a cache folder, or else a temporary one."""
    for place in (ROOT, Path(os.path.expanduser("~/.cache/fastldp/checkout"))):
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if writable(place):
            return place
    return Path(tempfile.mkdtemp(prefix="fastldp-"))


def programs_of_environment() -> Path:
    """The folder of programs of the environment, made or not."""
    home = Path(os.environ.get("FASTLDP_VENV") or workplace() / ".venv")
    return home / ("Scripts" if os.name == "nt" else "bin")


def prepare(extra: str) -> Path:
    """Make or reuse the environment, install this checkout with an extra, and return its folder of programs."""
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs this may have an older one
        sys.exit(f"fastldp needs Python 3.11 or newer; this is {sys.version.split()[0]}")
    programs = programs_of_environment()
    home = programs.parent
    if not (programs / "pip").exists() and not (programs / "pip.exe").exists():
        print(f"making the virtual environment {home}", flush=True)
        venv.create(home, with_pip=True, clear=True)
    print(f"installing fastldp[{extra}]", flush=True)
    # From a copy: building in place would leave folders in the checkout, or fail where it is read-only.
    with tempfile.TemporaryDirectory() as copy:
        sources = Path(copy) / "fastldp"
        copy_of_sources(sources)
        run(
            programs / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            f"{sources}[{extra}]",
        )
    return programs


def copy_of_sources(target: Path) -> None:
    """The sources without the traces of working on them, writable whatever the checkout is."""
    shutil.copytree(ROOT, target, ignore=NOT_SOURCES, copy_function=shutil.copyfile)
    for folder in [target, *target.rglob("*")]:
        if folder.is_dir():
            folder.chmod(0o755)


def on_all_cores() -> list[str]:
    """Options that make pytest run tests beside each other; none where there is one core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Who has no more to do takes over tests of others: some take long, and wait for what is being compiled.
    return ["-n", str(min(cores, MOST_PROCESSES)), "--dist", "worksteal"] if cores > 1 else []


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command, and stop with its exit code where it fails."""
    code = subprocess.run([str(part) for part in command], cwd=cwd).returncode
    if code:
        sys.exit(code)
