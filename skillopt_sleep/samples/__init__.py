"""Sessions of a made-up shop, in the format of Claude Code, for the demo."""

from __future__ import annotations
