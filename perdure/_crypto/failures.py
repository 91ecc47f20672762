"""Converts errors into failures of a workflow's history, without messages that may quote data.

Each message that a failed workflow task, activity or update sends to Temporal is converted here.
"""

from __future__ import annotations

from temporalio.api.failure.v1 import Failure
from temporalio.converter import (
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    PayloadConverter,
)
from temporalio.exceptions import ApplicationError, FailureError

from perdure._text.privacy import describe, safe_message


class Failures(DefaultFailureConverter):
    """Temporal's own converter, for errors whose messages may quote data.

    The message of an `ApplicationError` is kept: its author wrote it for readers of the history.
    """

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """See base class."""
        super().to_failure(_without_data(exception), payload_converter, failure)


class EncodedFailures(DefaultFailureConverterWithEncodedAttributes):
    """The same for a codec that encrypts: messages and stack traces are encrypted too."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """See base class."""
        super().to_failure(_without_data(exception), payload_converter, failure)


def _without_data(error: BaseException) -> BaseException:
    if isinstance(error, FailureError) or type(error).__module__.startswith(("temporalio.", "nexusrpc.")):
        return error
    message = safe_message(error)
    shown = ApplicationError(describe(error) if message is None else message, type=type(error).__name__)
    shown.__traceback__, shown.__cause__ = error.__traceback__, error.__cause__
    return shown
