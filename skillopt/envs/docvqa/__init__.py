"""Questions about the image of one page of a document."""
