"""Gates, statistics, attribution, pruning, calibration and checks."""
