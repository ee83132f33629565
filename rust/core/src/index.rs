//! What `x[...]` means: integers, slices, None, Ellipsis and tensors become a view and, where tensors index, a gather.

