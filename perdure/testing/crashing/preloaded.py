"""Imports, once, the libraries that every worker process needs at its start.

Only the process from which workers are forked imports this module.
"""

from __future__ import annotations

import temporalio.contrib.pydantic
import temporalio.worker.workflow_sandbox  # noqa: F401
from temporalio.worker._worker import load_default_build_id

import perdure.testing.crashing.victim  # noqa: F401

load_default_build_id()  # reads the code of every module, and caches the answer
