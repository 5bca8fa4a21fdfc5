"""Whose threads compute: those of an OpenMP runtime that is in the process already, else the engine's own."""

import ctypes
import ctypes.util
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import c_reliability
import convgrad
from convgrad.engines import library

pytestmark = pytest.mark.skipif(not library.available(), reason="the native library is not built")

BEGIN = """
import atexit, ctypes, os, sys, threading
import numpy as np
import convgrad

def gradients(threads=None):
    rng = np.random.default_rng(3)
    shapes = (4, 16, 20, 20), (24, 16, 3, 3), (4, 24, 20, 20)
    x, w, g = (rng.integers(-3, 4, shape).astype(np.float32) * np.float32(0.1) for shape in shapes)
    return [a.tobytes() for a in convgrad.conv_backward(g, x, w, padding=1, threads=threads)]

def pool():
    return convgrad.engine_info().threadpool

expected = gradients(1)
"""


def mapped(name):
    """Where a library of this name lies once it is loaded."""
    code = f"import ctypes; ctypes.CDLL({name!r}); print(open('/proc/self/maps').read())"
    maps = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return Path(next(line.split()[-1] for line in maps.splitlines() if name in line))


def gnu():
    """The system's libgomp, or PyTorch's."""
    system = ctypes.util.find_library("gomp")
    if system is not None:
        return mapped(system)
    torch = find_spec("torch")
    found = [*Path(torch.origin).parent.glob("lib/libgomp*")] if torch is not None else []
    if not found:
        pytest.skip("no libgomp on this machine")
    return found[0]


def llvm():
    """LLVM's libomp, which serves GCC's entry points too."""
    system = ctypes.util.find_library("omp")
    if system is None:
        pytest.skip("no libomp on this machine")
    return mapped(system)


@pytest.fixture(params=[gnu, llvm], ids=["libgomp", "libomp"])
def runtime(request):
    """The path of an OpenMP runtime."""
    return request.param()


def python(code, *arguments, **environment):
    """What a new process prints; it must end by itself, well and within a minute."""
    hidden = ("CONVGRAD_", "OMP_", "GOMP_")
    plain = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGIN + code, *map(str, arguments)],
        capture_output=True, text=True, env={**plain, **environment}, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_a_runtime_is_used_when_it_appears_and_under_any_name(runtime, tmp_path):
    """Own threads first; then those of a renamed, private copy of libgomp; then of the one the whole process sees."""
    local, every = tmp_path / "libgomp-a34b3233.so.1.0.0", tmp_path / "libgomp.so.1"
    for copy in (local, every):
        shutil.copy(runtime, copy)
    code = """
print(pool()); assert gradients(2) == expected
ctypes.CDLL(sys.argv[1])
for threads in (2, 3, 1): assert gradients(threads) == expected
print(pool())
ctypes.CDLL(sys.argv[2], ctypes.RTLD_GLOBAL)
for threads in (2, 3, 1): assert gradients(threads) == expected
print(pool())
"""
    two_copies = {"KMP_DUPLICATE_LIB_OK": "TRUE"}  # libomp ends a process that has them, unless told so
    assert python(code, local, every, **two_copies).stdout.split() == ["own", str(local), str(every)]


@pytest.mark.parametrize(("asked", "words"), [("own", ""), ("shared", ""), ("mine", "CONVGRAD_THREADPOOL=mine")])
def test_the_environment_overrules(runtime, asked, words):
    """own keeps to the engine's threads, shared to the runtime's; anything else is told and not heeded."""
    done = python(
        "ctypes.CDLL(sys.argv[1]); assert gradients(2) == expected; print(pool())", runtime, CONVGRAD_THREADPOOL=asked
    )
    assert done.stdout.strip() == ("own" if asked == "own" else str(runtime))
    assert (words in done.stderr) if words else not done.stderr


def test_the_number_of_threads_is_the_runtimes(runtime):
    """CONVGRAD_NUM_THREADS before omp_set_num_threads, which torch.set_num_threads calls, before OMP_NUM_THREADS."""
    code = """
def threads(): return convgrad.engine_info().threads
gomp = ctypes.CDLL(sys.argv[1])
print(threads())
gomp.omp_set_num_threads(3); print(threads()); assert gradients() == expected
os.environ["CONVGRAD_NUM_THREADS"] = "2"; print(threads()); assert gradients() == expected
del os.environ["CONVGRAD_NUM_THREADS"]
os.environ["CONVGRAD_THREADPOOL"] = "own"; print(threads()); assert gradients() == expected
"""
    assert python(code, runtime, OMP_NUM_THREADS="5").stdout.split() == ["5", "3", "2", "5"]


def test_a_forked_child_does_not_wait_for_threads_it_has_not_got(runtime):
    """GCC's runtime hangs in a child whose parent used it: the child has threads of its own, the parent goes on."""
    code = """
ctypes.CDLL(sys.argv[1])
assert gradients(2) == expected and pool() == sys.argv[1]
for _ in range(3):
    child = os.fork()
    if child == 0:
        assert gradients(2) == expected and gradients(3) == expected
        print(pool(), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert gradients(2) == expected and pool() == sys.argv[1]
"""
    assert python(code, runtime).stdout.split() == ["own"] * 3


