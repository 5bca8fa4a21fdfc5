"""A C++ kernel's trace through the Python model: the same findings, then reports, golden tiles and pictures of it.

`CONVGRAD_TILE_TRACE=FILE` makes a program write each launch, the regions of memory its arguments open, every call of
every core in the order they came (refused ones too), what cores heard of each other, and what was found. Replayed, each
call goes to the model's objects; what a core has heard of orders fills and stores as it did in C++.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .device.call_order import State
from .device.conv_type import ConvDtype, ConvFormat, find_dtype
from .device.errors import TileKernelError, TilingError
from .device.global_tensor import Fill, GlobalMemory, GlobalTensor
from .filter import coverage as filter_coverage
from .filter.kernel import Conv3DBackpropFilter, PartOfSum
from .filter.record import TConv3DBpFilterTiling
from .filter.simulate import filter_types
from .filter.split import FilterBlock
from .input import coverage as input_coverage
from .input.kernel import Conv3DBackpropInput
from .input.record import TConv3DBackpropInputTiling
from .input.simulate import input_types
from .input.split import Block
from .shared.coverage import Finding, Findings, KernelReport, Ledger
from .shared.pointers import place_in_ndc1hwc0
from .shared.tiling_record import ceil_div, record_from_dict

Record = TConv3DBackpropInputTiling | TConv3DBpFilterTiling
Kernel = Conv3DBackpropInput | Conv3DBackpropFilter
WORDS = (("isFirstIter_ = True", "isFirstIter_ = true"), ("(yield)", "(SyncAll)"))
"""Where a message in C++ reads otherwise than in Python."""
MOST_SUMS = 1 << 20
"""Window planes by gradOutput planes whose terms are counted: a record may claim any number."""
OPERANDS = {"SetGradOutput": ("gradOutput", "_grad_output"), "SetWeight": ("weight", "_weight"),
            "SetInput": ("input", "_input")}  # fmt: skip
"""What a setter names, and where its object keeps it."""


@dataclass(frozen=True, slots=True)
class Told:
    """A finding as the C++ program told it; `place` is file:line, empty where it concerns the whole launch."""

    rule: str
    text: str
    core: int | None
    count: int
    place: str

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{place}{Finding(self.rule, self.text, self.core, self.count)}"


@dataclass(slots=True)
class Region:
    """A stretch of global memory that an argument of the launch opened."""

    name: str
    size: int
    zeros: int = 0
    """Bytes from its start on that were zero when the launch began."""
    named_by_use: bool = False

    @property
    def is_workspace(self) -> bool:
        """Whether its name says so: nobody expects a whole result in it."""
        return "workspace" in self.name.lower()


@dataclass(slots=True)
class TracedLaunch:
    """One launch: its regions by number, its calls and what cores heard, in order, and what the program found."""

    name: str
    blocks: int
    regions: dict[int, Region] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    findings: list[Told] = field(default_factory=list)


def read_trace(path: str | PathLike[str], most: int | None = None) -> list[TracedLaunch]:
    """The launches of a trace, of its first `most` lines; a last line that a crash cut short is left out."""
    launches: list[TracedLaunch] = []
    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(islice(lines, most), 1):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if not isinstance(row, dict):
                raise TilingError(f"{path}:{number}: not a line of a trace", "trace.line")
            if "launch" in row:
                launches.append(TracedLaunch(row["launch"], row["blocks"]))
            elif launches:
                _note(launches[-1], row)
    return launches


def _note(launch: TracedLaunch, row: dict[str, Any]) -> None:
    if "finding" in row:
        core = None if row["core"] < 0 else row["core"]
        launch.findings.append(Told(row["finding"], row["text"], core, row["count"], row["place"]))
    elif "region" in row:
        launch.regions[row["region"]] = Region(row["name"], row["bytes"], row["zeros"])
    else:
        launch.events.append(row)


def last_call(path: str | PathLike[str]) -> str:
    """The last call in a trace, in words: where a program was when it died."""
    with Path(path).open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - 8192))
        lines = file.read().decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if "call" in event:
            role = "vector core of block" if event["role"] == "vector" else "core"
            call = "an object was made" if event["call"] == "make" else event["call"]
            return f"{role} {event['core']}, {call} at {event['file']}:{event['line']}"
    return ""


@dataclass(slots=True)
class Walk:
    """One walk of an object: what its setters had been told, and where its tiles went."""

    core: int
    shape: tuple[int, int, int]
    start: tuple[int, ...]
    grad_output: int
    other: int
    output: int | None = None
    atomic: bool = False
    planes: int = 1


@dataclass(slots=True)
class Player:
    """One object of the C++ program in the model."""

    kernel: Kernel
    dtype: ConvDtype
    ncdhw: bool
    calls: dict[str, tuple[int, ...]] = field(default_factory=dict)
    walk: Walk | None = None


class Replay:
    """A launch in the model. `contents` are the bytes of regions by name; memory without contents is zero.

    findings    by rule, with the words of the C++ program
    walks       every walk in the order of the cores' turns
    record      the tiling of the first object, None when no Init got that far
    """

    def __init__(self, launch: TracedLaunch, contents: Mapping[str, bytes] | None = None) -> None:
        self.launch = launch
        self.walks: list[Walk] = []
        self.record: Record | None = None
        self.dtype: ConvDtype | None = None
        self.ncdhw = False
        self.memory = {
            number: self._bytes(region, contents or {}) for number, region in launch.regions.items()
        }  # fmt: skip
        self._players: dict[int, Player] = {}
        self._heard: dict[int, NDArray[np.int64]] = {}
        self._block_of: dict[int, int] = {}
        threads = max((event["thread"] for event in launch.events), default=0) + 1
        self._nobody = np.zeros(threads, np.int64)
        self._plain = Ledger(0)  # who runs, for refusals; regions that hold a result have one of their own
        self._findings = Findings(self._plain, str)
        self._ledgers: dict[int, Ledger] = {}
        self._reductions: dict[int, filter_coverage.Reduction] = {}
        self._views: dict[tuple[int, str], GlobalMemory] = {}
        self._results = self._result_regions()
        self._judged: dict[int, str] = {}
        """Regions that hold a result, and where their first tile was stored."""
        self._place = ""
        self._places: dict[str, str] = {}
        self._counts_terms = True
        self.reports: list[KernelReport] = []
        for event in launch.events:
            self._play(event)
        self._judge()

    @property
    def findings(self) -> tuple[Told, ...]:
        """What the model found, in the words of the C++ program, with the line that was first."""
        found = self._findings.in_order()
        cores = [None if one.core is None else self._block_of.get(one.core, one.core) for one in found]
        return tuple(
            Told(one.rule, spoken(one.text), core, one.count, self._places.get(one.rule, ""))
            for one, core in zip(found, cores, strict=True)
        )

    # ---- memory

    @staticmethod
    def _bytes(region: Region, contents: Mapping[str, bytes]) -> NDArray[np.uint8]:
        data = np.zeros(region.size, np.uint8)
        given = np.frombuffer(contents.get(region.name, b""), np.uint8)[: region.size]
        data[: given.size] = given
        return data

    def _tensor(self, number: int, element: int, storage: np.dtype[Any]) -> GlobalTensor:
        """A view of a region; memory that no region covers has no elements."""
        key = number, storage.str
        if key not in self._views:
            data = self.memory.get(number, np.zeros(0, np.uint8))
            whole = data[: data.size // storage.itemsize * storage.itemsize].view(storage)
            name = self.launch.regions[number].name if number in self.launch.regions else "memory that is not known"
            self._views[key] = GlobalMemory(whole, name, self._ledgers.get(number))
        return GlobalTensor(self._views[key], element)

    def _name(self, number: int, name: str) -> None:
        """The name an operand has in messages, from its first use on."""
        region = self.launch.regions.get(number)
        if region is None or region.named_by_use or region.is_workspace:
            return
        region.name, region.named_by_use = name, True
        for (known, _), memory in self._views.items():
            if known == number:
                memory.name = name

    def _result_regions(self) -> dict[int, int]:
        """Regions that tiles are stored to in their places, each with the first object that does so."""
        made = {one["object"]: one["args"] for one in self.launch.events if one.get("call") == "make"}
        found: dict[int, int] = {}
        for event in self.launch.events:
            if event.get("call") == "GetTensorC" and event["role"] != "vector" and event["object"] in made:
                gradient, _, ncdhw = made[event["object"]]
                if not ncdhw and not (gradient == "filter" and event["args"][3]):
                    found.setdefault(event["args"][0], event["object"])
        return found

    # ---- calls

    def _play(self, event: dict[str, Any]) -> None:
        thread = event["thread"]
        if "heard" in event:
            heard = self._nobody.copy()
            heard[: len(event["heard"])] = event["heard"][: heard.size]
            self._heard[thread] = heard
            return
        self._block_of[thread] = event["core"]
        heard = self._heard.get(thread, self._nobody)
        for ledger in (self._plain, *self._ledgers.values()):
            ledger.enter(thread, int(heard[thread]), heard)
        self._place = f"{event['file']}:{event['line']}"
        try:
            self._call(event, event["call"], event["args"])
        except TileKernelError as error:
            self._findings.refused(error)
        for rule in self._findings.by_rule.keys() - self._places.keys():
            self._places[rule] = self._place

    def _call(self, event: dict[str, Any], call: str, args: list[Any]) -> None:
        if call in ("Fill", "store"):
            self._touch(call, *args)
        elif call == "make":
            self._make(event["object"], *args)
        elif event["object"]:
            player = self._players[event["object"]]
            player.kernel.ctx.isFirstIter_ = event["first"]
            if event["role"] == "vector":  # walks along and computes nothing
                player.kernel._dry = True
                if call == "GetTensorC":
                    return
            self._object_call(player, event["core"], call, args)
            if event["role"] == "vector" and player.kernel._life.state is State.TILE_WAITING:
                player.kernel._life.move(State.TILE_TAKEN)

    def _make(self, number: int, gradient: str, dtype: str, ncdhw: bool) -> None:
        code, report = find_dtype(dtype), self._findings.refused
        kernel: Kernel
        if gradient == "input":
            layout = ConvFormat.NCDHW if ncdhw else ConvFormat.NDC1HWC0
            kernel = Conv3DBackpropInput(*input_types(code, layout), report=report)
        else:
            kernel = Conv3DBackpropFilter(*filter_types(code), report=report, taken=self._summed)
        self._players[number] = Player(kernel, code, ncdhw)

    def _touch(self, call: str, region: int, element: int, count: int, item: int, name: str) -> None:
        """What a core does to memory besides tiles: a fill, or a store of its own."""
        tensor = self._tensor(region, element, np.dtype(f"u{item}"))
        if region in self._results:
            self._follow(region)
        ledger = self._ledgers.get(region)
        first, last = tensor.span(0, count, name)
        if ledger is not None:
            scale = item / self._players_item(region)
            start, stop = int(first * scale), ceil_div(int(last * scale * 2), 2)
            if call == "Fill":
                ledger.filled(start, stop)
            else:
                ledger.stored(start, stop, False)
        elif call == "Fill":
            Fill(tensor, count, 0)

    def _players_item(self, region: int) -> int:
        return 2 if isinstance(self._record_of(region), TConv3DBackpropInputTiling) else 4

    def _record_of(self, region: int) -> Record | None:
        """The tiling of a result: of the object that stores to it, as its Init will be told."""
        number = self._results[region]
        kind: type[Any] = TConv3DBackpropInputTiling
        for event in self.launch.events:
            if event.get("object") == number and event["call"] == "make":
                kind = TConv3DBackpropInputTiling if event["args"][0] == "input" else TConv3DBpFilterTiling
            if event.get("object") == number and event["call"] == "Init" and event["args"][0]:
                return record_from_dict(kind, event["args"][0])  # type: ignore[no-any-return]
        return None

    def _follow(self, region: int) -> None:
        """From now on what happens to each element of a result is written down."""
        if region in self._ledgers or region not in self.memory:
            return
        record = self._record_of(region)
        if record is None:
            return
        whole = record.grad_input_size if isinstance(record, TConv3DBackpropInputTiling) else record.grad_weight_size
        size = min(whole, self.memory[region].size // self._players_item(region))
        ledger = self._ledgers[region] = Ledger(size)
        ledger.zeroed_before = min(size, self.launch.regions[region].zeros // self._players_item(region))
        ledger.enter(self._plain.core, self._plain.epoch, self._plain.heard)
        for (known, _), memory in self._views.items():
            if known == region and memory.data.itemsize == self._players_item(region):
                memory.watcher = ledger
        if isinstance(record, TConv3DBpFilterTiling) and record.dk * record.batch * record.dout <= MOST_SUMS:
            self._reductions[region] = filter_coverage.Reduction(record)

    def _object_call(self, player: Player, core: int, call: str, args: list[Any]) -> None:
        kernel = player.kernel
        if call == "Init":
            if args[0] is not None:
                kernel.Init(args[0])
                if self.record is None:
                    self.record, self.dtype, self.ncdhw = kernel.tiling, player.dtype, player.ncdhw
        elif call in ("SetGradOutput", "SetWeight", "SetInput"):
            region, element = args
            name, kept = OPERANDS[call]
            tensor = self._tensor(region, element, kernel.types[0].storage)
            getattr(kernel, call)(tensor)
            if getattr(kernel, kept) is tensor:
                self._name(region, name)
                player.calls[call] = (element,)
        elif call == "SetPlanes":  # of the older spelling
            if kernel._enter("SetSingleShape"):
                self._set_planes(player, args[0])
        elif call in ("SetSingleShape", "SetStartPosition"):
            getattr(kernel, call)(*args)
            player.calls[call] = tuple(args)
        elif call == "Iterate":
            first = bool(kernel.ctx.isFirstIter_)
            more = kernel.Iterate()
            if first and more and not kernel._dry:
                self._begin(player, core)
        elif call == "GetTensorC":
            self._store(player, *args)
        else:
            kernel.End()

    def _set_planes(self, player: Player, planes: int) -> None:
        """How many planes a walk covers: of gradInput, or the window planes that columns may run on into."""
        kernel, t = player.kernel, player.kernel.tiling
        assert t is not None
        if isinstance(kernel, Conv3DBackpropFilter):
            kernel._planes = max(1, min(planes, t.dk)) if t.dilationD == 1 else 1
            self._counts_terms &= kernel._planes == 1  # a box of terms lies in one window plane
        elif not 0 < planes <= t.di:
            message = f"SetSingleShape: a walk covers 1...{t.di} gradInput planes, got {planes}"
            raise TilingError(message, "shape.planes")
        else:
            kernel._planes = planes

    def _begin(self, player: Player, core: int) -> None:
        calls, other = player.calls, "SetWeight" if isinstance(player.kernel, Conv3DBackpropInput) else "SetInput"
        m, n, k = calls["SetSingleShape"]
        pointers = calls["SetGradOutput"][0], calls[other][0]
        player.walk = Walk(core, (m, n, k), calls["SetStartPosition"], *pointers, planes=player.kernel._planes)
        self.walks.append(player.walk)

    def _store(self, player: Player, region: int, element: int, atomic: int, sequential: bool) -> None:
        kernel = player.kernel
        if region in self._results:
            self._follow(region)
        tensor = self._tensor(region, element, kernel.types[3].storage)
        waits = kernel._life.state is State.TILE_WAITING
        if waits and atomic in (0, 1) and not player.ncdhw and not sequential:
            self._name(region, "gradInput" if isinstance(kernel, Conv3DBackpropInput) else "gradWeight")
            if region in self.launch.regions and not self.launch.regions[region].is_workspace:
                self._judged.setdefault(region, self._place)
        kernel.GetTensorC(tensor, atomic, sequential)
        if isinstance(kernel, Conv3DBackpropInput):
            kernel._raw_tile_waits = False  # vector cores move it; what they do is not followed
            kernel._raw_tiles = 0
        if player.walk is not None and player.walk.output is None and waits:
            player.walk.output, player.walk.atomic = element, bool(atomic)

    def _summed(self, part: PartOfSum) -> None:
        for region, reduction in self._reductions.items():
            if self._counts_terms and part.output.memory is self._views.get((region, np.dtype(np.float32).str)):
                reduction.summed(part)

    # ---- the end

    def _judge(self) -> None:
        """What the ledgers show when everything is over, result by result."""
        findings = self._findings
        for region in sorted(self._judged & self._ledgers.keys()):
            record, ledger = self._record_of(region), self._ledgers[region]
            if not isinstance(record, TConv3DBackpropInputTiling) or record.initOutputFlag:
                ledger.count_zeros_of_before()
            findings.ledger = ledger
            if isinstance(record, TConv3DBackpropInputTiling):
                findings.name_of = input_coverage.element_name(record)
                self.reports.append(input_coverage.summarise(record, ledger, findings))
            elif isinstance(record, TConv3DBpFilterTiling):
                findings.name_of = filter_coverage.element_name(record)
                reduction = self._reductions.get(region) if self._counts_terms else None
                self.reports.append(filter_coverage.summarise(record, ledger, reduction, findings))
            for rule in findings.by_rule.keys() - self._places.keys():
                self._places[rule] = self._judged[region]

    def blocks(self) -> tuple[Block, ...] | tuple[FilterBlock, ...]:
        """The walks as blocks of work: what golden tiles, traffic and pictures are made of."""
        if isinstance(self.record, TConv3DBackpropInputTiling):
            planes = [
                replace(walk, start=(walk.start[0] + plane, walk.start[1]), planes=1)
                for walk in self.walks
                for plane in range(walk.planes)
            ]
            return tuple(input_blocks(self.record, planes))
        if isinstance(self.record, TConv3DBpFilterTiling):
            return tuple(filter_blocks(self.record, one_plane_each(self.record, self.walks)))
        return ()


def spoken(text: str) -> str:
    """A message of the model as it reads in C++."""
    for python, cpp in WORDS:
        text = text.replace(python, cpp)
    return text


def input_blocks(t: TConv3DBackpropInputTiling, walks: list[Walk]) -> Iterator[Block]:
    """Walks of Conv3DBackpropInput with what their pointers say: batch, first row, pieces of rows, channels and K."""
    per_cin, fractal = t.window_area * t.weight_cout * t.c0, 16 * t.c0
    places = [
        (place_in_ndc1hwc0(walk.grad_output, t.dout, t.cout1, t.ho, t.wo * t.c0), divmod(walk.other, per_cin))
        for walk in walks
    ]  # fmt: skip
    cins = sorted({cin for _, (cin, _) in places})
    couts = sorted({rest // fractal for _, (_, rest) in places})
    rows = sorted({walk.start[1] for walk in walks})
    for index, (walk, (place, (cin, rest))) in enumerate(zip(walks, places, strict=True)):
        first_row, (M, K, N) = walk.start[1] + t.backpropPadUp, walk.shape
        usual = ((place.batch * t.di * t.cin1 + cin) * t.hi + first_row) * t.wi * t.c0
        yield Block(
            walk.core, index, place.batch, walk.start[0], rows.index(walk.start[1]), cins.index(cin),
            couts.index(rest // fractal), M, K, N, first_row, walk.start[1], walk.grad_output, walk.other,
            usual if walk.output is None else walk.output, walk.atomic,
        )  # fmt: skip


def one_plane_each(t: TConv3DBpFilterTiling, walks: list[Walk]) -> list[Walk]:
    """Walks whose columns run on into the next window planes (the older spelling) as one for each plane."""
    pieces = []
    for walk in walks:
        per_block, (M, N, K) = t.window_area * t.c0, walk.shape
        first = (walk.output or 0) // (per_block * t.weight_cout) % t.cin1G
        start, blocks = 0, ceil_div(N, per_block)
        while start < blocks:
            count = min(t.cin1G - (first + start) % t.cin1G, blocks - start)
            output = None if walk.output is None else walk.output + start * per_block * t.weight_cout
            other = walk.other + start * t.hi * t.wi * t.c0
            shape = M, min(count * per_block, N - start * per_block), K
            pieces.append(replace(walk, shape=shape, other=other, output=output))
            start += count
    return pieces


def filter_blocks(t: TConv3DBpFilterTiling, walks: list[Walk]) -> Iterator[FilterBlock]:
    """Walks of Conv3DBackpropFilter with what their pointers say: batch, planes, first channel, first columns."""
    per_cin = t.window_area * t.weight_cout * t.c0
    for index, walk in enumerate(walks):
        place = place_in_ndc1hwc0(walk.grad_output, t.dout, t.cout1, t.ho, t.wo * t.c0)
        output = walk.output or 0
        kd, cin = divmod(output // per_cin, t.cin1G)
        M, N, K = walk.shape
        yield FilterBlock(
            walk.core, index, place.batch, place.plane, kd, output % per_cin // t.c0, cin * t.c0, M, N, K,
            walk.start[0], walk.grad_output, walk.other, output,
        )  # fmt: skip
