"""Conv3DBackpropFilter, file by file as its twin `input`."""

from ..shared.model import TileModel
from .golden import FilterGolden
from .kernel import Conv3DBackpropFilter
from .picture import draw_filter_walk
from .simulate import simulate_filter_plan
from .split import filter_plan_blocks
from .tiling import plan_filter
from .traffic import filter_traffic_report

MODEL = TileModel(
    gradient="weight",
    reads=("input", "grad_output"),
    tiling=plan_filter,
    split=filter_plan_blocks,
    kernel=Conv3DBackpropFilter,
    simulate=simulate_filter_plan,
    golden=FilterGolden,
    traffic=filter_traffic_report,
    picture=draw_filter_walk,
)
