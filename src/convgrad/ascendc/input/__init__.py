"""Conv3DBackpropInput, file by file as its twin `filter`."""

from ..shared.model import TileModel
from .golden import Golden
from .kernel import Conv3DBackpropInput
from .picture import draw_walk
from .simulate import simulate_plan
from .split import plan_blocks
from .tiling import plan_input
from .traffic import traffic_report

MODEL = TileModel(
    gradient="input",
    reads=("grad_output", "weight"),
    tiling=plan_input,
    split=plan_blocks,
    kernel=Conv3DBackpropInput,
    simulate=simulate_plan,
    golden=Golden,
    traffic=traffic_report,
    picture=draw_walk,
)
