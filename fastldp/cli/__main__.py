"""`python -m fastldp.cli`."""

import sys

from fastldp.cli import main

sys.exit(main())
