"""One loaded model file, shared by all callers."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

from skillopt.model.local.llama import load
from skillopt.model.local.slots import Batching, OneByOne, Watch
from skillopt.model.local.tuning import Tuning

T = TypeVar("T")
Speaking: TypeAlias = Batching | OneByOne


class Engine:
    """Works in threads of its own, `parallel` calls at a time; the others wait in order.

    The file is read at the first call. The memory is given back when nobody holds the engine.
    """

    def __init__(self, file: Path, tuning: Tuning) -> None:
        self.file = file
        self.tuning = tuning
        self._workers = ThreadPoolExecutor(tuning.parallel, thread_name_prefix="skillopt-local")
        self._loading = threading.Lock()
        self._speaking: Speaking | None = None

    async def run(self, work: Callable[[Speaking, Watch], T], timeout: float) -> T:
        """Do work in a worker, which may produce nothing for so many seconds at most.

        Waiting for a worker does not count.
        When the call is cancelled, the worker stops after the token or batch under way.
        """
        cancelled = threading.Event()

        def start() -> T:
            speaking = self._loaded()
            watch = Watch(cancelled, timeout)
            watch.check()
            return work(speaking, watch)

        try:
            return await asyncio.wrap_future(self._workers.submit(start))
        finally:
            cancelled.set()

    def _loaded(self) -> Speaking:
        with self._loading:
            if self._speaking is None:
                server = load(self.file, self.tuning)
                apart = self.tuning.parallel == 1
                self._speaking = OneByOne(server, self.tuning.slots) if apart else Batching(server)
            return self._speaking


_engines: weakref.WeakValueDictionary[tuple[str, Tuning], Engine] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def shared_engine(file: Path, digest: str, tuning: Tuning) -> Engine:
    """The engine of this content and tuning: one for all who hold it, gone with the last."""
    with _sharing:
        engine = _engines.get((digest, tuning))
        if engine is None:
            engine = _engines[digest, tuning] = Engine(file, tuning)
        return engine
