# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= 2

.PHONY: demo test check generate clean

demo: $(READY)
	$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/pytest -n $(JOBS) tests

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/generate.py --check
	$(BIN)/pytest -n $(JOBS) -m "not slow" tests

generate: $(READY)
	$(BIN)/python tools/generate.py

# The environment is rebuilt when the packaging or the native sources change.
$(READY): pyproject.toml CMakeLists.txt $(shell find native -type f 2>/dev/null)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q -e '.[test,dev,dask,report,torch]'
	touch $(READY)

clean:
	rm -rf $(VENV) build dist
