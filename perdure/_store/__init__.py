"""Fence and mirror: one kind of write, one kind of answer, two stores (PostgreSQL and memory)."""
