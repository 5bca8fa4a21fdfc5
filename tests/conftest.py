"""What every test relies on: the command speaks English, whatever the locale of the machine."""

from __future__ import annotations

import os

os.environ["CONVGRAD_LANGUAGE"] = "en"
