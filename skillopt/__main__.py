"""`python -m skillopt`."""

from __future__ import annotations

from skillopt.cli.main import main

if __name__ == "__main__":
    main()
