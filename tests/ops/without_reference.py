"""Operators without a reference in NumPy, with the reasons."""

_RANDOM = "random numbers: tests/test_random.py compares streams"
_DERIVATIVE = "a derivative: test_table_gradients.py compares it with finite differences"
_FACTORS = "several results are correct: test_factorisations.py multiplies the factors"
_KERNEL = "the kernel of operators with a reference"
_SEQUENCES = "tests/ops/test_sequences.py compares it with loops"
_FFT = "tests/ops/test_fft.py compares it with NumPy"

WHY_NONE = {
    **dict.fromkeys(
        (
            "uniform_ normal_ random_ random_.from bernoulli_.float bernoulli_.Tensor exponential_ geometric_ cauchy_ "
            "log_normal_ randn rand_like randn_like randperm normal.Tensor_Tensor normal.Tensor_float "
            "normal.float_Tensor normal.float_float bernoulli bernoulli.p multinomial _standard_gamma poisson binomial "
            "_rrelu_slopes"
        ).split(),
        _RANDOM,
    ),
    **dict.fromkeys(
        (
            "_hardtanh_backward _shrink_backward _silu_backward _gelu_backward _gelu_tanh_backward _elu_backward "
            "_softmax_backward_data _log_softmax_backward_data _standard_gamma_grad _dirichlet_grad _pad_borders_back "
            "_conv_input _conv_weight _nll_loss_backward _ctc_loss_backward _clear_diagonal _embed _pool_scatter "
            "_avg_pool_spread _mix_spread _mix_meet _attention_backward _normalize_backward _lstm_sequence_backward "
            "_recurrent_layers_backward _recurrent_sequence_backward _cdist_gradient _pdist_gradient"
        ).split(),
        _DERIVATIVE,
    ),
    **dict.fromkeys(
        (
            "_linalg_svd linalg.svd svd _linalg_eigh linalg.eigh _linalg_eig linalg.eig linalg.eigvals linalg.lu_factor_ex "
            "linalg.lu_factor linalg.lu linalg.qr qr geqrf linalg.ldl_factor_ex linalg.ldl_factor linalg.ldl_solve"
        ).split(),
        _FACTORS,
    ),
    **dict.fromkeys(
        (
            "_unique2 _unique_dim _unique_consecutive _slice _index_put _linalg_solve_ex _linalg_det _linalg_lstsq "
            "_pivots_to_permutation _fft_c2c _fft_r2c _fft_c2r _conv _nll_loss _nll_loss2d _max_pool _pool_gather _avg_pool "
            "_mix _taps _taps_spread _ctc_loss _fused_sgd _fused_adam _fused_step _max_unpool _lstm_sequence "
            "_recurrent_layers _recurrent_sequence native_batch_norm"
        ).split(),
        _KERNEL,
    ),
    **dict.fromkeys(
        (
            "rnn_tanh.data rnn_relu.data gru.data lstm.data ctc_loss.IntList ctc_loss.Tensor nn.functional.grid_sample "
            "grid_sampler grid_sampler_2d grid_sampler_3d"
        ).split(),
        _SEQUENCES,
    ),
    **dict.fromkeys("fft.hfftn fft.hfft2 fft.ihfftn fft.ihfft2 stft istft".split(), _FFT),
    "segment_reduce": "tests/ops/test_reduce.py compares it with loops",
    "view.dtype": "its result is bytes: tests/test_numpy.py compares them",
    "_fractional_max": "its regions are specific to torch",
}