def test_forks_while_other_threads_compute(runtime):
    """Children of a process whose threads are inside calls, in the runtime and looking for one, all end."""
    code = """
over = []
def compute():
    while not over: assert gradients(2) == expected
threads = [threading.Thread(target=compute) for _ in range(3)]
for thread in threads: thread.start()
for i in range(30):
    if i == 10: ctypes.CDLL(sys.argv[1])
    child = os.fork()
    if child == 0:
        os._exit(gradients(2) != expected)
    assert os.waitpid(child, 0)[1] == 0
over.append(True)
for thread in threads: thread.join()
print(pool() == sys.argv[1])
"""
    assert python(code, runtime).stdout.strip() == "True"


@pytest.mark.parametrize("levels", ["1", "3"])
@pytest.mark.parametrize("asked", ["", "own", "shared"])
def test_calls_from_inside_a_parallel_region(runtime, levels, asked):
    """Every member of somebody's team makes a call, nesting allowed or not: the same bits, and the region ends."""
    code = """
gomp = ctypes.CDLL(sys.argv[1])
Member = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
right = []
@Member
def member(context):
    right.append(gomp.omp_in_parallel() == 1 and gradients(2) == expected and gradients() == expected)
for _ in range(3):
    gomp.GOMP_parallel(member, None, 4, 0)
print(len(right), all(right), gradients(2) == expected)
"""
    environment = {"OMP_MAX_ACTIVE_LEVELS": levels, "CONVGRAD_THREADPOOL": asked}
    assert python(code, runtime, **environment).stdout.split() == ["12", "True", "True"]


def test_many_threads_do_not_get_a_team_each(runtime):
    """Sixteen threads that call one after the other: four lead teams of the runtime, the others share a pool."""
    code = """
ctypes.CDLL(sys.argv[1])
def alive(): return len(os.listdir("/proc/self/task"))
ready, done = threading.Barrier(17), threading.Event()
turn = threading.Lock()
def call():
    with turn: assert gradients(3) == expected
    ready.wait(); done.wait()
threads = [threading.Thread(target=call) for _ in range(16)]
for thread in threads: thread.start()
ready.wait()
print(alive() - 17)
done.set()
for thread in threads: thread.join()
assert gradients(3) == expected  # those who left make room for others
"""
    started = int(python(code, runtime, OMP_NUM_THREADS="3").stdout)
    assert started <= 4 * 2 + 2 + os.cpu_count(), started  # NumPy's own pool comes on top


def test_c_programs_with_a_runtime_in_them_end_and_fork(runtime):
    """Calls in exit handlers and destructors, before and after the runtime's own, and in forked children, work."""
    how = c_reliability.Build(environment={"LD_PRELOAD": str(runtime)})
    cases = c_reliability.exit_cases(["large_convolution"], ["return", "exit"])
    assert not c_reliability.exit_orders(how, cases).wrong
    assert not c_reliability.forks(how, 2, 10).wrong


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_pytorchs_threads_without_being_asked():
    """`import torch` beside `convgrad.conv_backward` on NumPy arrays: PyTorch's runtime, and its number of threads."""
    code = """
import torch
torch.set_num_threads(3)
torch.randn(300, 300) @ torch.randn(300, 300)
print(Path(pool()).name.startswith("libgomp"), convgrad.engine_info().threads, gradients() == expected)
torch.set_num_threads(1)
print(convgrad.engine_info().threads, gradients() == expected)
"""
    done = python("from pathlib import Path\n" + code)
    if done.stdout.startswith("False"):
        pytest.skip("this PyTorch has no OpenMP runtime")
    assert done.stdout.split() == ["True", "3", "True", "1", "True"]


def gradients(threads):
    rng = np.random.default_rng(3)
    x, w, g = (rng.standard_normal(s, np.float32) for s in ((4, 16, 20, 20), (24, 16, 3, 3), (4, 24, 20, 20)))
    return [a.tobytes() for a in convgrad.conv_backward(g, x, w, padding=1, threads=threads)]


@pytest.mark.parametrize("extra", [-2, 0, 4])
def test_a_lender_is_asked_for_every_thread_and_may_send_more_or_fewer(extra):
    """cg_borrow_threads: all members are asked for; fewer do the whole work, those beyond that number leave."""
    Member = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    asked = []

    @ctypes.CFUNCTYPE(None, Member, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
    def team(member, context, members, flags):
        asked.append(members)
        for _ in range(members + extra):
            member(context)

    lend = library.library().cg_borrow_threads
    lend.argtypes = (ctypes.c_void_p,)
    expected = gradients(1)
    lend(ctypes.cast(team, ctypes.c_void_p))
    try:
        assert gradients(3) == expected
        assert convgrad.engine_info().threadpool == "lent"
    finally:
        lend(None)
    assert asked and set(asked) == {3}
