"""`python -m convgrad`."""

import sys

from convgrad.cli.command_line import main

sys.exit(main())
