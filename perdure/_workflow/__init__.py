"""The workflow side: lifecycles, their runs, and the performances of their effects. Deterministic code only."""
