"""How an error becomes a failure in a workflow's history: without the message of an error that may quote data.

Each message that a failed workflow task, activity or update takes to Temporal comes through here.
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

    The message of an `ApplicationError` is kept: its author wrote it for whoever reads the history.
    """

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """See base class."""
        super().to_failure(_without_data(exception), payload_converter, failure)


class EncodedFailures(DefaultFailureConverterWithEncodedAttributes):
    """The same where the codec encrypts: messages and stack traces are encrypted as well."""

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
