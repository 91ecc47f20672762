"""The tests: unit (no server), integration (PostgreSQL, Temporal), acceptance (processes killed, stopped, frozen)."""
