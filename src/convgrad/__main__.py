"""`python -m convgrad`."""

import sys

from convgrad.command_line import main

sys.exit(main())
