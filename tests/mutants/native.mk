# The native library for one instruction set, quickly: what a break is compiled with, object by object.
#   make -f tests/mutants/native.mk ISA=avx2
ISA ?= avx2
AVX2 := -mavx2 -mfma -mf16c -mbmi2
LANES_baseline := 4
LANES_avx2 := 8 $(AVX2)
LANES_avx512bf16 := 16 $(AVX2) -mavx512f -mavx512vl -mavx512dq -mavx512bw -mavx512bf16
LANES_neon := 4
FLAGS := -std=gnu++17 -O1 -fPIC -fvisibility=hidden -ffp-contract=off -Wno-psabi -pthread -MMD -DCG_ONLY_ISA=$(ISA) \
    -Inative/include -Inative/engine -Inative/acl -Inative/sdk/include
OUT := build/mutants/$(ISA)
OBJECTS := $(patsubst %.cpp,$(OUT)/%.o,$(filter-out %/kernels.cpp,$(shell find native/engine native/acl -name '*.cpp')))

$(OUT)/libconvgrad.so: $(OBJECTS) $(OUT)/kernels.o
	$(CXX) -shared -pthread -Wl,-z,nodelete -Wl,--version-script=native/exports.map -Wl,-Bsymbolic $^ -o $@
$(OUT)/kernels.o: native/engine/kernels.cpp
	mkdir -p $(@D)
	$(CXX) $(FLAGS) -DCG_ISA=$(ISA) -DLANES=$(word 1,$(LANES_$(ISA))) $(wordlist 2,20,$(LANES_$(ISA))) -c $< -o $@
$(OUT)/%.o: %.cpp
	mkdir -p $(@D)
	$(CXX) $(FLAGS) -c $< -o $@
-include $(shell find $(OUT) -name '*.d' 2>/dev/null)
