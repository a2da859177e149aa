"""`python -m fastldp`: the command line."""

import sys

from fastldp.cli import main

sys.exit(main())
