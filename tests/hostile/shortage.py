"""Calls many operators with a nearly full address space, and prints each: the last one ended the process.

A call may return its result, or raise MemoryError or a RuntimeError about memory; anything else is a finding. Operands
are created first, so that only the result or a kernel's working memory is missing. Modules that are loaded lazily are
imported first, because an interpreter without memory reports that their source is wrong (SyntaxError), or fails to
compile them without any exception (SystemError). A case that still loads a module is a finding.
"""

import io
import resource
import sys

import numpy as np  # noqa: F401

import rushlight as torch
import rushlight._error_names
import rushlight._in_python
import rushlight._limits
import rushlight.distributions
import rushlight.fft
import rushlight.functional
import rushlight.linalg

F = torch.nn.functional

MIB = 1 << 20
COUNT = 1 << 18
x, whole = torch.rand(COUNT), torch.randint(0, 1000, (COUNT,))
double, half, pair = x.double(), x.half(), torch.complex(x, x)
matrix = torch.rand(256, 256)
definite = matrix @ matrix.mT + torch.eye(256)
places = torch.randint(0, 256, (256, 256))
images, kernels = torch.rand(2, 8, 64, 64), torch.rand(16, 8, 3, 3)
steps, heads = torch.rand(64, 8, 32), torch.rand(4, 64, 32)
table, words, starts = torch.rand(1000, 64), torch.randint(0, 1000, (5000,)), torch.arange(0, 5000, 10)
lstm, gru = torch.nn.LSTM(32, 32), torch.nn.GRU(32, 32)
labels, lengths = torch.ones(8, 20, dtype=torch.int64), torch.full((8,), 20)
file = io.BytesIO()
torch.save({"x": x}, file)


def gradient(function, *operands):
    leaves = [operand.detach().requires_grad_() for operand in operands]
    result = function(*leaves)
    torch.autograd.grad((result[0] if isinstance(result, tuple) else result).sum(), leaves)


def ctc(steps):
    return F.ctc_loss(steps.log_softmax(2), labels, torch.full((8,), 64), lengths)


