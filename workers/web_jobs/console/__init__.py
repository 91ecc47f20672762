"""The pages that web jobs add to the console: families, and job types."""

from __future__ import annotations

from workers.web_jobs.console import again, families, job_types

PAGES = [*families.PAGES, *again.PAGES, *job_types.PAGES]
