"""The workflow side: lifecycles, how they are conducted, how effects are performed. Deterministic code only."""
