"""An extension of griffe: `Example:` in a docstring holds a session of Python, which is `Examples:` for griffe."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension  # type: ignore[import-not-found]


class Examples(Extension):  # type: ignore[misc]
    """Gives the section the name that griffe renders as code."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """See base class."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
