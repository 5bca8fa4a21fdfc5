# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
READY := $(VENV)/.ready
TORCH ?= torch==2.13.0
JOBS ?= 2

.PHONY: training-plot bench-torch bench-process demo wheels site pictures test lint check generate man clean scaleout campaign-cases campaign campaign-short sanitize fuzz parity digests digests-write mutants

demo: $(CORE)
	$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/pytest -n $(JOBS) tests

# What needs no test run: style, types, generated files fresh.
lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/generate.py --check

check: lint
	$(BIN)/pytest -n $(JOBS) -m "not slow" tests

# Figures of docs/scaleout.md: 4 GB through small workers, efficiency on two workers. Wants an idle machine.
scaleout: $(READY)
	CONVGRAD_SCALEOUT=1 $(BIN)/pytest -s -m slow tests/dask/test_dask_cluster.py
	$(BIN)/python tools/measure_scaleout.py

# 30,000 small cases through the command line; prints the time and the memory.
campaign-cases: $(READY)
	CONVGRAD_CAMPAIGN=30000 $(BIN)/pytest -s tests/lab/test_run.py -k thousands

# What a redesign must not change: bits, workspaces, answers, messages, public names, commands, the C ABI. A line per
# difference; `make digests-write` records anew (PARTS="bits api" for some of it). Five to ten minutes on two cores.
PARTS ?= bits answers calls api commands abi
digests: $(READY)
	$(BIN)/python tests/digests --only "$(PARTS)"

digests-write: $(READY)
	$(BIN)/python tests/digests --write --only "$(PARTS)"

# The tests against deliberate breaks (tests/mutants): prints how many are caught. Goes on where it stopped. An hour or
# more; ONLY=report for some, MUTANT_JOBS scratch copies at once.
MUTANT_JOBS ?= 1
mutants: $(READY)
	$(BIN)/python tests/mutants --jobs $(MUTANT_JOBS) --only "$(ONLY)"

man: generate  # docs/man, which wheels install

generate: $(READY)
	$(BIN)/python tools/generate.py

# The loss curves of docs/torch.md and docs/fewer_multiplications.md; a minute or two each.
training-plot: $(READY)
	$(BIN)/python examples/train_under_emulation.py docs/images/torch_training.svg
	$(BIN)/python examples/train_under_emulation.py docs/images/fast_training.svg algorithms

# NumPy arrays between PyTorch's calls, in one process.
bench-process: $(READY)
	$(BIN)/python benchmarks/one_process.py --json benchmarks/one_process.jsonl --page docs/generated/one_process.md

# ResNet-18's backward pass, PyTorch's own against emulated, in one run; the time and memory of a scan.
bench-torch: $(READY)
	$(BIN)/python benchmarks/torch_backward.py

# Environments: the core with its report, and everything the tests use. Rebuilt when the packaging or the native
# sources change. PyTorch first: the one this repository is measured with, so that
# nothing else is pulled.
SOURCES := pyproject.toml CMakeLists.txt $(shell find native -type f 2>/dev/null)
$(CORE): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --config-settings build-dir='build/{wheel_tag}' -e '.[report]'
	touch $(CORE)

$(READY): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade 'pip>=25.1'
	$(BIN)/pip install -q '$(TORCH)'
	$(BIN)/pip install -q --config-settings build-dir='build/{wheel_tag}' -e '.[dask,report,torch]' --group test --group dev --group site
	touch $(CORE) $(READY)

# Wheels for x86-64 and aarch64 in dist/, audited and tried in empty environments (aarch64 under the emulator).
wheels:
	test -x build/wheels/venv/bin/python || $(PYTHON) -m venv build/wheels/venv
	build/wheels/venv/bin/pip install -q --upgrade 'pip>=25.1'
	build/wheels/venv/bin/pip install -q --group wheels
	build/wheels/venv/bin/python tools/wheels.py

# The documents, the API and the examples as a site in build/site; a warning is an error.
site: $(READY)
	$(BIN)/pip install -q --group site
	$(BIN)/python -m sphinx -q -W --keep-going -b html -c docs/site . build/site

# Photographs for the documents, taken in Chromium.
pictures: $(READY)
	$(BIN)/python tools/pictures.py

# The C library under ASan with UBSan, and under TSan; and fuzzed (FUZZ_SECONDS, 300 by default).
sanitize: $(READY)
	$(BIN)/python tests/support/sanitize.py

fuzz: $(READY)
	$(BIN)/python tests/support/fuzz.py

# Ascend C in C++ and in Python: GetTiling of 2,000 problems for either kernel, every byte; whole kernels on 200 problems;
# 22,000 random call sequences, tiles, findings and bytes. Minutes.
parity: $(READY)
	CONVGRAD_HOST_PROBLEMS=2000 $(BIN)/pytest -q tests/ascendc/test_cpp_host.py -k get_tiling
	CONVGRAD_KERNEL_PROBLEMS=200 $(BIN)/pytest -q tests/ascendc -k "documented and kernel or several_planes or run_on_into or cube_cores"
	$(BIN)/python tests/support/call_sequences.py

# Hostile input of every kind, for as long as MINUTES say, on JOBS cores; goes on where it was stopped (STATE). What was
# done, and what was found, is printed; docs/reliability.md has the counts of the last full one (PAGE puts them there).
MINUTES ?= 120
STATE ?= build/campaign/state.json
campaign: $(READY)
	$(BIN)/python tests/campaign --minutes $(MINUTES) --jobs $(JOBS) --state $(STATE) $(if $(PAGE),--page $(PAGE))

# Each campaign once, small, below five minutes: the same that the tests run.
campaign-short: $(READY)
	$(BIN)/pytest -n $(JOBS) tests/campaign tests/calls/test_hostile_calls.py tests/acl/test_c_abi_reliability.py \
	    tests/engine/test_native_exactness.py -k "short or thousands or every or children or random"

include native/engine.mk

clean:
	rm -rf $(VENV) build dist
