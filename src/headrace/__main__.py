"""`python -m headrace`: the command line without an installed script (nodes are started so)."""

from headrace.cli.main import main

if __name__ == "__main__":
    main()
