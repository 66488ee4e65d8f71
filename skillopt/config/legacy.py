"""Old, flat and alternative names: one table for YAML keys, overrides and flags."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

FLAT: Final = {
    "edit_budget": "optimizer.learning_rate",
    "min_edit_budget": "optimizer.min_learning_rate",
    "optimizer_model": "model.optimizer",
    "target_model": "model.target",
    "judge_model": "model.judge",
    "model_backend": "model.backend",
    "env": "env.name",
}
"""Flat names that differ from the last part of the key they stand for."""

RENAMED: Final = {
    **FLAT,
    "judge_max_completion_tokens": "model.judge_max_tokens",
    "codex_path": "model.codex_exec_path",
    "codex_cli_bin": "model.codex_exec_path",
    "codex_bin": "model.codex_exec_path",
    "sandbox": "model.codex_exec_sandbox",
    "codex_sandbox": "model.codex_exec_sandbox",
    "azure_endpoint": "model.azure_openai_endpoint",
    "azure_api_version": "model.azure_openai_api_version",
    "azure_api_key": "model.azure_openai_api_key",
}
"""These, and other names that are understood and never written."""

DERIVED: Final = ("steps_per_epoch", "batches_per_epoch", "samples_per_epoch")
"""What a run writes beside its settings, because it follows from them and the data."""

IGNORED: Final = {
    "train.steps_per_epoch": "it follows from the size of the train split and the batch size",
    "gradient.max_analyst_rounds": "each minibatch is read once",
    "optimizer.meta_learning_rate": "meta reflect uses the learning rate of the epoch's last step",
    "model.codex_exec_full_auto": "say what the program may do with model.codex_exec_sandbox",
}
"""Keys that older files may hold and that have no effect, each with the reason."""

NOT_YET: Final = (
    "model.claude_code_exec_profile",
    "model.claude_code_exec_use_sdk",
    "model.claude_code_exec_effort",
    "model.claude_code_exec_max_thinking_tokens",
    "model.codex_exec_sandbox",
    "model.codex_exec_reasoning_effort",
    "model.codex_exec_use_sdk",
    "model.codex_exec_network_access",
    "model.codex_exec_web_search",
    "model.codex_exec_approval_policy",
    "model.codex_trace_to_optimizer",
    "model.cursor_exec_path",
    "model.cursor_exec_sandbox",
    "model.copilot_exec_allow_all_tools",
)
"""Keys of coding agents as targets, which this version does not run: accepted and checked."""

_OF_ENVIRONMENTS: Final = (
    "data_root",
    "image_detail",
    "max_api_workers",
    "max_steps",
    "max_turns",
    "mode",
    "shuffle_choices",
    "use_sketch",
    "use_theorem",
)
"""Flat names of keys that only some environments have."""

MOVED: Final = {
    "env.judge_model": "model.judge",
    "env.judge_max_completion_tokens": "model.judge_max_tokens",
    "env.judge_retries": "model.judge_retries",
    "env.max_completion_tokens": "model.target_max_tokens",
    "optimizer.proposer": "gradient.proposer",
}
"""Dotted keys that have another section now."""

_OLDER: Final = {"teacher": "optimizer", "student": "target"}
"""Roles as they were once called, alone or in front of an underscore."""

BACKENDS: Final = {
    "azure": "openai_chat",
    "azure_openai": "openai_chat",
    "openai": "openai_chat",
    "compat": "openai_compatible",
    "openai-compatible": "openai_compatible",
    "anthropic": "claude_chat",
    "claude": "claude_chat",
    "claude_code": "claude_code_exec",
    "codex": "codex_exec",
    "copilot": "copilot_chat",
    "copilot_cli": "copilot_chat",
    "github_copilot": "copilot_chat",
    "cursor": "cursor_exec",
    "cursor_agent": "cursor_exec",
    "qwen": "qwen_chat",
    "minimax": "minimax_chat",
}
"""Other names of backends."""

AS_TEXT: Final = {
    "claude_code_exec": "claude_cli",
    "codex_exec": "codex_cli",
    "copilot_exec": "copilot_chat",
}
"""Programs that work on tasks as agents: a role that only writes text uses them as text models."""


_PAIR_POLICIES: Final = {
    "all": "mixed",
    "mix": "mixed",
    "change": "changed",
    "changed_only": "changed",
    "only_changed": "changed",
    "unchanged_only": "unchanged",
    "only_unchanged": "unchanged",
    "same": "unchanged",
}


def pair_policy_of(name: object) -> object:
    """The pair policy that may be given by an alias, with dashes or in capitals."""
    if not isinstance(name, str):
        return name
    plain = name.strip().lower().replace("-", "_")
    return _PAIR_POLICIES.get(plain, plain)


_UPDATE_MODES: Final = {
    "edits": "patch",
    "rewrite": "rewrite_from_suggestions",
    "suggestions": "rewrite_from_suggestions",
    "rewrite_suggestions": "rewrite_from_suggestions",
    "full_rewrite": "full_rewrite_minibatch",
    "minibatch_full_rewrite": "full_rewrite_minibatch",
    "skill_rewrite_minibatch": "full_rewrite_minibatch",
}


def update_mode_of(label: object) -> object:
    """The name of an update mode that may be given by an alias."""
    return _UPDATE_MODES.get(label, label) if isinstance(label, str) else label


def backend_of(label: str, role: str) -> str:
    """The registered name of a role's backend, which may be given by another name."""
    name = BACKENDS.get(label, label)
    return name if role == "target" else AS_TEXT.get(name, name)


def modern(name: str) -> str:
    """The name with an older role at its head replaced."""
    head, line, tail = name.partition("_")
    return _OLDER.get(head, head) + line + tail


def flat_name(key: str) -> str:
    """The flat name under which users know a dotted key."""
    for name, renamed in FLAT.items():
        if renamed == key:
            return name
    return key.partition(".")[2]


def flat_names(keys: Collection[str]) -> dict[str, str]:
    """Every flat name, old ones included, with the dotted key that it stands for."""
    names = _bare([*keys, *IGNORED, *(f"env.{name}" for name in _OF_ENVIRONMENTS)]) | RENAMED
    for old, new in _OLDER.items():
        roles = [name for name in names if name == new or name.startswith(f"{new}_")]
        names |= {old + name.removeprefix(new): names[name] for name in roles}
    return names


def _bare(keys: Iterable[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(key.partition(".")[2], []).append(key)
    # `name` alone says nothing of what it names; the environment is chosen by `env`.
    return {bare: keys[0] for bare, keys in found.items() if len(keys) == 1 and bare != "name"}
