"""The picture of a report in docs/reports.md: the README's sweep in a real browser. Needs Chromium."""

import sys
import tempfile
from pathlib import Path

import fastldp as fl

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "scripts" / "figures" / "report.png"


def sweep_of_readme() -> str:
    """The specification in the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.split("```toml\n")[1].split("```")[0]


def main() -> None:
    sys.path.append(str(ROOT / "tests"))
    from chromium import Browser

    with tempfile.TemporaryDirectory() as folder:
        results = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "first.h5"
        fl.sweep(sweep_of_readme(), results)
        page = Path(folder) / "first.html"
        fl.results(results).report(page)
        browser = Browser(Path(folder) / "profile")
        browser.size(1280, 1000)
        browser.open(page)
        browser.run("document.querySelector('#what-was-found').scrollIntoView({behavior: 'instant'})")
        browser.picture(TARGET, whole=False)
        browser.close()


if __name__ == "__main__":
    main()
