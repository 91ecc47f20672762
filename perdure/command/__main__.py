"""`python -m perdure.command`: the same as `perdure`."""

from perdure.command import main

main()
