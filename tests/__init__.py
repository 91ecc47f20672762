"""The tests: unit (no server), integration (PostgreSQL, Temporal), applications, acceptance (processes are killed)."""
