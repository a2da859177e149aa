"""Writes the reference results that `fastldp verify --self` compares with: python scripts/references.py.

To be run only where results were changed on purpose, which the changelog says.
"""

import json
from pathlib import Path

from fastldp.verifying.itself import computed

TARGET = Path(__file__).parents[1] / "fastldp" / "verifying" / "references.json"


def main() -> None:
    TARGET.write_text(json.dumps(computed(), indent=1) + "\n", encoding="utf-8")
    print(f"written to {TARGET}")


if __name__ == "__main__":
    main()
