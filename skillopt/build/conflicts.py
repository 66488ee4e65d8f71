"""Settings that cannot be combined."""

from __future__ import annotations

from skillopt.config.schema import Config


def check(config: Config) -> None:
    """Refuse settings that exclude each other, before anything is spent."""
    gradient, optimizer = config.gradient, config.optimizer
    analyst, mode = "analyst" in gradient.proposer, optimizer.skill_update_mode
    patching, asked = mode == "patch", optimizer.lr_scheduler == "autonomous"
    control, proposers = optimizer.lr_control_mode, ", ".join(gradient.proposer)
    edits_only = f"works with edits only; with optimizer.skill_update_mode: {mode} it must be"
    for key, wrong, what in (
        (
            "optimizer.use_skill_aware_reflection",
            optimizer.use_skill_aware_reflection and not analyst,
            "needs analyst among gradient.proposer; the other proposers write no reminders",
        ),
        (
            "optimizer.use_skill_aware_reflection",
            optimizer.use_skill_aware_reflection and mode == "full_rewrite_minibatch",
            f"has no effect with skill_update_mode: {mode}, which rewrites the whole body",
        ),
        (
            "gradient.use_deep_reflect",
            gradient.use_deep_reflect and not analyst,
            "needs analyst among gradient.proposer; the other proposers read no probes",
        ),
        (
            "gradient.proposer",
            not patching and proposers != "analyst",
            f"{proposers} {edits_only} analyst",
        ),
        (
            "optimizer.select_mode",
            not patching and optimizer.select_mode == "trial",
            f"trial {edits_only} ranking",
        ),
        (
            "optimizer.lr_control_mode",
            asked and control in ("none", "volatility"),
            f"{control} and optimizer.lr_scheduler: autonomous cannot be combined; change one",
        ),
    ):
        if wrong:
            raise config.complaint(key, what)
