"""`kvcalc` and `python -m kvcalc`."""

import gc
import os
import sys


def main() -> None:
    # Starting makes some hundred thousand objects that all live to the end; looking for garbage among them costs 10 %.
    gc.set_threshold(100_000)
    # Pydantic searches every installed package for plugins, of which kvcalc has none: 13 ms.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        from kvcalc.cli.app import run
    except KeyboardInterrupt:  # Ctrl-C before there is anything to catch it
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)
    try:
        code = run(sys.argv[1:])
        gc.freeze()  # nor is it worth looking once more before all is given back: another 5 %
    except KeyboardInterrupt:  # a second Ctrl-C, while the first is told
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
