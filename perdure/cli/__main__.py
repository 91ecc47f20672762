"""`python -m perdure.cli`: the same as `perdure`."""

from perdure.cli import main

main()
