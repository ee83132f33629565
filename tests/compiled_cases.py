"""Calls of functions that torch compiles and rushlight writes in Python, with arguments of wrong kinds.

Run in an environment with torch to record its answers: ``python tests/compiled_cases.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

RECORD = Path(__file__).parent / "data" / "compiled.txt"

NAMES = """
alpha_dropout alpha_dropout_ dropout_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_
batch_norm batch_norm_update_stats binary_cross_entropy_with_logits ccol_indices_copy col_indices_copy conv_tbc
convolution cosine_embedding_loss crow_indices_copy detach_copy hinge_embedding_loss indices_copy instance_norm kl_div
margin_ranking_loss native_channel_shuffle native_dropout norm_except_dim poisson_nll_loss row_indices_copy slice_copy
triplet_margin_loss values_copy view_as_complex_copy view_as_real_copy
can_cast detach detach_ get_device is_complex is_conj is_floating_point is_inference is_neg is_nonzero is_same_size
is_signed numel promote_types result_type is_distributed sym_constrain_range sym_constrain_range_for_size
_empty_affine_quantized _empty_per_channel_affine_quantized _make_per_channel_quantized_tensor
_make_per_tensor_quantized_tensor dequantize int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
q_scale q_zero_point quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic choose_qparams_optimized
empty_quantized quantized_batch_norm quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d
_fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine fake_quantize_per_channel_affine
fake_quantize_per_tensor_affine fused_moving_avg_obs_fake_quant _grouped_mm _int_mm _scaled_mm
_nested_from_padded _nested_get_lengths _nested_get_max_seqlen _nested_get_min_seqlen _nested_get_offsets
_nested_get_ragged_idx _nested_get_values _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned
_nested_tensor_from_tensor_list _nested_view_from_buffer
_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo sparse_bsc_tensor sparse_bsr_tensor sparse_csc_tensor
sparse_csr_tensor sparse_coo_tensor dsmm hspmm native_norm smm spmm sparse.addmm sparse.log_softmax sparse.mm
sparse.sampled_addmm sparse.softmax sparse.spdiags sparse.spsolve nested.to_padded_tensor gradient histogramdd
_foreach_abs _foreach_abs_ _foreach_add _foreach_addcdiv _foreach_addcmul_ _foreach_clamp_max _foreach_lerp
_foreach_maximum _foreach_mul_ _foreach_pow _foreach_pow_ _foreach_sub
_foreach_zero_ _foreach_copy_ _foreach_clone _foreach_max _foreach_mm _foreach_norm _foreach_powsum
_amp_foreach_non_finite_check_and_unscale_
""".split()

CALLS = ["", "1", "None", "'a'", "[1, 2]", "x, {}", "[x], object()", "[x], [1, 'a']", "x, x, 'a'", "x, unknown=1"]
CALLS += ["input=x", "input=1", "input=x, unknown=1", "x, input=x", "unknown=1"]


def answer(torch: Any, name: str, arguments: str) -> str:
    """The class and the first line of a `TypeError`, the class of another error, or ``passes``."""
    try:
        eval(f"torch.{name}({arguments})", {"torch": torch, "x": torch.ones(2, 2)})
    except TypeError as error:
        sentence = str(error).splitlines()[0]
        # The other sentence is about the items of a list that becomes a tensor.
        return "passes" if sentence.startswith("new()") else f"TypeError: {sentence}"
    except Exception as error:
        return type(error).__name__
    return "passes"


if __name__ == "__main__":
    import torch

    lines = [f"{name}({call}) | {answer(torch, name, call)}" for name in NAMES for call in CALLS]
    RECORD.write_text("\n".join(lines) + "\n")
