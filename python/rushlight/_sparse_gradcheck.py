"""`torch.sparse.as_sparse_gradcheck`: checks of gradients for functions of sparse tensors."""

from __future__ import annotations

import functools

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor


def _parts(tensor: Tensor, masked: bool) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The values of a sparse tensor, and the function that makes a tensor of other values. Without a mask, every
    element has a value."""
    if not masked:
        dense = tensor.detach().to_dense()
        if tensor.layout is torch.sparse_coo:
            sparse_dim = tensor.sparse_dim()
            grids = torch.meshgrid(*(torch.arange(size) for size in dense.shape[:sparse_dim]), indexing="ij")
            indices = torch.stack([grid.flatten() for grid in grids])
            whole = torch.sparse_coo_tensor(indices, dense.flatten(0, sparse_dim - 1), dense.shape, is_coalesced=True)
        else:
            # The number of each element, from 1 on: a zero would be left out.
            places = _like(torch.arange(1.0, dense.numel() + 1, dtype=torch.float64).view_as(dense), tensor)
            whole = _rebuild(places, dense.flatten()[places.values().to(torch.int64) - 1])
        tensor = whole
    tensor = tensor.detach()
    tensor = tensor.coalesce() if tensor.layout is torch.sparse_coo else tensor
    return tensor.values().clone(), functools.partial(_rebuild, tensor)


def _like(dense: Tensor, tensor: Tensor) -> Tensor:
    """A dense tensor in the compressed layout of another one."""
    options: dict[str, Any] = {"layout": tensor.layout, "dense_dim": tensor.dense_dim()}
    if tensor.layout in (torch.sparse_bsr, torch.sparse_bsc):
        place = tensor.values().dim() - tensor.dense_dim()
        options["blocksize"] = tuple(tensor.values().shape[place - 2 : place])
    return dense.to_sparse(**options)


def _rebuild(tensor: Tensor, values: Tensor) -> Tensor:
    if tensor.layout is torch.sparse_coo:
        return torch.sparse_coo_tensor(tensor.indices(), values, tensor.shape, is_coalesced=True)
    rows = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    outer, inner = (
        (tensor.crow_indices(), tensor.col_indices()) if rows else (tensor.ccol_indices(), tensor.row_indices())
    )
    return torch.sparse_compressed_tensor(outer, inner, values, tensor.shape, layout=tensor.layout)


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.sparse.as_sparse_gradcheck`."""

    def gradcheck_with_sparse_support(func: Callable[..., Any], inputs: Any, **kwargs: Any) -> Any:
        keywords = {**getattr(gradcheck, "keywords", {}), **kwargs}
        masked = bool(keywords.get("masked", False))
        given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        rebuild: dict[int, Callable[[Tensor], Tensor]] = {}
        for place, tensor in enumerate(given):
            if isinstance(tensor, torch.Tensor) and tensor.layout is not torch.strided:
                values, rebuild[place] = _parts(tensor, masked)
                given[place] = values.requires_grad_(tensor.requires_grad)

        def strided(output: Any) -> Any:
            if not isinstance(output, torch.Tensor) or output.layout is torch.strided:
                return output
            return output.to_dense(masked_grad=masked)

        def of_values(*args: Any) -> Any:
            outputs = func(*(rebuild[place](arg) if place in rebuild else arg for place, arg in enumerate(args)))
            return tuple(map(strided, outputs)) if isinstance(outputs, (list, tuple)) else strided(outputs)

        return gradcheck(of_values, tuple(given), **kwargs)

    return gradcheck_with_sparse_support
