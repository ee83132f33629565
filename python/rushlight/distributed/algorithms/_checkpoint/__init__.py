"""Modules whose activations are computed again in backward, or kept on the CPU."""
