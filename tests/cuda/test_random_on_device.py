"""Random numbers on the card made of software that torch's generator orders: permutations, samples, and draws of graphs."""

import pytest
from card import needs_card, run

pytestmark = needs_card


@pytest.mark.parametrize("seed", [0, 3])
def test_each_run_of_a_graph_draws_what_the_same_calls_would(seed):
    run(
        """
        x = torch.empty(1000, device="cuda")
        chances = torch.full((300,), 0.5, device="cuda")

        def draw():
            return [
                torch.rand(5, 7, device="cuda"),
                x.normal_().clone(),
                torch.bernoulli(chances),
                torch.nn.functional.dropout(torch.ones(1000, device="cuda"), 0.5),
                torch.randint(9, (100,), device="cuda"),
            ]

        torch.manual_seed(5)
        draw()
        plain = [[one.cpu() for one in draw()] for _ in range(3)]
        after = torch.rand(4, device="cuda").cpu()

        torch.manual_seed(5)
        draw()
        graph = torch.cuda.CUDAGraph()
        before = torch.cuda.get_rng_state()
        with torch.cuda.graph(graph):
            recorded = draw()
        assert torch.equal(torch.cuda.get_rng_state(), before)
        for wanted in plain:
            graph.replay()
            for got, one in zip(recorded, wanted):
                assert torch.equal(got.cpu(), one)
        assert torch.equal(torch.rand(4, device="cuda").cpu(), after)

        # A run follows the seed that is set before it.
        torch.manual_seed(5)
        draw()
        graph.replay()
        assert torch.equal(recorded[0].cpu(), plain[0][0])
        """,
        SOFTCUDA_SEED=seed,
    )


def test_a_graph_draws_of_generators_that_are_registered():
    run(
        """
        own = torch.Generator("cuda").manual_seed(7)
        wanted = [torch.rand(3, device="cuda", generator=torch.Generator("cuda").manual_seed(7)).cpu()]
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(own)
        with torch.cuda.graph(graph):
            drawn = torch.rand(3, device="cuda", generator=own)
        graph.replay()
        assert torch.equal(drawn.cpu(), wanted[0]) and own.get_offset() == 4
        graph.replay()
        assert not torch.equal(drawn.cpu(), wanted[0]) and own.get_offset() == 8

        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                torch.rand(3, device="cuda", generator=own)
        except RuntimeError as error:
            assert str(error).startswith("RNG op during graph capture but generator is not registered with the capturing graph. Call"), error
        else:
            raise AssertionError("a generator that is not registered was drawn of")

        torch.manual_seed(3)
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.manual_seed(3)
            try:
                torch.manual_seed(4)
            except RuntimeError as error:
                assert "only if new seed is the same as the original seed" in str(error), error
            else:
                raise AssertionError("the seed was set during a capture")
        assert torch.rand(2, device="cuda").isfinite().all()
        """
    )


def test_permutations_are_drawn_on_the_device():
    run(
        """
        torch.manual_seed(0)
        for count in (0, 1, 2, 3, 10, 300, 5000):
            drawn = torch.randperm(count, device="cuda")
            assert drawn.dtype == torch.int64 and drawn.device.type == "cuda"
            assert torch.equal(drawn.cpu().sort().values, torch.arange(count)), drawn
        torch.manual_seed(1)
        first = torch.randperm(100, device="cuda")
        second = torch.randperm(100, device="cuda")
        assert not torch.equal(first, second)
        torch.manual_seed(1)
        assert torch.equal(torch.randperm(100, device="cuda"), first)
        assert torch.randperm(9, device="cuda", dtype=torch.int32).dtype == torch.int32
        own = torch.Generator("cuda").manual_seed(1)
        assert torch.equal(torch.randperm(100, device="cuda", generator=own), first)
        # Every order of three occurs about equally often, although their keys are often equal.
        orders = torch.stack([torch.randperm(3, device="cuda") for _ in range(300)]).cpu()
        counts = torch.unique(orders, dim=0, return_counts=True)[1]
        assert len(counts) == 6 and counts.min() > 25, counts
        """
    )


def test_equal_keys_are_shuffled():
    run(
        """
        # Few bits for a permutation of two: about one in four draws has equal keys.
        torch.manual_seed(0)
        firsts = torch.stack([torch.randperm(2, device="cuda")[0] for _ in range(400)]).cpu()
        assert 150 < firsts.sum() < 250, firsts.sum()
        """
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_samples_are_drawn_on_the_device(dtype):
    run(
        f"""
        torch.manual_seed(0)
        weights = torch.tensor([[0.0, 3.0, 1.0, 0.0], [2.0, 0.0, 0.0, 2.0]], device="cuda", dtype=torch.{dtype})
        many = torch.multinomial(weights, 4000, replacement=True)
        assert many.shape == (2, 4000) and many.dtype == torch.int64 and many.device.type == "cuda"
        shares = torch.stack([torch.bincount(row, minlength=4) for row in many.cpu()]) / 4000
        torch.testing.assert_close(shares, torch.tensor([[0, .75, .25, 0], [.5, 0, 0, .5]]), atol=0.03, rtol=0)
        for _ in range(20):
            pair = torch.multinomial(weights, 2).cpu().sort(1).values
            assert pair.tolist() == [[1, 2], [0, 3]]
        one = torch.stack([torch.multinomial(weights[0], 1) for _ in range(400)]).cpu()
        assert set(one.flatten().tolist()) == {{1, 2}} and abs((one == 1).float().mean() - 0.75) < 0.08
        torch.manual_seed(2)
        first = torch.multinomial(weights, 5, replacement=True)
        torch.manual_seed(2)
        assert torch.equal(torch.multinomial(weights, 5, replacement=True), first)
        """
    )


def test_invalid_weights_are_refused_with_the_hosts_sentences():
    run(
        """
        for weights, count, replacement in (
            ([-1.0, 1.0], 1, False), ([1.0, float("nan")], 2, False), ([0.0, 0.0], 1, False), ([0.0, 0.0], 2, True),
            ([1.0, -1.0], 2, True), ([float("inf"), 1.0], 2, True), ([1.0], 2, False),
        ):
            weights = torch.tensor(weights)
            sentences = []
            for device in ("cpu", "cuda"):
                try:
                    torch.multinomial(weights.to(device), count, replacement)
                except RuntimeError as error:
                    sentences.append(str(error).splitlines()[0])
            assert len(sentences) == 2 and sentences[0] == sentences[1], sentences
        """
    )
