"""The examples in the docstrings of `torch.cuda` that need a GPU, on the card made of software."""

from soft_card import needs_soft_card, run

pytestmark = needs_soft_card


def test_examples_of_docstrings_run_on_a_card():
    run(
        """
        import doctest, importlib, pkgutil
        names = [one.name for one in pkgutil.iter_modules(torch.cuda.__path__, "rushlight.cuda.")]
        ran = 0
        for name in ["rushlight.cuda", "rushlight.backends.cuda", *names]:
            module = importlib.import_module(name)
            for test in doctest.DocTestFinder().find(module, globs={**vars(module), "torch": torch}):
                if any("is_available" in example.source for example in test.examples):
                    outcome = doctest.DocTestRunner().run(test)
                    assert outcome.failed == 0, test.name
                    ran += 1
        assert ran >= 20, ran
        """
    )
