# Builds of the engine that Python does not load: under sanitizers, and for processors this machine emulates.
# tests/native/exactness.cpp compares every path with the law on integers; its argument is the number of problems.
ENGINE_FILES := $(shell find native/engine native/include -type f)
ENGINE_SOURCES := $(filter-out %/kernels.cpp,$(filter %.cpp,$(ENGINE_FILES))) tests/native/exactness.cpp
ENGINE_FLAGS := -std=gnu++17 -Inative/include -Inative/engine -ffp-contract=off -Wno-psabi -pthread
AVX2 := -mavx2 -mfma -mf16c -mbmi2
PROBLEMS ?= 150

.PHONY: test-sanitize test-sanitize-avx512 test-clang test-aarch64 campaign-exactness campaign-bounds bench bench-fast

# One rule: the kernels for one instruction set, then the rest of the engine and the test program around them.
build/engine/%/exactness: $(ENGINE_FILES) tests/native/exactness.cpp native/engine.mk
	mkdir -p $(@D)
	$(CXX_$*) $(ENGINE_FLAGS) $(FLAGS_$*) -DCG_ISA=$(word 1,$(ISA_$*)) -DLANES=$(word 2,$(ISA_$*)) \
	    $(wordlist 3,20,$(ISA_$*)) -c native/engine/kernels.cpp -o $(@D)/kernels.o
	$(CXX_$*) $(ENGINE_FLAGS) $(FLAGS_$*) -DCG_ONLY_ISA=$(word 1,$(ISA_$*)) $(ENGINE_SOURCES) $(@D)/kernels.o -o $@

CXX_sanitize := g++
FLAGS_sanitize := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
ISA_sanitize := avx2 8 $(AVX2)
CXX_sanitize512 := g++
FLAGS_sanitize512 := $(FLAGS_sanitize)
ISA_sanitize512 := avx512bf16 16 $(AVX2) -mavx512f -mavx512vl -mavx512dq -mavx512bw -mavx512bf16
CXX_clang := clang++
FLAGS_clang := -O2
ISA_clang := avx2 8 $(AVX2)
CXX_avx2 := g++
FLAGS_avx2 := -O2
ISA_avx2 := $(ISA_sanitize)
CXX_avx512bf16 := g++
FLAGS_avx512bf16 := -O2
ISA_avx512bf16 := $(ISA_sanitize512)
CXX_aarch64 := aarch64-linux-gnu-g++
FLAGS_aarch64 := -O2 -static
ISA_aarch64 := neon 4

# No access outside a tensor, no undefined behaviour, on any path.
test-sanitize: build/engine/sanitize/exactness
	$< $(PROBLEMS)

# The same for AVX-512 and its pairs of bfloat16; needs a processor that has them.
test-sanitize-avx512: build/engine/sanitize512/exactness
	$< $(PROBLEMS)

# The same program compiled by Clang.
test-clang: build/engine/clang/exactness
	$< $(PROBLEMS)

# The NEON kernels, compiled by the cross compiler and run by the emulator.
test-aarch64: build/engine/aarch64/exactness
	qemu-aarch64 $< $(PROBLEMS)

# Random problems of every size and stride, and every cut of every path: for hours before a release. Seeds go on from
# SEED, so that a second run tries other problems.
CAMPAIGN_PROBLEMS ?= 200000
SEED ?= 1
campaign-exactness: build/engine/avx2/exactness build/engine/avx512bf16/exactness build/engine/aarch64/exactness
	for set in avx2 avx512bf16; do build/engine/$$set/exactness cuts && \
	    build/engine/$$set/exactness $(CAMPAIGN_PROBLEMS) $(SEED) 3e6 || exit 1; done
	qemu-aarch64 build/engine/aarch64/exactness $$(( $(CAMPAIGN_PROBLEMS) / 100 )) $(SEED)

# The stated error bounds of the Winograd paths on 10,000 random problems; 150 of them are in the tests.
campaign-bounds: $(READY)
	CONVGRAD_BOUND_PROBLEMS=10000 $(BIN)/pytest -n 0 -q \
	    tests/engine/test_winograd.py::test_errors_stay_within_the_stated_bound

# Both held to AVX2, so that machines can be compared; then as they like, where that is more.
RECORD := $(BIN)/python benchmarks/run.py --json benchmarks/recorded.jsonl
bench: $(READY)
	$(RECORD) --isa avx2
	$(RECORD) --append --isa avx2 --channels-last --dtypes fp32
	$(RECORD) --append --isa avx2 --batch 10 --dtypes fp32
	$(RECORD) --append --unless avx2
	$(BIN)/python benchmarks/compare.py --page benchmarks/recorded.jsonl > docs/generated/benchmark.md

# Fewer multiplications beside direct, PyTorch and JAX: docs/generated/fast.md and fast.svg are made from its rows. Then
# held to AVX2; in the narrow dtypes beside direct alone where PyTorch has no instructions for them.
RECORD_FAST := $(BIN)/python benchmarks/run.py --json benchmarks/fast.jsonl --rounds 3
FAST_LAYERS := --no-errors benchmarks/problems/fast.txt
bench-fast: $(READY)
	$(RECORD_FAST) --dtypes fp32 $(FAST_LAYERS)
	$(RECORD_FAST) --append --no-jax --isa avx2 --dtypes fp32 $(FAST_LAYERS)
	$(RECORD_FAST) --append --no-jax --unless avx2 --dtypes bf16 $(FAST_LAYERS)
	$(RECORD_FAST) --append --no-jax --no-pytorch --unless avx2 --dtypes fp16 hf32 $(FAST_LAYERS)
	$(RECORD_FAST) --append --no-jax --no-pytorch --isa avx2 --dtypes bf16 fp16 hf32 $(FAST_LAYERS)
	$(BIN)/python tools/generate.py
