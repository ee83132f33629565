"""The graph: what is recorded, walked, hooked and freed."""

import gc
import threading
import time
import weakref

import pytest

import rushlight as torch


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


class TestBackward:
    def test_gradients_add_up(self):
        x = leaf(1.0, 2.0)
        (x * x).sum().backward()
        (x * x).sum().backward()
        assert x.grad.tolist() == [4, 8]

    def test_only_numbers_need_no_gradient(self):
        with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
            (leaf(1.0, 2.0) * 2).backward()

    def test_a_second_time(self):
        x = leaf(1.0)
        y = x.exp().sum()
        y.backward()
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            y.backward()

    def test_retain_graph(self):
        x = leaf(2.0)
        y = (x * x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad.tolist() == [24]

    def test_create_graph(self):
        x = leaf(2.0)
        y = (x * x * x).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        (third,) = torch.autograd.grad(second.sum(), x)
        assert [g.tolist() for g in (first, second, third)] == [[12], [12], [6]]

    def test_leaves_do_not_change_in_place(self):
        x = leaf(1.0)
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
            x.add_(1)
        with torch.no_grad():
            x.add_(1)
        assert x.tolist() == [2]

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
        with pytest.raises(RuntimeError, match="only Tensors of floating point and complex dtype can require gradients"):
            torch.tensor([1], requires_grad=True)

    def test_unused_inputs(self):
        x, y = leaf(1.0), leaf(1.0)
        with pytest.raises(RuntimeError, match="One of the differentiated Tensors appears to not have been used"):
            torch.autograd.grad((x * 2).sum(), [x, y])
        assert torch.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)[1] is None


class TestModes:
    def test_no_grad(self):
        x = leaf(1.0)
        with torch.no_grad():
            assert not (x * 2).requires_grad
            with torch.enable_grad():
                assert (x * 2).requires_grad
        assert (x * 2).requires_grad

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
    def test_tensor_hooks_see_and_replace(self):
        x = leaf(1.0, 2.0)
        seen = []
        handle = x.register_hook(lambda grad: seen.append(grad.tolist()))
        x.register_hook(lambda grad: grad * 10)
        (x * 3).sum().backward()
        assert seen == [[3, 3]] and x.grad.tolist() == [30, 30]
        handle.remove()
        x.grad = None
        (x * 3).sum().backward()
        assert len(seen) == 1 and x.grad.tolist() == [30, 30]

    def test_after_accumulation(self):
        x = leaf(1.0)
        seen = []
        x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
        (x * 3).sum().backward()
        assert seen == [(True, [3])]

    def test_an_exception_in_a_hook_arrives(self):
        x = leaf(1.0)

        def fail(grad):
            raise KeyError("mine")

        x.register_hook(fail)
        with pytest.raises(KeyError, match="mine"):
            (x * 3).sum().backward()

    def test_node_hooks(self):
        x = leaf(1.0)
        y = (x * 3).sum()
        seen = []
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append("after"))
        y.grad_fn.register_prehook(lambda outputs: seen.append("before"))
        y.backward()
        assert seen == ["before", "after"]

    def test_retain_grad(self):
        x = leaf(1.0, 2.0)
        y = x * 3
        y.retain_grad()
        (y * y).sum().backward()
        assert y.grad.tolist() == [6, 12] and y.retains_grad
        assert (x * 1).retains_grad is False


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


class TestFunctions:
    def test_forward_and_backward(self):
        x = leaf(2.0)
        y = Cube.apply(x)
        assert y.tolist() == [8] and y.grad_fn.name() == "CubeBackward"
        y.sum().backward()
        assert x.grad.tolist() == [12]

    def test_second_derivatives(self):
        x = leaf(2.0)
        (first,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        assert second.tolist() == [12]

    def test_exceptions_pass_unchanged(self):
        class Fails(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            Fails.apply(leaf(1.0)).sum().backward()

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

    def test_a_saved_tensor_that_changed(self):
        x = leaf(2.0)
        y = x * 1
        z = Cube.apply(y)
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()


class TestDepth:
    def test_a_chain_of_100_000(self):
        """No recursion, in the walk or in freeing the graph, and no growth faster than the chain."""
        x = leaf(1.0)

        def chain(length):
            y = x
            for _ in range(length):
                y = y * 1.0
            return y

        took = []
        for length in (10_000, 100_000):
            y = chain(length)
            began = time.perf_counter()
            y.backward()
            took.append(time.perf_counter() - began)
        assert x.grad.tolist() == [2]
        assert took[1] < 60 * took[0] + 1

    def test_a_deep_graph_is_freed_unwalked(self):
        y = leaf(1.0)
        gone = weakref.ref(y)
        for _ in range(100_000):
            y = y * 1.0
        del y
        gc.collect()
        assert gone() is None

    def test_wide_and_shared(self):
        """Every node is walked once, however many ways lead to it."""
        x = leaf(1.0)
        y = x
        for _ in range(60):
            y = y + y
        y.backward()
        assert x.grad.tolist() == [2.0**60]


class TestThreads:
    def test_backward_from_several_threads(self):
        x = torch.ones(1000, requires_grad=True)
        y = [(x * n).sum() for n in range(8)]
        workers = [threading.Thread(target=part.backward) for part in y]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert x.grad.tolist() == [28] * 1000

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
