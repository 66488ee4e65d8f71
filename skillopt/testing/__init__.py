"""What an extension author needs: contracts, doubles, a simulator."""
