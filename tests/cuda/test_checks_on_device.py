"""What torch checks on any device is checked on a GPU too, with the sentences of the host."""

from card import needs_card, run

pytestmark = needs_card


def test_values_are_checked_as_on_the_host():
    run(
        """
        from rushlight.nn import functional as F

        def weights(values):
            return torch.tensor(values)

        calls = {
            "inv": lambda d: torch.linalg.inv(torch.zeros(2, 2, device=d)),
            "solve": lambda d: torch.linalg.solve(torch.zeros(2, 2, device=d), torch.ones(2, device=d)),
            "cholesky": lambda d: torch.linalg.cholesky(-torch.eye(3, device=d)),
            "gaussian": lambda d: F.gaussian_nll_loss(*(torch.ones(3, device=d) for _ in range(2)), -torch.ones(3, device=d)),
            "margin": lambda d: F.multi_margin_loss(torch.ones(2, 3, device=d), torch.tensor([0, 5], device=d)),
            "multilabel": lambda d: F.multilabel_margin_loss(torch.ones(3, device=d), torch.tensor([0, 5, -1], device=d)),
            "normal": lambda d: torch.normal(torch.zeros(2, device=d), torch.tensor([1.0, -1.0], device=d)),
            "runs of slices": lambda d: torch.unique_consecutive(torch.zeros(3, 0, device=d), dim=0),
            "runs of nothing": lambda d: torch.unique_consecutive(torch.zeros((), device=d), dim=0),
            "slices": lambda d: torch.unique(torch.zeros((), device=d), dim=0),
            "cov": lambda d: torch.cov(torch.ones(2, 2, device=d), aweights=torch.tensor([1.0, -1.0], device=d)),
        }
        for name, call in calls.items():
            told = []
            for device in ("cpu", "cuda"):
                try:
                    call(device)
                except Exception as error:
                    told.append((type(error), str(error).splitlines()[0]))
            assert len(told) == 2 and told[0] == told[1], (name, told)

        # A matrix on a GPU has one driver.
        a, b = torch.randn(4, 2), torch.randn(4, 1)
        for one, other in zip(torch.linalg.lstsq(a.cuda(), b.cuda()), torch.linalg.lstsq(a, b, driver="gels")):
            torch.testing.assert_close(one.cpu(), other)
        try:
            torch.linalg.lstsq(a.cuda(), b.cuda(), driver="gelsd")
        except RuntimeError as error:
            assert str(error).startswith("torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA"), error
        else:
            raise AssertionError("accepted")
        """
    )


def test_lists_that_the_host_makes_are_taken_to_the_device():
    run(
        """
        from rushlight.nn import functional as F

        def both(call):
            results = []
            for device in ("cpu", "cuda"):
                torch.manual_seed(0)
                results.append([one.detach().cpu() for one in call(device)])
            for one, other in zip(*results, strict=True):
                # A chain of products, each rounded in the order of its device.
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)

        def exponential(device):
            a = (torch.randn(3, 3) * 2).to(device).requires_grad_()
            y = torch.linalg.matrix_exp(a)
            y.square().sum().backward()
            return y, a.grad

        def table(device, **options):
            w = torch.randn(5, 3).to(device).requires_grad_()
            y = F.embedding(torch.tensor([[1, 2, 2], [0, 1, 4]], device=device), w, **options)
            y.square().sum().backward()
            return y, w.grad.to_dense() if w.grad.is_sparse else w.grad

        def ctc(device):
            logs = torch.randn(6, 2, 4).log_softmax(2).to(device).requires_grad_()
            loss = F.ctc_loss(logs, torch.tensor([[1, 2], [3, 3]], device=device), torch.tensor([6, 5]), torch.tensor([2, 1]))
            loss.backward()
            return loss, logs.grad

        def labels(device):
            x = torch.randn(2, 3).to(device).requires_grad_()
            loss = F.multilabel_margin_loss(x, torch.tensor([[1, -1, 0], [0, 2, -1]], device=device))
            loss.backward()
            return loss, x.grad

        def fills(device):
            x, value = torch.randn(3, 4).to(device).requires_grad_(), torch.tensor(2.0, device=device, requires_grad=True)
            y = x.index_fill(0, torch.tensor([2, 0, 2], device=device), value)
            (y * torch.arange(12.0).reshape(3, 4).to(device)).sum().backward()
            return y, x.grad, value.grad

        both(exponential)
        both(table)
        both(lambda device: table(device, padding_idx=1))
        both(lambda device: table(device, scale_grad_by_freq=True))
        both(ctc)
        both(labels)
        both(fills)
        """
    )


def test_complex_numbers_in_half_precision_are_converted():
    run(
        """
        x = torch.tensor([1 + 2j, -70000 + 1e-7j, float("nan")], dtype=torch.complex64)
        half = x.cuda().to(torch.complex32)
        assert str(half.cpu()) == str(x.to(torch.complex32))
        for dtype in (torch.complex64, torch.complex128, torch.float32, torch.float16):
            assert torch.equal(half.to(dtype)[:1].cpu(), x.to(torch.complex32).to(dtype)[:1])
        parts = torch.tensor([1.5, -2.0], dtype=torch.float16)
        assert str(torch.complex(parts.cuda(), parts.cuda()).cpu()) == str(torch.complex(parts, parts))
        """
    )
