"""What an argument or a setting names as `package.module:name`, looked for from the current folder as well."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from perdure.errors import DeclarationError, InvalidEntity, PerdureError

_FRAMES = 8
"""How many lines of the module's own code are shown where it can't be imported."""


def load(path: str) -> Any:
    """The object that `package.module:name` stands for.

    Raises:
        DeclarationError: there is none; the message begins with `path`, and has the reason.
    """
    module, _, name = path.partition(":")
    if not module or not name:
        raise DeclarationError(f"{path!r} does not name an object: write package.module:name")
    imported = load_module(module, path)
    if not hasattr(imported, name):
        raise DeclarationError(f"{path!r}: the module {module!r} has no {name!r}")
    return getattr(imported, name)


def load_module(module: str, path: str) -> ModuleType:
    """The module of that name; what its own code raises is shown as Python would show it, from its first line on.

    Raises:
        DeclarationError: it can't be imported; the message begins with `path`, and has the reason.
    """
    if not module:
        raise DeclarationError(f"{path!r} names no module: write package.module:name")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(module)
    except InvalidEntity as error:  # elsewhere it is about an argument of the command line
        raise DeclarationError(str(error)) from error
    except PerdureError:
        raise  # its message names what is declared wrongly
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise DeclarationError(
                f"{path!r}: there is no module {error.name!r} in {Path.cwd()} or on the import path: "
                "run it from the folder that holds it"
            ) from error
        shown = "".join(traceback.format_exception(type(error), error, _of_module(error.__traceback__), limit=-_FRAMES))
        why = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        raise DeclarationError(f"{path!r} can't be imported: {why}\n{shown.rstrip()}") from error


def _of_module(trace: TracebackType | None) -> TracebackType | None:
    """Without the lines of this file and of Python's import."""
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, importlib.__file__):
        trace = trace.tb_next
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
        trace = trace.tb_next
    return trace
