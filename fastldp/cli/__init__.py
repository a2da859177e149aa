"""The command line: one module a command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import fastldp as fl
from fastldp.cli import (
    audit,
    compile,
    data,
    federate,
    info,
    plan,
    plot,
    report,
    reproduce,
    solve,
    sweep,
    terminal,
    verify,
    worker,
)

COMMANDS = {
    "solve": solve,
    "plan": plan,
    "sweep": sweep,
    "plot": plot,
    "verify": verify,
    "report": report,
    "reproduce": reproduce,
    "audit": audit,
    "data": data,
    "info": info,
    "federate": federate,
    "compile": compile,
    "worker": worker,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it worked, 1 when it failed, 2 for a wrong call, 130 after Ctrl-C, 141 unread."""
    terminal.prepare()
    # As `python -m` does: classes of one's own are often in the folder one is in.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    arguments = _parser().parse_args(argv)
    arguments.words = [*(sys.argv[1:] if argv is None else argv)]
    try:
        with terminal.short_warnings():
            code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        terminal.hang_up(sys.stdout)
        return terminal.CLOSED_PIPE
    except KeyboardInterrupt as error:
        print(f"fastldp: {error if isinstance(error, fl.FastLDPError) else 'interrupted'}", file=sys.stderr)
        return 130
    except (fl.FastLDPError, OSError) as error:
        if isinstance(error, fl.errors.ArgumentError) and error.argument == "n_jobs":
            error = error.said_of("--jobs")  # as its user knows it
        print(f"fastldp: error: {error}", file=sys.stderr)
        return 2 if isinstance(error, fl.errors.ArgumentError | fl.errors.SpecError) else 1
    except MemoryError:
        print("fastldp: error: there is not enough memory; ask for less", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fastldp", description=fl.__doc__)
    parser.add_argument("--version", action="version", version=f"fastldp {fl.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.SUMMARY,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(run=module.run)
        module.add_arguments(command)
    return parser
