"""The extend kernel for Hopper GPUs: it compiles without one, and is right where there is one.

Triton's interpreter does not know Gluon.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported
pytest.importorskip("triton", reason="triton is not installed")

_COMPILE = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import compile
from triton.experimental.gluon._runtime import GluonASTSource
from sgc_kernels.gpu.attention import extend_hopper as hopper

head_dim, windowed, dtype = int(sys.argv[1]), sys.argv[2] == "True", sys.argv[3]
sizes = dict(KV_HEADS=8, GROUP=4, WINDOWED=windowed, WIDE=windowed, DIM=head_dim, BLOCK=128)
sizes |= dict(STAGES=2, MULTIPLY=hopper._MULTIPLY, GATHER=hopper._GATHER)
kinds = {name: "*" + dtype for name in ("q", "k_cache", "v_cache", "out")}
kinds |= {"slots": "*i32", "items": "*i32", "partial_sums": "*fp32", "partial_logs": "*fp32"}
kinds |= {"scale": "fp32"}
names = hopper._extend.arg_names
signature = {name: "constexpr" if name in sizes else kinds.get(name, "i32") for name in names}
aligned = [i for i, name in enumerate(names) if name not in (*sizes, "scale", "window")]
attributes = {(i,): [["tt.divisibility", 16]] for i in aligned}
source = GluonASTSource(hopper._extend, signature, sizes, attributes)
options = {"num_warps": 4, "maxnreg": hopper._ALL}
ptx = compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]
assert ptx.count("wgmma.mma_async") and ptx.count("cp.async.cg") and ptx.count("setmaxnreg")
print("compiled")
"""


@pytest.mark.parametrize(
    ("head_dim", "windowed", "dtype"), [(128, False, "bf16"), (64, True, "fp16")]
)
def test_compiles_without_a_gpu(head_dim: int, windowed: bool, dtype: str) -> None:
    path = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE, str(head_dim), str(windowed), dtype],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "compiled\n", done.stderr[-2000:]
