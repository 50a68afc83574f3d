"""The lab's command: `python -m labkit.lab …`, or `python DIR …` where a folder of the lab stands alone."""

import sys

if __package__:
    from labkit.lab.checker.command import main
else:
    from checker.command import main

if __name__ == "__main__":
    sys.exit(main())
