"""What every test relies on: the command speaks English and folds nothing, whatever runs the tests."""

from __future__ import annotations

import os

os.environ["CONVGRAD_LANGUAGE"] = "en"
os.environ.pop("COLUMNS", None)  # lines are folded where a person looks: a test that wants it says how wide
os.unsetenv("COLUMNS")  # GNU readline, which pytest loads, sets it behind os.environ: programs inherit that
