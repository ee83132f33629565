"""Nested tensors: the classes behind `torch.nested`, and the functions that they take part in."""
