"""`python -m portal.embedded up|down|reset`, called by make; `keep` is what the services call for themselves."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from portal.embedded import ROOT
from portal.embedded.commands import down, reset, up
from portal.embedded.errors import ServiceError
from portal.embedded.keeper import detach_and_keep


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m portal.embedded", description="The embedded services.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start everything and stay until Ctrl-C")
    commands.add_parser("down", help="stop the `up` of this folder")
    commands.add_parser("reset", help="delete the data of this folder").add_argument(
        "--yes", action="store_true"
    )
    keep = commands.add_parser("keep")
    keep.add_argument("state", type=Path)
    keep.add_argument("answer", type=int)
    arguments = parser.parse_args()
    try:
        match arguments.command:
            case "up":
                up(ROOT)
            case "down":
                down(ROOT)
            case "reset":
                reset(ROOT, confirmed=arguments.yes)
            case "keep":
                detach_and_keep(arguments.state, arguments.answer)
    except ServiceError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
