"""Files of local models: the catalogue, downloads and storage."""
