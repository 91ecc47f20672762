"""`end_with_parent.py PARENT PROGRAM ...` runs a program that ends with the process that started it, even by SIGKILL.

The kernel sends SIGTERM then (`PR_SET_PDEATHSIG`, prctl(2)). Workers do without it: they stop when their standard input
ends.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: str, *command: str) -> None:
    """Become the program, unless the parent is gone already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if str(os.getppid()) == parent:
        os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
