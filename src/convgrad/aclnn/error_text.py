"""What a failed call leaves behind for `aclGetRecentErrMsg`: per thread, newest first, cleared on read."""

from __future__ import annotations

import os
import threading
from collections import deque
from datetime import datetime

from convgrad.core.status import ConvGradError, Status

# The class of an error follows from the first digit of its status.
_CLASSES = {1: "AclNN_Parameter_Error(EZ1001)", 3: "AclNN_Runtime_Error(EZ9903)", 5: "AclNN_Inner_Error(EZ9999)"}
_LONGEST_QUEUE = 64


class _Thread(threading.local):
    def __init__(self) -> None:
        self.messages: deque[str] = deque(maxlen=_LONGEST_QUEUE)


_thread = _Thread()


def fail(status: Status, text: str) -> Status:
    """Keeps the text for this thread and gives the status back."""
    now = datetime.now()
    stamp = f"{now:%Y-%m-%d-%H:%M:%S}.{now.microsecond // 1000:03d}.{now.microsecond % 1000:03d}"
    _thread.messages.appendleft(f"[PID:{os.getpid()}] {stamp} {_CLASSES[status // 100000]}: {text}\n")
    return status


def words_of(error: Exception) -> str:
    """What went wrong, without the status that the door gives anyway."""
    return error.message if isinstance(error, ConvGradError) else str(error)


def aclGetRecentErrMsg() -> str | None:
    """Every message of this thread since the last call, newest first; `None` when there is none."""
    if not _thread.messages:
        return None
    text = "".join(_thread.messages)
    _thread.messages.clear()
    return text
