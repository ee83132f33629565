"""The engine of backward: threads, hooks of nodes, very deep and very shared graphs."""

import gc
import re
import subprocess
import sys
import threading
import weakref

import pytest

import rushlight as torch


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


class TestBackward:
    def test_views_of_what_changed(self):
        x = torch.zeros(2, 2)
        row = x[0]
        w = leaf(3.0, 4.0)
        x.mul_(0)
        row.add_(w)
        x.sum().backward()
        assert w.grad.tolist() == [1, 1]
        assert x.grad_fn is not None and row.grad_fn is not None

    def test_integers_have_none(self):
        with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require gradients"):
            torch.tensor([1]).requires_grad_()
        integers = torch.tensor([1])
        with pytest.raises(
            RuntimeError, match="only Tensors of floating point and complex dtype can require gradients"
        ):
            integers.requires_grad = True
        integers.requires_grad = False


class TestModes:
    def test_each_thread_has_its_own(self):
        found = []
        with torch.no_grad():
            worker = threading.Thread(target=lambda: found.append(torch.is_grad_enabled()))
            worker.start()
            worker.join()
        assert found == [True]

    def test_inference(self):
        x = leaf(1.0)
        with torch.inference_mode():
            y = x * 2
        assert y.is_inference()
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            y * x


class TestHooks:
    def test_after_accumulation(self):
        x = leaf(1.0)
        seen = []
        x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
        (x * 3).sum().backward()
        assert seen == [(True, [3])]

    def test_node_hooks(self):
        x = leaf(1.0)
        y = (x * 3).sum()
        seen = []
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append("after"))
        y.grad_fn.register_prehook(lambda outputs: seen.append("before"))
        y.backward()
        assert seen == ["before", "after"]

    @pytest.mark.parametrize("kind", ["register_prehook", "register_hook"])
    @pytest.mark.parametrize(
        ("given", "error", "sentence"),
        [
            ("(torch.ones(5),)", RuntimeError, "hook 'named' has changed the size of value"),
            (
                "(torch.ones(2) * 1j,)",
                RuntimeError,
                "hook 'named' has changed the type of value (was torch.FloatTensor",
            ),
            ("(torch.ones(2).double(),)", RuntimeError, "got torch.DoubleTensor)"),
            (
                "(torch.ones(2), None)",
                RuntimeError,
                "hook 'named' has returned an incorrect number of values (got 2, but expected 1)",
            ),
            ("[torch.ones(2)]", TypeError, "expected tuple, but hook returned 'list'"),
            ("torch.ones(2)", TypeError, "expected tuple, but hook returned 'Tensor'"),
            ("(5,)", TypeError, "expected Variable, but hook returned 'int'"),
        ],
    )
    def test_node_hooks_replace_like_by_like(self, kind, given, error, sentence):
        def named(*gradients):
            return eval(given)

        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        getattr(y.grad_fn, kind)(named)
        with pytest.raises(error, match=re.escape(sentence)):
            (y * 2).sum().backward()
        assert x.grad is None

    @pytest.mark.parametrize("of_node", [True, False])
    def test_a_hook_cannot_make_a_gradient_out_of_none(self, of_node):
        x = torch.ones(2, 2, requires_grad=True)
        part, other = x.unbind()
        if of_node:
            part.grad_fn.register_prehook(lambda grads: tuple(torch.ones(2) for _ in grads))
        else:
            other.register_hook(lambda grad: torch.ones(2))
        with pytest.raises(RuntimeError, match=r"can't replace a None gradient with a non-None value"):
            part.sum().backward()

    def test_a_hook_of_a_result_without_gradient_gets_none(self):
        calls = []
        for split in (torch.unbind, lambda x: x.split(1), lambda x: x.chunk(2), torch.var_mean):
            x = torch.ones(2, requires_grad=True)
            first, second = split(x)
            first.register_hook(lambda grad: calls.append(grad.tolist() is None))
            second.register_hook(calls.append)
            first.sum().backward()
        assert calls == [False, None] * 4

    def test_a_leaf_without_gradient_calls_its_hooks(self):
        class First(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                return x * y

            @staticmethod
            def backward(ctx, grad):
                return grad, None

        calls = []
        x, y = leaf(1.0), leaf(2.0)
        y.register_hook(calls.append)
        y.register_post_accumulate_grad_hook(lambda y: calls.append("after"))
        First.apply(x, y).backward()
        assert calls == [None, "after"] and y.grad is None
        calls.clear()
        torch.autograd.graph.register_multi_grad_hook([x, y], calls.append)
        First.apply(x, y).backward()
        assert calls[-1] == [torch.ones(1), None]

    def test_a_chosen_input_that_is_no_leaf_runs_with_its_hooks(self):
        calls = []

        def hooked(y):
            y.register_hook(lambda grad: calls.append("tensor"))
            y.grad_fn.register_prehook(lambda grads: calls.append("before"))
            y.grad_fn.register_hook(lambda inputs, outputs: calls.append(inputs))
            return y

        x = leaf(1.0)
        root = hooked((x * 2).sum())
        root.backward(inputs=[root])
        assert calls == ["tensor", "before", (None,)] and root.grad == 1 and x.grad is None
        calls.clear()
        inner = hooked(x * 2)
        (inner * 3).sum().backward(inputs=[inner])
        assert calls == ["tensor", "before", (None, None)] and inner.grad == 3 and x.grad is None
        calls.clear()
        inner = hooked(x * 2)
        torch.autograd.grad((inner * 3).sum(), inner)
        assert calls == ["tensor"]

    def test_saved_tensor_hooks_of_an_unpack_hook_end_with_the_pass(self):
        packed, contexts = [], []

        def unpack(tensor):
            context = torch.autograd.graph.saved_tensors_hooks(packed.append, lambda _: None)
            contexts.append(context)
            context.__enter__()
            return tensor

        x = leaf(1.0)
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            y = x.exp()
        y.backward()
        assert contexts and x.sin().grad_fn._saved_self is x and not packed


class TestFunctions:
    def test_several_results_and_no_gradient(self):
        class Split(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor):
                return x * factor, x + 1

            @staticmethod
            def backward(ctx, first, second):
                return first * 2 + second, None

        x = leaf(1.0)
        a, b = Split.apply(x, 2)
        (a + b).sum().backward()
        assert x.grad.tolist() == [3]


class TestDepth:
    def test_a_deep_graph_is_freed_unwalked(self):
        y = leaf(1.0)
        gone = weakref.ref(y)
        for _ in range(100_000):
            y = y * 1.0
        del y
        gc.collect()
        assert gone() is None

    def test_wide_and_shared(self):
        """Every node is visited once, however many paths lead to it."""
        x = leaf(1.0)
        y = x
        for _ in range(60):
            y = y + y
        y.backward()
        assert x.grad.tolist() == [2.0**60]

    def test_walks_within_walks_end_before_the_stack(self):
        """A backward pass that a node starts runs on the stack of the outer one."""
        script = """
import sys, threading
import rushlight as torch
sys.setrecursionlimit(10**6)

class Nested(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        if ctx.depth:
            with torch.enable_grad():
                Nested.apply(torch.ones(1, requires_grad=True), ctx.depth - 1).sum().backward()
        return grad, None

def run(depth):
    x = torch.ones(1, requires_grad=True)
    Nested.apply(x, depth).sum().backward()
    return x.grad.item()

found = [run(2000)]
def work():
    found.append(run(40))
    try:
        run(100_000)
    except RecursionError as error:
        found.append(str(error).split(":")[0])

threading.stack_size(1 << 20)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(found)
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert done.stdout == "[1.0, 1.0, 'maximum recursion depth exceeded']\n", (done.returncode, done.stderr[-500:])


class TestThreads:
    @pytest.mark.parametrize(
        "place", ["kernel", "forward", "backward", "hook", "pack", "override", "index", "sequence", "number", "apply"]
    )
    def test_daemons_do_not_disturb_the_end_of_the_process(self, place):
        """The interpreter unwinds them, also where the engine's frames are below Python's."""
        script = f"""
import threading, time
import rushlight as torch

met = threading.Barrier(3)
def stop(where):
    if where == {place!r}:
        if not getattr(own, "met", False):
            own.met = True
            met.wait()
        while True:
            time.sleep(0.0005)

own = threading.local()

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        stop("forward")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        stop("backward")
        return grad * 2

class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        stop("override")
        return super().__torch_function__(function, types, args, kwargs or {{}})

class Index:
    def __index__(self):
        stop("index")
        return 0

class Sequence:
    def __len__(self):
        return 1

    def __getitem__(self, place):
        stop("sequence")
        return (1.0,)[place]

class Number:
    def __radd__(self, other):
        stop("number")
        return other

def pack(tensor):
    stop("pack")
    return tensor

def work():
    torch.tensor(Sequence())
    if {place!r} == "kernel":
        met.wait()
        while True:
            torch.ones(200, 200) @ torch.ones(200, 200)
    x = torch.ones(3, requires_grad=True)
    x.register_hook(lambda grad: stop("hook"))
    torch.ones(3).as_subclass(Own) + 1
    torch.ones(3)[Index()]
    torch.ones(3) + Number()
    torch.ones(3).apply_(lambda value: stop("apply") or value)
    with torch.autograd.graph.saved_tensors_hooks(pack, pack):
        Double.apply(x).exp().sum().backward()

for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
met.wait()
time.sleep(0.01)
print("end")
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr[-500:]

    def test_a_finalizer_may_change_the_memory_of_a_tensor_while_daemons_wait_for_the_end(self):
        script = """
import builtins, threading, time
import rushlight as torch

class Late:
    def __del__(self):
        self.tensor.set_(self.other)
        print(self.tensor.tolist())

def work():
    met.wait()
    while True:
        torch.ones(200, 200) @ torch.ones(200, 200)

met = threading.Barrier(3)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
met.wait()
time.sleep(0.05)
builtins.late = Late()
late.tensor, late.other = torch.zeros(1), torch.ones(2)
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "[1.0, 1.0]\n"), done.stderr[-500:]

    def test_python_nodes_run_where_backward_was_called(self):
        found = []

        class Where(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                found.append(threading.get_ident())
                return grad

        Where.apply(torch.ones(100_000, requires_grad=True)).sum().backward()
        assert found == [threading.get_ident()]


class TestNodes:
    def test_a_node_is_one_object(self):
        x = leaf(1.0)
        y = x * 2
        node = y.grad_fn
        assert node is y.grad_fn and node is (y + 1).grad_fn.next_functions[0][0]
        assert node.next_functions[0][0] is (x + 1).grad_fn.next_functions[0][0]

    def test_a_node_prints_its_class(self):
        node = (leaf(1.0) * 2).grad_fn.next_functions[0][0]
        assert node.name() == "torch::autograd::AccumulateGrad"
        assert repr(node).startswith("<AccumulateGrad object at 0x")

    def test_a_name_tells_the_family(self):
        x = torch.rand(3, 3, dtype=torch.float64, requires_grad=True)
        names = {
            "DiagonalBackward0": x.diagonal(),
            "LinalgQrBackward0": torch.linalg.qr(x)[0],
            "LinalgMatrixExpBackward0": torch.linalg.matrix_exp(x),
            "SpecialEntrBackward0": torch.special.entr(x),
            "SiluBackward0": torch.nn.functional.silu(x),
        }
        assert [y.grad_fn.name() for y in names.values()] == list(names)

    def test_names_that_follow_no_rule(self):
        assert torch.log1p(leaf(1.0)).grad_fn.name() == "Log1PBackward0"
        assert torch.round(leaf(1.0), decimals=1).grad_fn.name() == "RoundBackward1"
        assert torch.fft.fft(leaf(1.0).reshape(1) * 1j).grad_fn.name() == "FftC2CBackward0"
        assert torch.tensor([1j], requires_grad=True).conj().grad_fn.name() == "ConjBackward0"
