"""Questions about a folder of office documents."""
