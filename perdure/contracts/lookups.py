"""Refuses a look-up that could not find its effect."""

from __future__ import annotations

from typing import Any

from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.input_types import is_untyped
from perdure.errors import DeclarationError


def check_lookup(whose: str, effect: Effect[Any, Any], lookup: Lookup[Any, Any]) -> None:
    """Refuse a look-up that could not read its effect's input, or could not give its receipt.

    Args:
        whose: the lifecycle or the worker that has them, for the message.
        effect: the effect.
        lookup: its look-up.

    Raises:
        DeclarationError: a receipt may be None, as for a miss, or the two have other types. `Any` fits every type.
    """
    if _takes_none(lookup):
        raise DeclarationError(
            f"{whose}: the receipt of {lookup.name!r} may be None, as for a miss, so "
            f"it could not find {effect.name!r}, which would be done again: give both another receipt, such as "
            "`bool`, and return True"
        )
    for part, own, others in zip(("input", "receipt"), lookup.types, effect.types, strict=True):
        if own != others and Any not in (own, others):
            raise DeclarationError(
                f"{whose}: the {part} of {lookup.name!r} is {own}, and that of {effect.name!r}, which it looks up, "
                f"is {others}: declare one {part} for both"
            )


def _takes_none(lookup: Lookup[Any, Any]) -> bool:
    """Whether a receipt may be None. A type that is left open passes: its values may all be others."""
    if is_untyped(lookup.receipt):
        return False
    try:
        return lookup.receipt.dump_python(lookup.receipt.validate_python(None), mode="json") is None
    except Exception:  # a validator of the author's that does not expect None raises any other than ValueError
        return False
