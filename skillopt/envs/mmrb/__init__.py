"""Questions about several images."""
