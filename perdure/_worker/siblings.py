"""The health of the worker processes of one supervisor: the hung ones, and the reasons why others are not ready."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from perdure import _pulse
from perdure._pulse import ServiceProblem

_PATIENCE = 5.0
"""Seconds that a process may take to answer."""


@dataclass
class Sibling:
    """One worker process, for the probes of its supervisor.

    Attributes:
        index: number of the process, from 1.
        port: the port on this machine where it answers `/live` and `/ready`.
        began: start of the process, in seconds since the epoch; None = it has ended, and will be started again.
    """

    index: int
    port: int
    began: float | None = None

    def asked(self, question: str) -> list[ServiceProblem]:
        """Why the answer is no; empty = yes. A starting process does not count as hung earlier than others."""
        began = self.began
        if began is None:
            return [self._problem(time.time(), "it has ended, and is started again")] if question == "ready" else []
        answer = _answer(f"http://127.0.0.1:{self.port}/{question}")
        if answer is not None:
            return [
                ServiceProblem(f"process {self.index}: {each['service']}", _moment(each["since"]), str(each["why"]))
                for each in answer["reasons"]
            ]
        if time.time() > began + _pulse.WITHIN:
            return [self._problem(time.time(), "it does not answer")]
        return [self._problem(began, "it is starting")] if question == "ready" else []

    def _problem(self, since: float, why: str) -> ServiceProblem:
        return ServiceProblem(f"process {self.index}", since, why)


def asked_all(siblings: Sequence[Sibling], question: str) -> list[ServiceProblem]:
    """The answers of all processes, which are asked concurrently, since a hung one answers late."""
    with ThreadPoolExecutor(len(siblings)) as threads:
        return [
            each for problems in threads.map(partial(Sibling.asked, question=question), siblings) for each in problems
        ]


def _answer(url: str) -> Any:
    """The JSON of an answer of any status; None without an answer."""
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)
    except (OSError, ValueError):
        return None


def _moment(shown: str) -> float:
    return datetime.fromisoformat(shown).timestamp()