CASES = """
x.sort() double.sort() half.sort() whole.sort() x.argsort() x.topk(1000) x.kthvalue(5) x.median() whole.mode()
x.unique() whole.unique(return_inverse=True,return_counts=True) matrix.unique(dim=0) matrix.sort(0) matrix.median(0)
matrix.quantile(0.3,dim=1) torch.isin(whole,whole[:1000]) torch.isin(x,x) torch.bucketize(x,x[:100].sort()[0])
x.histc(1000) torch.histogram(x,1000) torch.bincount(whole) torch.histogramdd(matrix[:,:2],[9,9])
x.cumsum(0) x.cumprod(0) x.cummax(0) x.logcumsumexp(0) matrix.sum(0) matrix.var(0) matrix.prod(1) x.norm() x.argmax()
torch.fft.fft(x) torch.fft.fft(double[:65521]) torch.fft.fft(x[:65537]) torch.fft.fft(x[:4093]) torch.fft.fft2(matrix)
torch.fft.rfft(x) torch.fft.irfft(pair) torch.fft.fftn(steps) torch.stft(x,512,return_complex=True,window=torch.ones(512))
matrix@matrix matrix.double()@matrix.double() matrix.half()@matrix.half() places@places torch.bmm(heads,heads.mT)
torch.einsum('ij,jk->ik',matrix,matrix) torch.linalg.multi_dot([matrix,matrix,matrix]) torch.cdist(matrix,matrix)
torch.linalg.svd(matrix) torch.linalg.svdvals(matrix) torch.linalg.eigh(definite) torch.linalg.eig(matrix)
torch.linalg.qr(matrix) torch.linalg.cholesky(definite) torch.linalg.lu(matrix) torch.linalg.inv(matrix)
torch.linalg.solve(matrix,matrix) torch.linalg.det(matrix) torch.linalg.slogdet(matrix) torch.linalg.pinv(matrix)
torch.linalg.lstsq(matrix,matrix) torch.linalg.matrix_exp(matrix) torch.linalg.ldl_factor(definite)
torch.linalg.matrix_rank(matrix) torch.lu_unpack(*torch.linalg.lu_factor(matrix)) torch.cholesky_inverse(definite)
torch.linalg.solve_triangular(matrix,matrix,upper=True) torch.linalg.svd(torch.rand(64,16,16))
F.conv2d(images,kernels,padding=1) F.conv2d(images,kernels,stride=2) F.conv2d(images.double(),kernels.double(),dilation=2)
F.conv2d(images,torch.rand(8,1,3,3),groups=8) F.conv1d(steps,torch.rand(8,8,5)) F.conv_transpose2d(images,torch.rand(8,4,3,3))
F.max_pool2d(images,3) F.max_pool2d(images,31,1) F.avg_pool2d(images,3) F.adaptive_avg_pool2d(images,7)
F.adaptive_max_pool2d(images,7) F.fractional_max_pool2d(images,2,output_size=20) F.unfold(images,3)
F.max_unpool2d(*F.max_pool2d(images,2,return_indices=True),2) F.interpolate(images,scale_factor=2,mode='bicubic')
F.layer_norm(matrix,(256,)) F.batch_norm(images,None,None,training=True) F.group_norm(images,2) F.rms_norm(matrix,(256,))
F.softmax(matrix,0) F.log_softmax(images,1) F.cross_entropy(matrix,places[0]) ctc(steps) F.multi_margin_loss(matrix,places[0])
F.multilabel_margin_loss(matrix,places) F.grid_sample(images,torch.rand(2,64,64,2)) F.pdist(matrix) F.one_hot(words)
F.scaled_dot_product_attention(heads,heads,heads) F.scaled_dot_product_attention(heads,heads,heads,is_causal=True)
lstm(steps) gru(steps) F.embedding(words,table) F.embedding_bag(words,table,starts) F.embedding_bag(words,table,starts,mode='max')
F.embedding_bag(words,table,starts,mode='sum',per_sample_weights=x[:5000]) F.embedding(words,table,max_norm=1.)
x[whole] x.index_select(0,whole) matrix.gather(1,places) matrix.scatter(1,places,matrix) matrix.scatter_add(1,places,matrix)
x.index_add(0,whole,x) x.index_put((whole,),x,accumulate=True) x.masked_select(x>0.5) x.nonzero() matrix.take(places)
torch.index_reduce(x,0,whole,x,'amax') x.scatter_reduce(0,whole,x,'prod') torch.combinations(x[:300])
torch.segment_reduce(x,'mean',lengths=torch.tensor([COUNT//2,COUNT//2])) x.repeat_interleave(2) x.roll(3) matrix.rot90()
torch.multinomial(matrix,200) torch.multinomial(matrix,200,replacement=True) torch.randperm(COUNT) torch.poisson(x)
torch.distributions.Gamma(x[:5000],x[:5000]).sample() torch.normal(x,x) torch.kron(matrix[:20,:20],matrix[:20,:20])
x.sin() x+half torch.lerp(x,x,x) pair.abs() pair*pair x.logsumexp(0) torch.cov(matrix) torch.diff(x) x.tolist()
torch.tensor(x.tolist()) torch.from_numpy(np.ones(COUNT)).clone() str(x) torch.save(x,io.BytesIO())
torch.load(io.BytesIO(file.getvalue())) gradient(F.scaled_dot_product_attention,heads,heads,heads)
gradient(F.conv2d,images,kernels) gradient(lstm,steps) gradient(ctc,steps) gradient(torch.cdist,matrix,matrix)
gradient(torch.linalg.svd,matrix) gradient(torch.linalg.det,matrix) gradient(torch.linalg.matrix_exp,matrix)
"""


def in_use():
    with open("/proc/self/statm") as facts:
        return int(facts.read().split()[0]) * resource.getpagesize()


def grow_stack():
    """Touches pages of the stack in advance, because the system kills the process if the stack cannot grow."""
    nested = ()
    for _ in range(10_000):
        nested = (nested,)
    hash(nested)


def attempt(code, spare):
    """Runs one call with the given number of free bytes. Returns a description of a wrong result, or None."""
    limit = in_use() + spare
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        eval(code)
    except MemoryError:
        return None
    except RuntimeError as error:
        return None if "memory" in str(error) else error
    except BaseException as error:
        return error
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return None


def main():
    # Threads allocate memory when they start, and this cannot fail gracefully.
    torch.set_num_threads(1)
    grow_stack()
    loaded = set(sys.modules)
    for case in CASES.split():
        print(case, flush=True)
        code = compile(case, case, "eval")
        # In the second call, tables exist, and cached blocks are for tensors, not for a kernel's lists.
        for _ in range(2):
            for spare in (0, MIB, 3 * MIB):
                bad = attempt(code, spare)
                if bad is not None:
                    sys.exit(f"{case} with {spare // MIB} MiB: {type(bad).__name__}: {bad}")
            eval(code)
        if late := set(sys.modules) - loaded:
            sys.exit(f"{case} loads modules: import them first: {sorted(late)}")
    print("all")


if __name__ == "__main__":
    main()
