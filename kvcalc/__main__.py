"""`kvcalc` and `python -m kvcalc`."""

import sys


def main() -> None:
    from kvcalc.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
