"""`python -m perdure.testing.exploring`; see `command`."""

import sys

from perdure.testing.exploring.command import main

if __name__ == "__main__":
    sys.exit(main())
