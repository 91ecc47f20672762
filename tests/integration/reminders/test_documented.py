"""docs/dosage-reminders.md: its SQL and its Python do what the page says."""

from __future__ import annotations

import ast
import json
import re
from inspect import isawaitable
from pathlib import Path
from types import FunctionType
from typing import Any

from temporalio import workflow

from activities.contracts.plan import Plan
from activities.reminders.agenda import problem_with
from activities.contracts.reminders import Patient, Turn
from tests.integration.reminders.conftest import Clinic

PAGE = (Path(__file__).parents[3] / "docs" / "dosage-reminders.md").read_text()
SQL = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
[PYTHON] = re.findall(r"^<!-- signs up -->\n```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
