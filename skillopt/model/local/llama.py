"""The interface to `xllamacpp`, which has neither types nor error classes."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from skillopt.core.extras import install_command
from skillopt.errors import AccessError, ConfigError
from skillopt.model.local.tuning import Tuning
from skillopt.model.provider import Json

_SILENT = -1


class Server(Protocol):
    """A loaded model; its methods may be called from several threads."""

    def handle_chat_completions(
        self, body: Mapping[str, object], callback: Callable[[Json], bool] | None = None, /
    ) -> Json:
        """Answer; with `stream` in the body, call back with each piece until that returns True."""
        ...


def version() -> str:
    """The version of the library, which decides about the last digits of every number."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(f"backend local needs llama.cpp: {install_command('local')}")
    return importlib.metadata.version("xllamacpp")


def load(file: Path, tuning: Tuning) -> Server:
    """Read a model file; takes seconds."""
    library: Any = importlib.import_module("xllamacpp")
    params: Any = library.CommonParams()
    params.model.path = str(file)
    params.verbosity = _SILENT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = tuning.threads
    params.n_parallel = max(tuning.slots, tuning.parallel)
    params.n_ctx = tuning.context * params.n_parallel
    params.n_batch = params.n_ubatch = tuning.batch
    # Flash attention adds up in an order that depends on the number of threads.
    params.flash_attn_type = library.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    # A cell of the cache belongs to one slot, and slots are not moved to and fro: what a slot
    # holds is then what was computed there.
    params.kv_unified = False
    params.cache_ram_mib = 0
    params.n_ctx_checkpoints = 0
    params.fit_params = False
    params.warmup = False
    # The library opens a loopback port whether asked or not; nobody knows this key.
    params.ui = False
    params.api_keys = [secrets.token_hex(32)]
    try:
        return library.Server(params)
    except RuntimeError as error:
        raise AccessError(
            f"llama.cpp cannot load {file}: not a model it knows, damaged, or too large for the "
            f"memory (context {tuning.context} x {params.n_parallel} slots; see "
            "model.local_context, model.local_slots)"
        ) from error
