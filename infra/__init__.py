"""What perdure runs on: servers for tests, demo and development, and the recipes for production.

Everything here listens on 127.0.0.1, on a free port, and ends with the process that started it.
"""
