"""The pages that dosage reminders add to the console: a day, and its doses."""

from __future__ import annotations

from workers.reminders.console import day

PAGES = day.PAGES
