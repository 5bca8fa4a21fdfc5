"""The life of a tile kernel object as rows: which call is refused in which state, and what was expected instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from .errors import CallOrderError, TileKernelError


class State(Enum):
    """Where an object stands in its life."""

    CREATED = "Init has not been called"
    READY = "no walk is under way"
    TILE_WAITING = "a tile waits in L0C"
    TILE_TAKEN = "a walk is under way"
    TILE_SKIPPED = "a walk is under way, its last tile was skipped"
    FINISHED = "the walk ended and ctx.isFirstIter_ was not set true again"
    ENDED = "End was called"


SETTERS = ("SetSingleShape", "SetStartPosition", "SetGradOutput", "SetInput", "SetWeight")
MID_WALK = (State.TILE_WAITING, State.TILE_TAKEN, State.TILE_SKIPPED)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row: these calls are refused in these states, because of this."""

    rule: str
    calls: tuple[str, ...]
    states: tuple[State, ...]
    expected: str


REFUSALS = (
    Refusal(
        "order.after_end",
        ("Init", *SETTERS, "Iterate", "GetTensorC", "End"),
        (State.ENDED,),
        "nothing may follow End; create a new object",
    ),
    Refusal(
        "order.init_first", (*SETTERS, "Iterate", "GetTensorC", "End"), (State.CREATED,), "Init(tiling) comes first"
    ),
    Refusal(
        "order.init_once",
        ("Init",),
        (State.READY, *MID_WALK, State.FINISHED),
        "Init is called once; a second call would reserve every buffer twice",
    ),
    Refusal(
        "order.set_mid_walk",
        SETTERS,
        MID_WALK,
        "finish the walk (Iterate until it returns false) and set ctx.isFirstIter_ = True before setting anything",
    ),
    Refusal(
        "order.tile_not_taken",
        ("Iterate",),
        (State.TILE_WAITING,),
        "L0C holds one tile; call GetTensorC before the next Iterate, on hardware this stalls",
    ),
    Refusal(
        "order.first_iter",
        ("Iterate",),
        (State.FINISHED,),
        "set ctx.isFirstIter_ = True after each finished walk; without it the next walk carries on from stale "
        "indices on the next plane",
    ),
    Refusal(
        "order.no_tile",
        ("GetTensorC",),
        (State.READY, State.FINISHED),
        "call Iterate first and take a tile only when it returned true; on hardware this waits for ever",
    ),
    Refusal(
        "order.taken_twice",
        ("GetTensorC",),
        (State.TILE_TAKEN,),
        "a tile is taken once; call Iterate before the next GetTensorC, on hardware this waits for ever",
    ),
    Refusal("order.end_mid_walk", ("End",), MID_WALK, "End comes after the walk; call Iterate until it returns false"),
)


class Context:
    """`ctx` of the object: set `isFirstIter_` true after each finished walk to start the next one afresh."""

    __slots__ = ("isFirstIter_",)

    def __init__(self) -> None:
        self.isFirstIter_ = False


class Life:
    """State of one object. A refusal is raised, or handed to `report` by a checker that wants to see more than one."""

    def __init__(self, report: Callable[[TileKernelError], None] | None = None) -> None:
        self.ctx = Context()
        self.report = report
        self.abandoned = ""
        self._state = State.CREATED

    @property
    def state(self) -> State:
        """The state, with `ctx.isFirstIter_` taken into account."""
        if self.ctx.isFirstIter_ and self._state in (State.FINISHED, State.TILE_TAKEN, State.TILE_SKIPPED):
            return State.READY
        return self._state

    def enter(self, call: str, detail: str = "") -> bool:
        """True when the call is in order; else raises, or reports and gives False."""
        state = self.state
        for row in REFUSALS:
            if call in row.calls and state in row.states:
                self.refuse(CallOrderError(f"{call}: {row.expected} (state: {state.value}{detail})", row.rule))
                return False
        if self.ctx.isFirstIter_ and self._state in (State.TILE_TAKEN, State.TILE_SKIPPED) and call != "End":
            self.abandoned = self.abandoned or f"a walk was left early{detail}"
        return True

    def refuse(self, error: TileKernelError) -> None:
        """Raise the error, or report it."""
        if self.report is None:
            raise error
        self.report(error)

    def move(self, state: State) -> None:
        """Enter a state."""
        self._state = state
