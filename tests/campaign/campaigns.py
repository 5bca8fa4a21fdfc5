"""The campaigns: one row each, with what it tries, how many cases make a full campaign, and how it is run.

A campaign runs in chunks. `run(chunk, size)` tries `size` cases that follow from the number of the chunk alone, so a
finding is made again by its number. `short` cases of chunk 0 are part of the tests; campaigns that want a library built
for a sanitizer, or that a test runs short already, have none: `tests` says where the same is tried without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import batch_invariance
import c_calls
import command_lines
import damaged_files
import exact_integers
import killed_runs
import python_calls
import same_bits
import special_values
from outcome import Outcome


@dataclass(frozen=True)
class Campaign:
    """One row."""

    name: str
    what: str
    counted: str
    goal: int
    chunk: int
    """Asked of one process; a minute or less of one core."""
    run: Callable[[int, int], Outcome]
    short: int = 0
    tests: str = ""


CAMPAIGNS: tuple[Campaign, ...] = (
    Campaign("python-calls", "every public function, right arguments but for one to three that are anything; "
             "gradients and forward results against PyTorch in float64", "calls", 1_000_000, 20_000, python_calls.run,
             tests="tests/calls/test_hostile_calls.py::test_thousands_of_hostile_calls"),
    Campaign("jax-calls", "the same of the functions for JAX", "calls", 5_000, 250, python_calls.jax,
             tests="tests/jax/test_jax_gradients.py::test_hostile_calls"),
    Campaign("c-calls", "C calls in any order with null, live, stale and made-up handles, under ASan and UBSan",
             "calls", 1_000_000, 4_000, partial(c_calls.sequences, "address,undefined", "0"),
             tests="tests/acl/test_c_abi_sdk.py::test_random_call_sequences_return"),
    Campaign("c-calls-strict", "the same in strict mode", "calls", 1_000_000, 4_000,
             partial(c_calls.sequences, "address,undefined", "1"),
             tests="tests/acl/test_c_abi_sdk.py::test_random_call_sequences_return"),
    Campaign("c-threads", "the same from four threads that share handles, strict or not, under TSan", "calls",
             1_000_000, 800, c_calls.threads,
             tests="tests/acl/test_c_abi_sdk.py::test_call_sequences_of_several_threads_return"),
    Campaign("allocation-failure", "each allocation of each kind of call fails once, or it and all later ones; cold, "
             "warm, on a new thread; strict or not; also under ASan", "allocations", 14_000, 27, c_calls.allocations,
             tests="tests/acl/test_c_abi_reliability.py::test_every_allocation_may_fail"),
    Campaign("forks", "children of fork() while four threads are inside the library; strict or not; also under ASan "
             "and TSan", "children", 5_000, 100, c_calls.forked,
             tests="tests/acl/test_c_abi_reliability.py::test_children_of_fork_never_wait"),
    Campaign("exit-orders", "calls from destructors, exit handlers and keys, in every order and kind of end; also "
             "under ASan", "programs", 1_500, 60, c_calls.at_exit,
             tests="tests/acl/test_c_abi_reliability.py::test_calls_may_be_made_until_the_very_end"),
    Campaign("exact-avx2", "integers on every path against the law: log-uniform sizes, any strides, NaN in scratch "
             "memory, guarded", "problems", 200_000, 4_000, partial(exact_integers.run, ("avx2",)),
             tests="tests/engine/test_native_exactness.py::test_random_problems_of_every_size_and_stride"),
    Campaign("exact-avx512", "the same with AVX-512, and with pairs of bfloat16 where the machine has them",
             "problems", 200_000, 4_000, partial(exact_integers.run, ("avx512bf16", "avx512")),
             tests="tests/engine/test_native_exactness.py::test_random_problems_of_every_size_and_stride"),
    Campaign("exact-neon", "the same for NEON under an emulator, small", "problems", 2_000, 100,
             exact_integers.neon),
    Campaign("special-values", "NaN, infinities, subnormal numbers and minus zero on every path against the reference "
             "engine", "runs", 100_000, 1_000, special_values.run, short=60),
    Campaign("same-bits", "random problems on 1 to 7 threads, twice, with NaN in scratch memory, on AVX2, AVX-512 and "
             "pairs of bfloat16: one digest", "runs", 50_000, 60, same_bits.run, short=12),
    Campaign("batch-invariance", "random problems and layers: every sample alone, in parts of the batch, with samples "
             "that are not finite, on 1 to 5 threads, on AVX2, AVX-512 and pairs of bfloat16: the bits of the batch",
             "problems", 100_000, 500, batch_invariance.run, short=60),
    Campaign("killed-runs", "`convgrad run` killed with signal 9 at random moments and resumed, against a run that was "
             "not: records, tensors, no other file", "runs", 150, 5, killed_runs.run, short=1),
    Campaign("damaged-files", "damaged files of cases (lines, JSON, both kits', workbooks), journals, manifests, .npy, "
             ".bin, .pt and ONNX files, dumps of PyTorch runs, tiling records, each given to the command that reads it",
             "files", 10_000, 400, damaged_files.run, short=60),
    Campaign("command-lines", "every verb and option of the command line, right but for one to four words that are "
             "anything; files that are empty, endless, of another kind", "command lines", 10_000, 400,
             command_lines.run, short=60),
)  # fmt: skip


def find(name: str) -> Campaign:
    """The campaign of a name."""
    for campaign in CAMPAIGNS:
        if campaign.name == name:
            return campaign
    raise SystemExit(f"no such campaign: {name}; there are {', '.join(c.name for c in CAMPAIGNS)}")
