"""Tables of measurements are torch's, character by character, and so is the text of a measurement."""

import pytest

from rushlight.utils import benchmark
from rushlight.utils.benchmark import Compare, Measurement, TaskSpec, Timer


def measured(times, **options):
    task = TaskSpec(stmt=options.pop("stmt", "x"), setup="", **options)
    return Measurement(10, [10 * time for time in times], task)


def several():
    return [
        measured([1e-6, 1.1e-6, 0.9e-6] * 3, label="add", sub_label="small", description="a"),
        measured([2e-6] * 5, label="add", sub_label="small", description="b"),
        measured([3e-3] * 5, label="add", sub_label="large", description="a"),
        measured([3.3e-3] * 5, label="add", sub_label="large", description="b", num_threads=4),
        measured([5e-6, 9e-6, 1e-5, 2e-5], label="mul", sub_label="s", description="a"),
    ]


def lines(compare):
    return [line.rstrip() for line in str(compare).split("\n")]


def test_tables():
    assert lines(Compare(several())) == [
        "[------------- add -------------]",
        "             |    a     |    b",
        "1 threads: ----------------------",
        "      small  |     1.0  |     2.0",
        "      large  |  3000.0  |",
        "4 threads: ----------------------",
        "      large  |          |  3300.0",
        "",
        "Times are in microseconds (us).",
        "",
        "[---- mul ----]",
        "         |   a",
        "1 threads: ----",
        "      s  |  9.5",
        "",
        "Times are in microseconds (us).",
        "",
    ]


def test_trimmed_and_highlighted():
    compare = Compare(several())
    compare.trim_significant_figures()
    compare.highlight_warnings()
    assert lines(compare)[:10] == [
        "[--------------- add ---------------]",
        "             |       a        |   b",
        "1 threads: --------------------------",
        "      small  |     1 (! 20%)  |     2",
        "      large  |  3000          |",
        "4 threads: --------------------------",
        "      large  |                |  3300",
        "",
        "Times are in microseconds (us).",
        "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.",
    ]


def test_colours():
    compare = Compare(
        [measured([time] * 4, label="q", description=str(time)) for time in (1e-3, 1.05e-3, 1.5e-3, 3e-3, 9e-3)]
    )
    compare.colorize(rowwise=True)
    best, good, bad, very_bad = "\033[92m\033[1m", "\033[34m\033[1m", "\033[2m\033[91m", "\033[31m\033[1m"
    end = "\033[0m\033[0m"
    cells = lines(compare)[3].split("  |")[1:]
    shown = [(best, "1.0"), (good, "1.1"), ("", "1.5"), (bad, "3.0"), (very_bad, "9.0")]
    for cell, (code, number) in zip(cells, shown):
        assert (cell.strip().startswith(code) and number in cell) or (number == "1.1" and "1.0" in cell)
        assert cell.endswith(end) == bool(code)
    compare.colorize()
    assert lines(compare)[3].count(best) == 5


def test_environments_and_names_of_rows():
    compare = Compare(
        [
            measured([1e-6] * 5, label="add", sub_label="s", description="a", env="old"),
            measured([2e-6] * 5, label="add", sub_label="s", description="a", env="new env"),
            measured([2e-6] * 5, label="add", sub_label="t", description="b", env="new env"),
        ]
    )
    assert lines(compare)[2:6] == [
        "1 threads: -------------------",
        "  (new env)  s  |  2.0  |",
        "             t  |       |  2.0",
        "  (old)      s  |  1.0  |",
    ]
    compare = Compare(
        [measured([0.5] * 5, description="x"), measured([20.0] * 5, description="long one", sub_label="z")]
    )
    assert lines(compare)[1:5] == [
        "         |    x    |  long one",
        "1 threads: -------------------",
        "      x  |  500.0  |",
        "      z  |         |  20000.0",
    ]
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`, got <class 'int'> instead."):
        compare.extend_results([3])


@pytest.mark.parametrize(
    "times, figures, doubtful",
    [([1.0, 2.0, 9.0], 1, True), ([1.0, 1.1, 1.2, 1.3], 1, True), ([1e-9] * 4, 1, False), ([5.0], 4, False)],
)
def test_figures(times, figures, doubtful):
    assert (measured(times).significant_figures, measured(times).has_warnings) == (figures, doubtful)


def test_text_of_a_measurement():
    assert repr(several()[0]).split("\n")[1:] == [
        "add: small",
        "a",
        "  Median: 1.00 us",
        "  IQR:    0.20 us (0.90 to 1.10)",
        "  9 measurements, 10 runs per measurement, 1 thread",
        "  WARNING: Interquartile range is 20.0% of the median measurement.",
        "           This could indicate system fluctuation.",
    ]
    assert "  1.00 us\n  1 measurement, 10 runs , 1 thread" in repr(measured([1e-6]))


def test_units_and_numbers():
    assert [benchmark.select_unit(time)[0] for time in (3e-10, 5e-7, 1e-6, 2e-3, 1, 100)] == [
        "ns",
        "ns",
        "us",
        "ms",
        "s",
        "s",
    ]
    assert [benchmark.trim_sigfig(number, 3) for number in (1234.5, 0.001234, 99.96, 0)] == [1230.0, 0.00123, 100.0, 0]
    assert benchmark.ordered_unique([3, 1, 3, 2]) == [3, 1, 2]


def test_what_timers_refuse():
    for call in (Timer("1").repeat, Timer("1").autorange):
        with pytest.raises(NotImplementedError, match="See `Timer.blocked_autorange.`"):
            call()
    with pytest.raises(ValueError, match="Invalid language `foo`."):
        Timer("1", language="foo")
    with pytest.raises(ValueError, match="Only Python statements are supported"):
        Timer("1", language=benchmark.Language.CPP)
