"""The documented tile-kernel loop in Python: run it on every core, check its offsets, compare a dump, draw the walk."""

from pathlib import Path

import numpy as np

import convgrad
from convgrad import ascendc as ac

# A strided 3-D convolution whose last gradInput plane no window plane reaches: the kernel must zero it first.
grad_output = np.random.default_rng(0).integers(-2, 3, (2, 40, 2, 10, 12)).astype(np.float16)
weight = np.random.default_rng(1).integers(-2, 3, (40, 30, 2, 3, 3)).astype(np.float16)
input_shape, attributes = (2, 30, 5, 20, 12), {"stride": (2, 2, 1), "padding": (0, 0, 1, 1, 1, 1)}

plan = ac.simulate(grad_output, weight, input_shape=input_shape, cores=24, **attributes)
blank = np.zeros(input_shape, np.float16)
pads = [(0, 0), (1, 1), (1, 1)]
plain = convgrad.conv_backward(
    grad_output, blank, weight, stride=(2, 2, 1), padding=pads, output_mask=(True, False, False)
).input
print("simulate == conv_backward:", np.array_equal(plan.grad_input, plain), "on", plan.cores_used, "cores")


def kernel(core: ac.Core, top_pad: bool = True):
    """What each core runs; `yield` is SyncAll. Without `top_pad` it makes the mistake everybody makes once."""
    t = core.tiling
    share = -(-t.grad_input_size // core.GetBlockNum())
    start = core.GetBlockIdx() * share
    ac.Fill(core.gradInputGm[start], max(0, min(share, t.grad_input_size - start)), 0)
    yield
    gradInput_ = core.kernel()
    gradInput_.Init(t)
    for block in ac.flat_blocks(t, core.GetBlockNum()):
        if block.core == core.GetBlockIdx():
            gradInput_.SetSingleShape(block.M, block.K, block.N)
            gradInput_.SetStartPosition(block.plane, block.first_row - (t.backpropPadUp if top_pad else 0))
            gradInput_.SetGradOutput(core.gradOutputGm[block.offset_a])
            gradInput_.SetWeight(core.weightGm[block.offset_b])
            while gradInput_.Iterate():
                gradInput_.GetTensorC(core.gradInputGm[block.offset_c])
            gradInput_.ctx.isFirstIter_ = True
    gradInput_.End()


t = plan.tiling
print("\nmy kernel:", ac.check_kernel(kernel, t, cores=24))
print("\nwithout the top pad:", ac.check_kernel(lambda core: kernel(core, top_pad=False), t, cores=24))

dump = ac.run_kernel(kernel, t, plan.grad_output_gm, plan.weight_gm, cores=24)
golden = ac.Golden(plan)
print("\nmy dump:", ac.compare_dump(golden, dump))
dump[golden.tile(3, next(golden.tiles(core=3)).block, 0, 0).slices[0].start + 7] += 1
print("with one element wrong:", ac.compare_dump(golden, dump))

Path("tile_walk.svg").write_text(ac.draw_walk(t, plan.blocks, 24, title="examples/05_tile_kernel.py"), encoding="utf-8")
print("\nwrote tile_walk.svg")
