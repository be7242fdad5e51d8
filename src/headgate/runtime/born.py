"""How a child of the supervisor begins: with no more than it needs, since `up` starts several.

structlog takes rich along wherever there is rich, for tracebacks that we print plainly; and nothing
of what is imported is garbage. Together they are a fifth of the time until a child is ready.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import NoReturn


def main() -> NoReturn:
    """Import the module that is named on the command line, and do its job."""
    gc.disable()
    sys.modules["rich"] = None  # pyright: ignore[reportArgumentType]  (so that importing it fails)
    try:
        module = import_module(sys.argv[1])
    finally:
        del sys.modules["rich"]  # a handler may want it
        gc.enable()
    module.begin()
    raise AssertionError("a child ends by itself")


if __name__ == "__main__":
    main()
