"""`python -m skillopt_sleep`."""

from __future__ import annotations

from skillopt_sleep.cli.main import main

if __name__ == "__main__":
    main()
