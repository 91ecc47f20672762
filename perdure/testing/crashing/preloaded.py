"""What worker processes are forked from: what each of them would do again at its start is done here, once.

Imported by nobody but the process that they are forked from.
"""

from __future__ import annotations

import temporalio.contrib.pydantic
import temporalio.worker.workflow_sandbox  # noqa: F401
from temporalio.worker._worker import load_default_build_id

import perdure.testing.crashing.victim  # noqa: F401

load_default_build_id()  # it reads the code of every module, and remembers the answer
