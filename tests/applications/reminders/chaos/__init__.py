"""Thousands of patients, due within a minute, while workers are killed: `python -m tests.applications.reminders.chaos`.

What was sent is counted in the provider's log, and every record is compared with that.
"""
