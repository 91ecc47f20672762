"""What a lifecycle costs, beside what Temporal's samples teach: `python -m bench.cost`, `make bench`."""
