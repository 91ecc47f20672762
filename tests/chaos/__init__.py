"""Thousands of lifecycles while everything around them is killed, cut and frozen: `python -m tests.chaos`.

What happened is counted at the other side, and every record is compared with that.
"""
