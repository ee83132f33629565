"""Calls that do not fit a signature are refused in torch's words, whose order depends on how torch writes the function."""

import pytest

import rushlight as torch


def sentence(call):
    """The class and the first line of a call's exception."""
    with pytest.raises(Exception) as caught:
        eval(call, {"torch": torch, "F": torch.nn.functional, "x": torch.ones(2, 3)})
    return f"{caught.type.__name__}: {str(caught.value).splitlines()[0]}"


CASES = """
F.hardswish(axis=x)
TypeError: hardswish() got an unexpected keyword argument 'axis'
F.hardswish()
TypeError: hardswish() missing 1 required positional argument: 'input'
F.batch_norm(x, None)
TypeError: batch_norm() missing 1 required positional argument: 'running_var'
F.mse_loss()
TypeError: mse_loss() missing 2 required positional arguments: 'input' and 'target'
F.batch_norm()
TypeError: batch_norm() missing 3 required positional arguments: 'input', 'running_mean', and 'running_var'
F.mish(x=x)
TypeError: mish() got an unexpected keyword argument 'x'
F.elu(x, 1.0, False, 2)
TypeError: elu() takes from 1 to 3 positional arguments but 4 were given
F.max_pool2d(x, 2, input=x)
TypeError: _max_pool2d() got multiple values for argument 'input'
x.unflatten(1, (3, 1), dim=1)
TypeError: Tensor.unflatten() got multiple values for argument 'dim'
x.split(1, 0, 2)
TypeError: Tensor.split() takes from 2 to 3 positional arguments but 4 were given
torch.norm(x, 3, axis=1)
TypeError: norm() got an unexpected keyword argument 'axis'
torch.meshgrid(tensors=[x])
TypeError: meshgrid() got an unexpected keyword argument 'tensors'
torch.atleast_1d(x, self=x)
TypeError: atleast_1d() got an unexpected keyword argument 'self'
x.sigmoid(self=x)
TypeError: TensorBase.sigmoid() takes no keyword arguments
x.sigmoid(1, dtype=2)
TypeError: TensorBase.sigmoid() takes no keyword arguments
x.prelu(torch.ones(3), input=x)
TypeError: prelu() got an unexpected keyword argument 'input'
x.expand((2, 3), 2)
TypeError: expand() takes 1 positional argument but 2 were given
torch.special.xlog1py(x, x, out=[x])
TypeError: special_xlog1py() received an invalid combination of arguments - got (Tensor, Tensor, out=list), but expected one of:
torch.special.xlog1py(x, input=3, out=x)
TypeError: special_xlog1py() received an invalid combination of arguments - got (Tensor, out=Tensor, input=int), but expected one of:
torch.eye()
TypeError: eye() received an invalid combination of arguments - got (), but expected one of:
torch.mm(x, x, 2)
TypeError: mm() received an invalid combination of arguments - got (Tensor, Tensor, int), but expected one of:
torch.mm(x, 2)
TypeError: mm(): argument 'mat2' (position 2) must be Tensor, not int
torch.hann_window(4, 2)
TypeError: hann_window() received an invalid combination of arguments - got (int, int), but expected one of:
torch.floor(torch.Generator())
TypeError: floor(): argument 'input' (position 1) must be Tensor, not torch._C.Generator
torch.linalg.solve_triangular(x, x, 1, upper=True)
TypeError: linalg_solve_triangular() takes from 3 to 2 positional arguments but 3 were given
torch.linalg.eigh(A=x)
TypeError: linalg_eigh() missing 1 required positional arguments: "input"
torch.linalg.eigvals(2)
TypeError: linalg_eigvals(): argument 'input' (position 1) must be Tensor, not int
torch.conv1d(torch.ones(1, 2, 3), x)
RuntimeError: weight should have at least three dimensions
torch.conv2d(torch.ones(1, 2, 3, 3), torch.ones(2, 2, 1))
RuntimeError: expected stride to be a single integer value or a list of 1 values to match the convolution dimensions, but got stride=[1, 1]
torch.conv1d(torch.ones(1, 2, 3), torch.ones(2, 2, 1, 1), padding='same')
RuntimeError: Expected 4-dimensional input for 4-dimensional weight[2, 2, 1, 1], but got 3-dimensional input of size [1, 2, 3] instead
torch.cos(x, input=x, out=(x, x))
TypeError: cos(): argument 'out' must be Tensor, not tuple
torch.floor_divide([], x)
TypeError: floor_divide() received an invalid combination of arguments - got (list, Tensor), but expected one of:
torch.floor_divide(x, x, 1)
TypeError: floor_divide() takes 2 positional arguments but 3 were given
torch.div(x, x, 1, rounding_mode=None)
TypeError: div() takes from 3 to 2 positional arguments but 3 were given
torch.div(x, x, rounding_mode=b'up')
RuntimeError: div expected rounding_mode to be one of None, 'trunc', or 'floor' but found 'up'
torch.float_power(True, 2)
TypeError: float_power() received an invalid combination of arguments - got (bool, int), but expected one of:
torch.float_power(2 ** 100, 2)
TypeError: float_power() received an invalid combination of arguments - got (int, int), but expected one of:
torch.add(x, x, 1, alpha=2)
TypeError: add() takes 2 positional arguments but 3 were given
x.add(x, 1, alpha=2)
TypeError: add() received an invalid combination of arguments - got unrecognized keyword arguments: alpha
x.add(x, 1, 1)
TypeError: add() received an invalid combination of arguments - got (Tensor, !int!, !int!), but expected (Tensor other, *, Number alpha = 1)
x.addmm(x)
TypeError: addmm() received an invalid combination of arguments - got (Tensor), but expected (Tensor mat1, Tensor mat2, *, Number beta = 1, Number alpha = 1)
x.addmm(x, mat2='x')
TypeError: addmm(): argument 'mat2' must be Tensor, not str
x.addcmul(x, x, 'x', 1)
TypeError: addcmul() received an invalid combination of arguments - got (Tensor, Tensor, !str!, !int!), but expected (Tensor tensor1, Tensor tensor2, *, Number value = 1)
x.baddbmm(x, x, True, beta=2, alpha=3)
TypeError: baddbmm() received an invalid combination of arguments - got unrecognized keyword arguments: alpha, beta
torch.addmm(x, x)
TypeError: addmm() received an invalid combination of arguments - got (Tensor, Tensor), but expected one of:
torch.addcmul(x, 2 ** 100, x)
TypeError: addcmul(): argument 'tensor1' (position 2) must be Tensor, not int
torch.sum(x, 2, dim=0)
TypeError: sum() got multiple values for argument 'dim'
torch.sum(x, (0, 1), 1)
TypeError: sum(): argument 'keepdim' (position 3) must be bool, not int
torch.mean(x, (0, 2.5), True)
TypeError: mean(): argument 'dim' failed to unpack the object at pos 2 with error "type must be tuple of ints,but got float"
x.squeeze((0, 'x'))
TypeError: squeeze(): argument 'dim' failed to unpack the object at pos 2 with error "type must be tuple of ints,but got str"
torch.ones(2, 3).reshape(2 ** 63)
TypeError: reshape(): argument 'shape' failed to unpack the object at pos 1 with error "Overflow when unpacking long long
torch.quantile(torch.ones(3), 2 ** 100)
RuntimeError: quantile() q must be in the range [0, 1] but got 1.26765e+30
torch.sort(x, 2 ** 100, stable=True, dim=0, descending=True)
TypeError: sort() takes from 2 to 1 positional arguments but 2 were given
torch.movedim(x, (), 'x')
TypeError: movedim() received an invalid combination of arguments - got (Tensor, tuple, str), but expected one of:
torch.rand(x=(2, 3))
TypeError: rand() missing 1 required positional arguments: "size"
torch.randn_like()
TypeError: randn_like() received an invalid combination of arguments - got (), but expected one of:
torch.hann_window(-2.5)
TypeError: hann_window(): argument 'window_length' (position 1) must be int, not float
torch.bernoulli(x, 2 ** 64)
RuntimeError: bernoulli_ expects p to be in [0, 1], but got p=1.84467e+19
x.nonzero(100)
TypeError: nonzero() takes from 1 to 0 positional arguments but 1 were given
torch.histogram(x, 5, range=True)
TypeError: histogram() received an invalid combination of arguments - got (Tensor, int, range=bool), but expected one of:
torch.split(2, 3)
AttributeError: 'int' object has no attribute 'split'
torch.split(x, 'x')
TypeError: split_with_sizes(): argument 'split_sizes' (position 2) must be tuple of ints, not str
x.split([1, 2], 'x')
TypeError: split_with_sizes(): argument 'dim' (position 3) must be int, not str
x.split(1, [])
TypeError: split() received an invalid combination of arguments - got (Tensor, int, list), but expected one of:
torch.norm(2)
AttributeError: 'int' object has no attribute 'layout'
x.norm('fro', 2.5)
TypeError: object of type 'float' has no len()
x.norm(3, (0, 1), 2)
TypeError: linalg_vector_norm(): argument 'keepdim' (position 4) must be bool, not int
x.norm([], 1)
TypeError: linalg_vector_norm(): argument 'ord' (position 2) must be Number, not list
torch.meshgrid([x, x], indexing=[])
TypeError: meshgrid(): argument 'indexing' must be str, not list
torch.broadcast_tensors([x], tensors=2)
TypeError: broadcast_tensors() got an unexpected keyword argument 'tensors'
torch.eq(x, x, out=2)
TypeError: eq() received an invalid combination of arguments - got (Tensor, Tensor, out=int), but expected one of:
F.glu(2)
AttributeError: 'int' object has no attribute 'dim'
F.softmin(True, 0)
AttributeError: 'int' object has no attribute 'softmax'
F.tanhshrink([])
AttributeError: 'list' object has no attribute 'tanh'
F.hardtanh(x, 'a', 0.5)
TypeError: '>' not supported between instances of 'str' and 'float'
F.hardtanh(x, x, 0.5)
RuntimeError: Boolean value of Tensor with more than one value is ambiguous
F.margin_ranking_loss(x, x, [None])
AttributeError: 'list' object has no attribute 'dim'
F.group_norm(x, 'a')
TypeError: unsupported operand type(s) for //: 'int' and 'str'
F.cross_entropy(x, x, label_smoothing='a')
TypeError: cross_entropy_loss(): argument 'label_smoothing' (position 6) must be float, not str
F.nll_loss(2, x)
TypeError: nll_loss_nd(): argument 'input' (position 1) must be Tensor, not int
F.batch_norm(x, None, None, weight='a', training=True)
TypeError: batch_norm(): argument 'weight' (position 2) must be Tensor, not str
F.grid_sample(x, x, mode=2)
ValueError: nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '2'
F.fold(x, 2.5, 1)
TypeError: col2im(): argument 'output_size' (position 2) must be tuple of ints, but found element of type float at pos 0
F.unfold(torch.ones(1, 2, 4, 4), [2])
RuntimeError: It is expected kernel_size equals to 2, but got size 1
F.adaptive_avg_pool2d(torch.ones(1, 2, 4, 4), (3,))
RuntimeError: adaptive_avg_pool2d: output_size must be 2
F.adaptive_max_pool2d(torch.ones(1, 2, 4, 4), (3,))
RuntimeError: adaptive_max_pool2d(): internal error: output_size.size() must be 2
F.adaptive_avg_pool2d([x], (2, 1))
AttributeError: 'list' object has no attribute 'size'
F.adaptive_avg_pool3d(2, 1)
AttributeError: 'int' object has no attribute 'size'
F.adaptive_avg_pool2d(x, 2.5)
TypeError: object of type 'float' has no len()
F.leaky_relu(x, [])
TypeError: leaky_relu(): argument 'negative_slope' (position 2) must be Number, not list
F.leaky_relu(x, 1j)
RuntimeError: value cannot be converted to type float without overflow
F.elu(x, 1e300)
RuntimeError: value cannot be converted to type float without overflow
F.celu(x, 1j)
RuntimeError: value cannot be converted to type double without overflow
F.softshrink(x, -2.5)
RuntimeError: lambda must be in range [0, 3.40282e+38] for input dtype Float, but found -2.5
torch.logit(x, 1e300)
RuntimeError: value cannot be converted to type float without overflow
torch.linspace(0, 1e300, 3)
RuntimeError: value cannot be converted to type float without overflow
torch.ones(2, dtype=torch.int64) ** 2 ** 63
RuntimeError: value cannot be converted to type int64_t without overflow
torch.isclose(x, x, -2 ** 63)
RuntimeError: rtol must be greater than or equal to zero, but got -9.22337e+18
torch.isclose(x, x, float('nan'))
RuntimeError: rtol must be greater than or equal to zero, but got nan
torch.linalg.matrix_norm(x, 2 ** 63)
RuntimeError: linalg.matrix_norm: Order 9.22337e+18 not supported.
torch.linalg.matrix_rank(x > 0, atol=1.0)
RuntimeError: This function doesn't handle types other than float and double
torch.inner(x, x.double())
RuntimeError: both inputs should have same dtype
torch.trapezoid(x, dx=True)
RuntimeError: trapezoid: Currently, we only support dx as a real number.
torch.var(x, 1, correction=1j)
RuntimeError: value cannot be converted to type double without overflow
torch.mvlgamma(x > 0, 1)
RuntimeError: The input tensor may not be a boolean tensor.
torch.cross(x.T, x.T.double(), dim=0)
RuntimeError: expected scalar type Float but found Double
torch.linalg.vander(x.half())
RuntimeError: linalg.vander supports floating point, complex, and integer tensors, but got Half
torch.isin(x, True)
RuntimeError: Unsupported input type encountered for isin(): Bool
torch.cdist(x, x, 1.0, 'x')
ValueError: x is not a valid value for compute_mode
torch.index_reduce(x[0], 0, torch.tensor([0]), x[0, :1].double(), 'prod')
RuntimeError: index_reduce_(): self (Float) and source (Double) must have the same scalar type
torch.index_fill(x, 0, torch.tensor([0]), torch.tensor(1j))
RuntimeError: index_fill_(): Converting complex Scalar to non-complex type is not supported
torch.conv1d(torch.ones(1, 2, 3), torch.ones(2, 2, 1).double())
RuntimeError: expected scalar type Float but found Double
torch.conv1d(torch.ones(1, 2, 3).bfloat16(), torch.ones(2, 2, 1) > 0)
RuntimeError: Input type (CPUBFloat16Type) and weight type (CPUBoolType) should be the same or input should be a MKLDNN tensor and weight is a dense tensor
F.soft_margin_loss(x[0], x)
RuntimeError: output with shape [3] doesn't match the broadcast shape [2, 3]
F.soft_margin_loss(x, x.clone().requires_grad_())
RuntimeError: The function 'soft_margin_loss' is not differentiable with respect to argument 'target'. This input cannot have requires_grad True.
F.nll_loss(x, torch.tensor([0, 1]), torch.ones(3, requires_grad=True))
RuntimeError: The function 'nll_loss_forward' is not differentiable with respect to argument 'weight'. This input cannot have requires_grad True.
F.binary_cross_entropy(x, x, torch.ones(2, 3, dtype=torch.complex64))
RuntimeError: result type ComplexFloat can't be cast to the desired output type Float
F.binary_cross_entropy_with_logits(x, x, torch.ones(2, 2, 3))
RuntimeError: output with shape [2, 3] doesn't match the broadcast shape [2, 2, 3]
F.smooth_l1_loss(x, x, beta=float('nan'))
RuntimeError: smooth_l1_loss does not support negative values for beta.
x[0].addmv_(x, x[0])
RuntimeError: size mismatch, got input (3), mat (2x3), vec (3)
torch.addmv(torch.tensor(1.0), x, x[0, :1])
IndexError: Dimension specified as 0 but tensor has no dimensions
torch.mv(torch.tensor(1.0), x[0])
IndexError: Dimension specified as 0 but tensor has no dimensions
torch.addbmm(x[0], torch.tensor(1.0), x)
IndexError: Dimension specified as 1 but tensor has no dimensions
torch.baddbmm(x[0], torch.tensor(1.0), x)
IndexError: Dimension specified as 0 but tensor has no dimensions
torch.addbmm(x[0], torch.ones(1, 2, 3), torch.ones(2, 3, 3))
RuntimeError: batch1 and batch2 must have same number of batches, got 1 and 2
torch.svd(x[0])
RuntimeError: linalg.svd: input should have at least 2 dimensions, but has 1 dimensions instead
torch.add(x, x.to('meta'))
RuntimeError: Tensor on device meta is not on the expected device cpu!
x.to_sparse().expand(2, 2, 3)
RuntimeError: expand is unsupported for Sparse tensors
x.to_sparse().reshape(6)
RuntimeError: reshape is not implemented for sparse tensors
torch.embedding_bag(x, torch.tensor([0]), torch.tensor([0]), False, 7)
RuntimeError: `mode` must be sum, mean, or max.
torch.ormqr(torch.ones(3, 2), torch.ones(1), torch.ones(3, 4))
RuntimeError: torch.ormqr: tau.shape[-1] must be equal to min(other.shape[-2], input.shape[-1])
torch.movedim(x, [0], 1)
TypeError: movedim() received an invalid combination of arguments - got (Tensor, list, int), but expected one of:
torch.flip(x, axis=(0, 1))
TypeError: flip() missing 1 required positional arguments: "dims"
torch.tile(x, axis=(0, 1))
TypeError: tile() missing 1 required positional arguments: "dims"
torch.rot90(x, 1, axis=(0, 1))
TypeError: rot90() got an unexpected keyword argument 'axis'
torch.sum(x, out=x)
TypeError: sum() received an invalid combination of arguments - got (Tensor, out=Tensor), but expected one of:
torch.remainder(3, x, out=x)
TypeError: remainder() received an invalid combination of arguments - got (int, Tensor, out=Tensor), but expected one of:
torch.bitwise_or(3, x.int(), out=x.int())
TypeError: bitwise_or() received an invalid combination of arguments - got (int, Tensor, out=Tensor), but expected one of:
torch.where(x > 0, 3, x, out=x)
TypeError: where(): argument 'input' (position 2) must be Tensor, not int
torch.bucketize(3, x[0], out=x.long())
TypeError: bucketize() received an invalid combination of arguments - got (int, Tensor, out=Tensor), but expected one of:
torch.trapz(x, dx=1j)
TypeError: trapz() received an invalid combination of arguments - got (Tensor, dx=complex), but expected one of:
torch.full((2,), 70000, dtype=torch.half)
RuntimeError: value cannot be converted to type c10::Half without overflow
x.half().fill_(2 ** 63)
RuntimeError: value cannot be converted to type c10::Half without overflow
x.half().masked_fill(x > 0, -70000)
RuntimeError: value cannot be converted to type c10::Half without overflow
x.to(torch.int8).remainder(256)
RuntimeError: ZeroDivisionError
x.short().fmod(2 ** 62)
RuntimeError: ZeroDivisionError
x.int() // 2 ** 63
RuntimeError: ZeroDivisionError
x.bool().cumsum_(0)
NotImplementedError: "cumsum_out_cpu" not implemented for 'Bool'
x.long().cumsum_(0, dtype=torch.int16)
RuntimeError: Bad in-place call: input tensor dtype long int and output tensor dtype short int should match
x.cumprod_(0, dtype=torch.float64)
RuntimeError: Bad in-place call: input tensor dtype float and output tensor dtype double should match
F.l1_loss(x, x[:, :2], reduction=100)
RuntimeError: The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1
F.l1_loss(x, x, reduction=torch.tensor(2))
ValueError: 2 is not a valid value for reduction
F.mse_loss(x, x, reduction=None, weight=x)
ValueError: Invalid reduction mode: None. Expected one of 'none', 'mean', 'sum'.
F.nll_loss(x, 5, reduction=2.5)
ValueError: 2.5 is not a valid value for reduction
F.nll_loss(x.int(), torch.tensor([0, 2]), torch.ones(3))
NotImplementedError: "nll_loss_out_frame" not implemented for 'Int'
F.batch_norm([x], None, None, training=True)
AttributeError: 'list' object has no attribute 'size'
F.batch_norm([x], None, None)
TypeError: batch_norm(): argument 'input' (position 1) must be Tensor, not list
F.instance_norm(2, use_input_stats=False)
TypeError: instance_norm(): argument 'input' (position 1) must be Tensor, not int
F.instance_norm(x[None], weight=x[:1])
RuntimeError: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor
F.local_response_norm(x[None], 3, k=None)
TypeError: add(): argument 'other' (position 1) must be Tensor, not NoneType
torch.norm(x, 3, True)
TypeError: linalg_vector_norm(): argument 'dim' (position 3) must be tuple of ints, but found element of type bool at pos 0
torch.norm(x, 'fro', 2 ** 63)
TypeError: linalg_vector_norm(): argument 'dim' failed to unpack the object at pos 1 with error "Overflow when unpacking long long
F.normalize(x, dim=0.5)
TypeError: linalg_vector_norm(): argument 'dim' (position 3) must be tuple of ints, not float
F.cross_entropy(x, torch.tensor([0, 2]), label_smoothing=2.0 ** 63)
RuntimeError: label_smoothing must be between 0.0 and 1.0. Got: 9.22337e+18
F.softshrink(x.double(), -2.5)
RuntimeError: lambda must be in range [0, 1.79769e+308] for input dtype Double, but found -2.5
x.half().__setitem__(0, 1j)
RuntimeError: value cannot be converted to type double without overflow
torch.clamp(x.half(), max=1e5)
RuntimeError: value cannot be converted to type c10::Half without overflow
torch.logit(x.half(), 1e5)
RuntimeError: value cannot be converted to type c10::Half without overflow
torch.histc(x, 2, 0, 1j)
RuntimeError: value cannot be converted to type double without overflow
F.scaled_dot_product_attention(x[0].int(), x, x)
RuntimeError: Expected query, key, and value to have the same dtype, but got query.dtype: int key.dtype: float and value.dtype: float instead.
torch.stft(torch.ones(2, 12).bool(), 4, return_complex=True)
NotImplementedError: "reflection_pad1d" not implemented for 'Bool'
torch.stft(torch.ones(2, 2, 2, 12), 4, return_complex=True)
NotImplementedError: Padding size 2 is not supported for 4D input tensor.
F.multilabel_soft_margin_loss(x, 'x')
TypeError: only integer tensors of a single element can be converted to an index
torch.lstm_cell(x, [None], torch.ones(8, 3), torch.ones(8, 2))
TypeError: expected Tensor as element 0 in argument 1, but got NoneType
x.half() ** 1e5
RuntimeError: value cannot be converted to type c10::Half without overflow
x.half().fill_(1j)
RuntimeError: value cannot be converted to type c10::Half without overflow
torch.addcmul(x.half(), x.half(), x.half(), value=1e39)
RuntimeError: value cannot be converted to type float without overflow
F.threshold(x.half(), 1j, 1)
RuntimeError: value cannot be converted to type float without overflow
torch.bmm(x[None].bool(), x.t()[None])
NotImplementedError: "bmm" not implemented for 'Bool'
torch.baddbmm(x[0, :2], x[None], x.t()[None].bool())
RuntimeError: expected scalar type Float but found Bool
torch.baddbmm(x[0, :2].bool(), x[None], x.t()[None])
RuntimeError: Input dtypes must be the same, got: input bool, batch1: float, batch2: float
torch.conv1d(torch.ones(1, 2, 6).int(), torch.ones(2, 2, 3), dilation=2)
NotImplementedError: "slow_conv_dilated<>" not implemented for 'Int'
x.scatter(1, torch.tensor([[0, 2], [2, 1]]), x[0])
IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 1)
x.index_add(1, torch.tensor([0, 2]), x[0])
RuntimeError: index_add_(): Indexing dim 1 is out of bounds of the source tensor with dim 1
x.index_copy(0, torch.tensor([1, 0]), torch.tensor(1))
IndexError: index_copy_(): When source is scalar, index should have one element (got 2)
torch.unbind(torch.tensor(1), 1)
IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 1)
torch.ormqr(torch.ones(3, 2), torch.ones(2), torch.ones(2, 2))
RuntimeError: torch.ormqr: other.shape[-2] must be equal to input.shape[-2]
torch.gru_cell(x, torch.ones(0), torch.ones(6, 3), torch.ones(6, 2))
RuntimeError: Input batch size 2 doesn't match hidden0 batch size 0
torch.gru_cell(x.int(), torch.ones(2, 2).int(), torch.ones(6, 3).int(), torch.ones(6, 2).int())
RuntimeError: result type Float can't be cast to the desired output type Int
torch.lstm_cell(x, [torch.ones(2, 2)] * 2, torch.ones(7, 2), torch.ones(9, 2))
RuntimeError: input has inconsistent input_size: got 3 expected 2
torch.gru(x, torch.ones(1, 2, 2), [torch.ones(6, 2), torch.ones(6, 2)], False, 1, 0.0, True, False, False)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x6)
torch.ones(3).cumsum(0, dtype=torch.complex32)
NotImplementedError: "cumsum_out_cpu" not implemented for 'ComplexHalf'
F.cosine_similarity(x, x, eps=-1.0)
RuntimeError: eps must be non-negative, got: -1
torch.native_group_norm(torch.ones(2, 6, 3), torch.ones(6, 1), None, 2, 6, 3, 3, 0.1)
RuntimeError: Expected weight to be a vector of size equal to the number of channels in input, but got weight of shape [6, 1] and input of shape [2, 6, 3]
F.linear(x, torch.ones(4, 3, 2))
RuntimeError: t() expects a tensor with <= 2 dimensions, but self is 3D
F.hinge_embedding_loss(x.int(), x)
RuntimeError: mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Int
F.hinge_embedding_loss(x.bool(), x)
RuntimeError: Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.
torch.rnn_relu_cell(x, torch.ones(2, 4), torch.ones(4, 3), torch.ones(3, 4))
RuntimeError: weight_hh first dim must be 1 * hidden_size = 4, but got 3
torch.lstm_cell(x, [torch.ones(2, 2)] * 2, torch.ones(9, 3), torch.ones(8, 2))
RuntimeError: weight_ih first dim must be 4 * hidden_size = 8, but got 9
torch.rnn_tanh_cell(x.sum(), x.sum(), torch.ones(3, 3), torch.ones(3, 3))
IndexError: Dimension specified as 1 but tensor has no dimensions
torch.rnn_relu(x[None], torch.ones(2, 2, 3), [torch.ones(3, 3)] * 2, False, 1, 0.0, True, False, False)
RuntimeError: Expected more hidden states in stacked_rnn
torch.gru(x[None], torch.ones(1, 2, 3), [torch.ones(9, 3)] * 4, False, 1, 0.0, True, False, False)
RuntimeError: Expected more weights in stacked_rnn
torch.rnn_tanh(x[None], torch.ones(1, 2, 3), [torch.ones(3, 3)] * 4, False, 1, 0.0, True, True, False)
RuntimeError: Odd number of params or hiddens given to a bidirectional RNN
torch.gru(x[None], x.sum(), [torch.ones(9, 3)] * 2, False, 1, 0.0, True, False, False)
IndexError: Dimension specified as 0 but tensor has no dimensions
torch.lu_unpack(x[0], torch.tensor([1], dtype=torch.int32))
RuntimeError: torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: [3] instead
torch.as_strided_scatter(x, x[0], (2,), (9,))
RuntimeError: setStorage: sizes [2], strides [9], storage offset 0, and itemsize 4 requiring a storage size of 40 are out of bounds for storage of size 24
x.masked_scatter_(torch.ones(3, 3) > 0, x)
RuntimeError: The expanded size of the tensor (2) must match the existing size (3) at non-singleton dimension 0.  Target sizes: [2, 3].  Tensor sizes: [3, 3]
F.fold(x, (4, 0.5, 2 ** 63), 2)
TypeError: col2im(): argument 'output_size' failed to unpack the object at pos 2 with error "type must be tuple of ints,but got float"
F.adaptive_max_pool2d(x[None], (3, x))
TypeError: adaptive_max_pool2d(): argument 'output_size' failed to unpack the object at pos 2 with error "type must be tuple of ints,but got Tensor"
torch.histogram(x.int(), 3)
NotImplementedError: "histogramdd" not implemented for 'Int'
torch.conv_transpose3d(torch.ones(1, 1, 2, 2, 2) > 0, torch.ones(1, 1, 1, 1, 1) > 0)
NotImplementedError: "slow_conv_transpose3d_out_cpu" not implemented for 'Bool'
torch.conv3d(torch.ones(1, 1, 2, 2, 2) > 0, torch.ones(1, 1, 2, 2, 2) > 0)
NotImplementedError: "compute_columns3d" not implemented for 'Bool'
torch.addmm(x.sum(), x, torch.ones(3, 2, device='meta'))
RuntimeError: Tensor on device meta is not on the expected device cpu!
torch.atleast_2d([x], 3)
TypeError: expected Tensor as element 0 in argument 0, but got list
torch.atleast_3d(x, 3.0, x)
TypeError: expected Tensor as element 1 in argument 0, but got float
torch.atleast_1d(input=x)
TypeError: atleast_1d() got an unexpected keyword argument 'input'
torch.searchsorted(sorted_sequence=x[0], input=3)
TypeError: searchsorted() received an invalid combination of arguments - got (input=int, sorted_sequence=Tensor, ), but expected one of:
torch.topk(x > 0, 4)
RuntimeError: selected index k out of range
F.adaptive_avg_pool2d(x.int()[None], 1)
RuntimeError: mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Int
F.adaptive_avg_pool2d(x, 2)
RuntimeError: adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got [2, 3]
F.pad(x, (0, 2 ** 62))
RuntimeError: Storage size calculation overflowed with sizes=[2, 4611686018427387907]
torch.constant_pad_nd(x, (0, 2 ** 63 - 1))
RuntimeError: The input size 3, plus negative padding 0 and 9223372036854775807 resulted in a negative output size, which is invalid. Check dimension 1 of your input.
torch.fft.rfft(x, 2 ** 63 - 1, 0)
RuntimeError: Storage size calculation overflowed with sizes=[9223372036854775807, 3]
F.mse_loss(x, x, reduction=b'mean')
ValueError: b'mean' is not a valid value for reduction
F.huber_loss(x, x, b'sum')
ValueError: b'sum' is not a valid value for reduction
F.l1_loss(x, x, reduction=b'mean', weight=x)
ValueError: Invalid reduction mode: b'mean'. Expected one of 'none', 'mean', 'sum'.
F.mse_loss(x, x, reduction=1, weight=x)
ValueError: Invalid reduction mode: 1. Expected one of 'none', 'mean', 'sum'.
F.kl_div(x, x, reduction=b'mean')
ValueError: b'mean' is not a valid value for reduction
F.poisson_nll_loss(x, x, reduction=b'mean')
TypeError: can't concat str to bytes
F.poisson_nll_loss(x, x, reduction='elementwise_mean')
ValueError: elementwise_mean is not a valid value for reduction
F.multilabel_soft_margin_loss(x, x, reduction=b'mean')
TypeError: can't concat str to bytes
F.grid_sample(torch.ones(1, 1, 2, 2), torch.zeros(1, 2, 2, 2), mode=b'nearest')
ValueError: nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: 'b'nearest''
torch.cdist(x, x, compute_mode=b'use_mm_for_euclid_dist')
ValueError: b'use_mm_for_euclid_dist' is not a valid value for compute_mode
torch.norm(x, b'fro')
TypeError: linalg_vector_norm(): argument 'ord' (position 2) must be Number, not bytes
F.interpolate(x[None], scale_factor=2, mode=b'nearest')
NotImplementedError: Input Error: Only 3D, 4D and 5D input Tensors supported (got 3D) for the modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got b'nearest')
F.max_unpool2d(torch.ones(1, 2, 0, 2), torch.ones(1, 2, 0, 2, dtype=torch.int64), 2)
RuntimeError: max_unpooling2d_forward_out_cpu(): Expected input to have non-zero size for non-batch dimensions, but got [1, 2, 0, 2] with dimension 2 being empty.
F.max_unpool1d(torch.ones(1, 0, 2), torch.ones(1, 0, 2, dtype=torch.int64), 2)
RuntimeError: max_unpooling2d_forward_out_cpu(): Expected input to have non-zero size for non-batch dimensions, but got [1, 0, 2, 1] with dimension 1 being empty.
F.max_unpool2d(x, x.long(), 2, padding=5)
ValueError: max_unpooling: output_size must contain non-negative spatial dimensions, but got output_size[0]=-6
F.max_unpool3d(torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1).long(), 2, stride=0)
RuntimeError: strides should be greater than zero, but got stride: [0, 0, 0]
torch._C._nn.max_unpool2d(torch.ones(1, 2, 2), torch.zeros(1, 2, 2).long(), (-1, 2))
RuntimeError: max_unpooling2d(): output_size must contain non-negative spatial dimensions, but got output_size=(-1, 2)
torch._C._nn.max_unpool2d(torch.ones(1, 2, 2), torch.zeros(1, 2, 2), (2, 2))
RuntimeError: elements in indices should be type int64 but got: Float
F.adaptive_max_pool1d(torch.ones(2, 3, 0), 2)
RuntimeError: adaptive_max_pool1d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes [2, 3, 0] with dimension 2 being empty
F.conv2d(torch.ones(1, 2, 3, 3), torch.ones(3, 2, 2, 2), padding='same', stride=(1, 1, 1))
RuntimeError: stride cannot broadcast to 2 dimensions
F.conv2d(torch.ones(1, 2, 3, 3), torch.ones(3, 2, 2, 2), padding='same', dilation=(1, 1, 1))
RuntimeError: dilation cannot broadcast to 2 dimensions
torch.repeat_interleave(x, torch.tensor([2**60, 2**60]), dim=0)
RuntimeError: Storage size calculation overflowed with sizes=[2305843009213693952]
torch.repeat_interleave(torch.ones(0, 3), 2**62, dim=1)
RuntimeError: Stride calculation overflowed
torch.repeat_interleave(torch.tensor([2**62, 2**62, 2**62]))
RuntimeError: Trying to create tensor with negative dimension -4611686018427387904: [-4611686018427387904]
torch.ones(2, 3).repeat(1, 2**62)
RuntimeError: Trying to create tensor with negative dimension -4611686018427387904: [2, -4611686018427387904]
torch.empty(0, 2**62, 2**62)
RuntimeError: Stride calculation overflowed
torch.cholesky(torch.ones(2, 3))
RuntimeError: cholesky: A must be batches of square matrices, but they are 2 by 3 matrices
torch.cholesky(torch.eye(2, dtype=torch.int64))
NotImplementedError: "cholesky_cpu" not implemented for 'Long'
torch.linalg.lu_solve(torch.eye(2).long(), torch.ones(2, dtype=torch.int32), torch.eye(2).long())
RuntimeError: torch.linalg.lu_solve: Expected a floating point or complex tensor as input. Got Long
torch.linalg.pinv(torch.eye(3), torch.tensor(1j))
RuntimeError: torch.linalg.pinv: rcond tensor of complex type is not supported. Got ComplexFloat
torch.linalg.matrix_rank(torch.eye(3), torch.tensor(1j))
RuntimeError: torch.linalg.matrix_rank: atol tensor of complex type is not supported. Got ComplexFloat
torch.sparse.addmm(torch.ones(2, 2).to_sparse(), x.to_sparse(), x.T)
RuntimeError: addmm_sparse_dense: expected strided result tensor, got tensor with layout Sparse
torch.sparse.addmm(torch.ones(2, 2), x, x.T.to_sparse())
RuntimeError: addmm_sparse_dense: expected either 'mat1' to have sparse layout and 'mat2' to have strided layout, got 'mat1' with layout Strided and 'mat2' with layout Sparse
torch.sparse.sum(None)
TypeError: _sparse_sum(): argument 'input' (position 1) must be Tensor, not NoneType
torch.sparse.sum(x.to_sparse(), [0, 0])
RuntimeError: dim 0 appears multiple times in the list of dims
torch.sparse.sum(x.to_sparse(), 5)
IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 5)
torch.hspmm(x.to_sparse(), x)
RuntimeError: hspmm: Argument #3: Expected dim 0 size 3, got 2
torch.hspmm(x.to_sparse(), x[0])
RuntimeError: hspmm: Argument #3: matrices expected, got 1D tensor
torch.saddmm(x.to_sparse(), x.T, x.T)
RuntimeError: sspaddmm: expected 'mat1' to have sparse layout, got 'mat1' with layout Strided
torch.sspaddmm(x.to_sparse(), x.to_sparse(), x.T)
RuntimeError: sspaddmm: Argument #1: Expected dim 1 size 2, got 3
torch.smm(x, x.T)
RuntimeError: tensor.sspaddmm(...) can only be called on sparse tensors
F.grouped_mm(None, None)
TypeError: _grouped_mm(): argument 'input' (position 1) must be Tensor, not NoneType
F.grouped_mm(x, x, offs=1)
TypeError: _grouped_mm(): argument 'offs' must be Tensor, not int
"""
LINES = CASES.split("\n")[1:-1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "said"), list(zip(LINES[::2], LINES[1::2])), ids=LINES[::2])
def test_a_call_that_does_not_fit(call, said):
    assert sentence(call) == said


