"""One pool of threads for PyTorch and the engine.

PyTorch's OpenMP threads keep spinning for some milliseconds after each of its operators. Threads of our own would get
half of their cores meanwhile, so the engine computes on PyTorch's.
"""

from __future__ import annotations

import ctypes

from convgrad.engines import library


def share_threads() -> bool:
    """Lets the engine compute on PyTorch's OpenMP threads; False where there are none to be found."""
    try:
        team = ctypes.CDLL(None).GOMP_parallel  # PyTorch loads its runtime for the whole process
    except (AttributeError, OSError, TypeError):  # TypeError: Windows has no handle of the whole process
        return False
    if not library.available():
        return False
    library.borrow_threads(ctypes.cast(team, ctypes.c_void_p).value)
    return True
