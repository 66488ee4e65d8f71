"""From scored trajectories to proposed edits."""