@pytest.mark.filterwarnings("ignore")
def test_names_of_functions_in_python_are_accepted():
    x = torch.ones(2, 3)
    assert torch.nn.functional.mish(input=x).equal(torch.nn.functional.mish(x))
    assert torch.split(tensor=x, split_size_or_sections=1)[1].equal(x[1:])
    assert torch.linalg.eigvalsh(input=torch.eye(2)).tolist() == [1.0, 1.0]
    assert [made.shape for made in torch.meshgrid(x[0], x[:, 0], indexing="ij")] == [(3, 2)] * 2


def test_operands_of_which_only_the_sizes_matter_may_be_anywhere():
    x, far = torch.arange(6.0), torch.empty(2, 3, device="meta")
    for made in (x.view_as(far), x.reshape_as(far), x[:3].expand_as(far), x.clone().resize_as_(far)):
        assert (made.shape, made.device.type) == ((2, 3), "cpu")
    assert [made.device.type for made in torch.broadcast_tensors(x[:3], far)] == ["cpu", "meta"]
    assert [made.shape for made in torch.tensor_split(far, torch.tensor([1]), 1)] == [(2, 1), (2, 2)]


def test_results_of_integers_and_of_nothing():
    loss = torch.nn.functional.hinge_embedding_loss
    ones = torch.ones(2, dtype=torch.int32)
    assert loss(ones, -ones, 3.5, reduction="none").tolist() == [2, 2]
    assert loss(ones, ones, reduction="sum").dtype == torch.int64
    assert loss(ones.to(torch.uint8), -ones, 3.7, reduction="none").dtype == torch.uint8
    huber = torch.nn.functional.huber_loss
    for reduction in ("none", "mean"):
        assert huber(torch.ones(2).bfloat16(), torch.zeros(2).double(), reduction=reduction).dtype == torch.bfloat16
    logs = torch.zeros(4, 2, 3).log_softmax(-1)
    lengths = torch.tensor([4, 3]), torch.tensor([2, 1])
    assert torch.ctc_loss(logs, torch.tensor([1, 2, 2]), *lengths, 0, 5).shape == (2,)
    assert torch.zeros(0, 3).nonzero().stride() == (1, 0) and torch.ones(()).nonzero().stride() == (1, 1)
    assert torch.diag(torch.zeros(1, 3)).stride() == (1,)
    empty = torch.empty_strided((0, 3), (0, 0))
    assert empty.roll(1, 0).stride() == empty.roll(1, 5).stride() == (0, 0) and empty.roll(1).stride() == (3, 1)
    assert torch.trapz(torch.ones(3), dx=2**64).item() == 2.0**65
    assert (
        torch.searchsorted(torch.ones(3), self=3).item()
        == torch.bucketize(self=3, boundaries=torch.ones(3)).item()
        == 3
    )
    pool = torch.nn.functional.adaptive_avg_pool2d
    assert pool(torch.full((1, 2, 2), 1 + 2j), 1).tolist() == [[[1 + 2j]]] and pool(torch.ones(2, 3), 1).shape == (1, 1)
    assert pool(torch.ones(2, 0, 3), 1).isnan().all()
