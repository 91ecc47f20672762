"""The commands of web jobs, one module for each group of verbs, registered when it is imported here."""

from __future__ import annotations

from workers.web_jobs.job_types import change, files, look, receiver, set_up, trial
from workers.web_jobs.job_types.group import commands

__all__ = ["change", "commands", "files", "look", "receiver", "set_up", "trial"]
