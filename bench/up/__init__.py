"""From an empty Debian to a running installation, and what that takes while idle, beside DBOS and Procrastinate."""
