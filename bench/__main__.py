"""`python -m bench [CASE ...]`: the figures of docs/log.md, each from one run on this machine."""

import sys

from bench import served

if __name__ == "__main__":
    sys.exit(served.main(sys.argv[1:]))
