"""`python -m demo [--keep]`."""

import sys

from demo.demo import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
