"""The transcribed part of XLA's C ABI is that of the installed JAX, and the handler refuses foreign calls."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")
calls = pytest.importorskip("convgrad.jax.calls")

HEADER = Path(__file__).parents[2] / "native" / "jax" / "xla_ffi.h"
FIELDS = {
    "Extension XLA_FFI_Extension_Base": "struct_size type next",
    "ApiVersion XLA_FFI_Api_Version": "struct_size major_version minor_version",
    "Metadata XLA_FFI_Metadata": "struct_size api_version traits",
    "MetadataExtension XLA_FFI_Metadata_Extension": "base:extension_base metadata",
    "ErrorCreateArgs XLA_FFI_Error_Create_Args": "struct_size message code:errc",
    "Api XLA_FFI_Api": "struct_size api_version error_create:XLA_FFI_Error_Create",
    "Buffer XLA_FFI_Buffer": "struct_size dtype data rank dims",
    "ByteSpan XLA_FFI_ByteSpan": "ptr len",
    "Array XLA_FFI_Array": "dtype size data",
    "Buffers XLA_FFI_Args": "struct_size size types buffers:args",
    "Buffers XLA_FFI_Rets": "struct_size size types buffers:rets",
    "Attributes XLA_FFI_Attrs": "struct_size size types names values:attrs",
    "CallFrame XLA_FFI_CallFrame": "struct_size extension_start api stage arguments:args results:rets attributes:attrs",
}
CONSTANTS = {
    "API_MAJOR": "XLA_FFI_API_MAJOR", "EXTENSION_METADATA": "XLA_FFI_Extension_Metadata",
    "STAGE_EXECUTE": "XLA_FFI_ExecutionStage_EXECUTE", "BUFFER": "XLA_FFI_ArgType_BUFFER",
    "ATTRIBUTE_ARRAY": "XLA_FFI_AttrType_ARRAY", "DATA_S64": "XLA_FFI_DataType_S64",
    "INVALID_ARGUMENT": "XLA_FFI_Error_Code_INVALID_ARGUMENT", "INTERNAL": "XLA_FFI_Error_Code_INTERNAL",
    "RESOURCE_EXHAUSTED": "XLA_FFI_Error_Code_RESOURCE_EXHAUSTED",
}  # fmt: skip


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_fields_lie_where_the_installed_header_puts_them(tmp_path):
    """Offsets and sizes of every field that is read, and the numbers of every constant."""
    checks = [f"static_assert(int(xla_ffi::{a}) == int({b}), \"{a}\");" for a, b in CONSTANTS.items()]
    for pair, fields in FIELDS.items():
        ours, theirs = pair.split()
        for field in fields.split():
            a, _, b = field.partition(":")
            b = b or a
            checks.append(f'static_assert(offsetof(xla_ffi::{ours}, {a}) == offsetof({theirs}, {b}), "{theirs}.{b}");')
            checks.append(f'static_assert(sizeof(xla_ffi::{ours}::{a}) <= sizeof({theirs}::{b}), "{theirs}.{b}");')
    source = tmp_path / "layout.cpp"
    source.write_text('#include "xla/ffi/api/c_api.h"\n#include "xla_ffi.h"\n' + "\n".join(checks) + "\n")
    words = ["c++", "-std=c++17", "-fsyntax-only", f"-I{jax.ffi.include_dir()}", f"-I{HEADER.parent}", str(source)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_program_calls_the_engine_itself():
    """What is compiled names the engine's target; no callback into the interpreter is left."""
    import convgrad.jax as door

    x, w = np.ones((1, 2, 4, 4), "f4"), np.ones((2, 2, 3, 3), "f4")
    text = jax.jit(door.convolution).lower(x, w).as_text()
    assert f"@{calls.TARGET}" in text and "callback" not in text


@pytest.mark.parametrize(("problem", "places", "sentence"), [
    (np.zeros(3, np.int64), [0, 8], "no cg_problem"), (np.zeros(74, np.int64), [0], "an entry for each"),
    (np.zeros(74, np.int64), [0, 1 << 40], "outside of cg_problem"), (np.zeros(74, np.int64), [-8, 0], "outside"),
    (np.zeros(74, np.float64), [0, 8], "no cg_problem"),
])  # fmt: skip
def test_foreign_calls_are_refused(problem, places, sentence):
    """Attributes of another making end in an error of the program, not of the process."""
    assert calls.registered()
    x = np.ones(4, "f4")
    called = jax.ffi.ffi_call(calls.TARGET, jax.ShapeDtypeStruct((4,), np.float32))
    with pytest.raises(Exception, match=sentence):
        jax.block_until_ready(called(x, problem=problem, places=np.array(places, np.int64)))
