"""The dashboard: a server on this machine and a page that shows and steers runs."""
