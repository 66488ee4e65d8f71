"""Train skill documents for frozen agents."""

from __future__ import annotations
