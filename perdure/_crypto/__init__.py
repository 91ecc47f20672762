"""Encryption: keys, sealed fields, the codec of Temporal's payloads and its server."""
