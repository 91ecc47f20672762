"""The receiver of status callbacks, and the commands that applications with telephony add."""
