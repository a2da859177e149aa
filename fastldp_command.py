"""The command `fastldp`; outside of the package, so that Ctrl-C while that is being imported shows no traceback."""

import sys


def main() -> int:
    """What `fastldp.cli.main` does, once it is there."""
    try:
        from fastldp.cli import main as run
    except KeyboardInterrupt:
        print("fastldp: interrupted", file=sys.stderr)
        return 130
    return run()
