"""Nested tensors of the layout `torch.strided`: the class, and the functions that such tensors take part in."""
