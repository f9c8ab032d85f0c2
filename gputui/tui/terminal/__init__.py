"""The contract with the terminal: how the app gets one, draws on it, leaves it, and survives its loss."""
