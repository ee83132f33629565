"""`torch.cuda.tunable` on the card made of software, whose stand-in for cuBLASLt has algorithms that differ in their time."""

import pytest
from soft_card import needs_soft_card, run

import rushlight as torch

#: `library()` counts the products that ran, `choices()` how often algorithms were asked for.
COUNTERS = """
import ctypes, os, warnings
from pathlib import Path
card = ctypes.CDLL("libcuda.so.1")
card.softcuda_products.restype = card.softcuda_choices.restype = ctypes.c_uint64
tunable = torch.cuda.tunable
def library():
    torch.cuda.synchronize()
    return card.softcuda_products()
def choices():
    return card.softcuda_choices()
def lines(name):
    return Path(name).read_text().splitlines()
torch.manual_seed(0)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def settings():
    """Puts the settings back."""
    yield
    tunable = torch.cuda.tunable
    tunable.enable(False)
    tunable.tuning_enable()
    tunable.record_untuned_enable(False)
    tunable.set_max_tuning_duration(30)
    tunable.set_max_tuning_iterations(100)
    tunable.set_rotating_buffer_size(-1)
    tunable.set_numerical_check_tolerances(False)
    tunable.set_filename("")


def test_settings_are_kept(settings):
    tunable = torch.cuda.tunable
    tunable.enable()
    tunable.tuning_enable(False)
    tunable.record_untuned_enable()
    tunable.set_max_tuning_duration(-3)
    tunable.set_max_tuning_iterations(7)
    tunable.set_filename("some.csv")
    switches = (tunable.is_enabled(), tunable.tuning_is_enabled(), tunable.record_untuned_is_enabled())
    assert switches == (True, False, True)
    assert (tunable.get_max_tuning_duration(), tunable.get_max_tuning_iterations()) == (0, 7)
    assert tunable.get_filename() == "some.csv"


def test_bad_values_are_refused(settings):
    tunable = torch.cuda.tunable
    with pytest.raises(RuntimeError, match="^cuda_tunableop_enable expects a bool, but got int"):
        tunable.enable(1)
    with pytest.raises(RuntimeError, match="^cuda_tunableop_set_max_tuning_duration expects an int, but got float"):
        tunable.set_max_tuning_duration(1.0)
    with pytest.raises(RuntimeError, match="^Overflow when unpacking long"):
        tunable.set_max_tuning_iterations(2**40)
    with pytest.raises(RuntimeError, match="^Numerical check tolerances must be positive"):
        tunable.set_numerical_check_tolerances(True, 0.0)
    with pytest.raises(RuntimeError, match="^cuda_tunableop_set_filename expects a string, but got int"):
        tunable.set_filename(3)
    with pytest.raises(AssertionError, match="TunableOp is not enabled"):
        tunable.tune_gemm_in_file("some.csv")
    tunable.enable()
    tunable.tuning_enable(False)
    with pytest.raises(AssertionError, match="Tuning is not enabled"):
        tunable.tune_gemm_in_file("some.csv")


def test_a_number_is_no_name_of_a_file(tmp_path):
    """It would be taken for a descriptor of an open file, which is closed after it was read."""
    for number in (True, 1):
        with pytest.raises(
            RuntimeError, match=f"^cuda_tunableop_read_file expects a string, but got {type(number).__name__}"
        ):
            torch.cuda.tunable.read_file(number)
    assert not torch.cuda.tunable.read_file(str(tmp_path / "none.csv"))


def test_a_file_is_read_where_its_validators_hold(folder):
    program = """
import rushlight as torch
from pathlib import Path
tunable = torch.cuda.tunable
own = "".join(f"Validator,{name},{value}\\n" for name, value in tunable.get_validators())
row = "GemmTunableOp_float_NT,nt_1_2_3_ld_1_2_3,Default"
def holds(text):
    Path("r.csv").write_text(text)
    return tunable.read_file("r.csv")
assert not holds("") and not holds(row) and not holds("Validator,PT_VERSION,0.0\\n" + row)
assert not holds(own + "Validator,OTHER,1\\n" + row) and tunable.get_results() == ()
assert holds("Validator,PT_VERSION,0.0\\nGemm,other,Default,1\\n" + own + row + ",1.5\\nnonsense\\n\\n")
assert tunable.get_results() == (("GemmTunableOp_float_NT", "nt_1_2_3_ld_1_2_3", "Default", 1.5),)
assert holds(own + row + ",2.5\\n" + own + "Gemm,new,Default\\n")
assert tunable.get_results()[0] == ("Gemm", "new", "Default", 0.0) and tunable.get_results()[1][3] == 1.5
"""
    # Without a card: validators are those of the package alone.
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@needs_soft_card
def test_off_costs_nothing_and_asks_once(folder):
    run(
        COUNTERS
        + """
a, b = torch.randn(8, 4, device="cuda"), torch.randn(4, 6, device="cuda")
before = choices(), library()
for _ in range(3):
    a @ b
assert (choices(), library()) == (before[0] + 1, before[1] + 3)
assert not list(Path().iterdir()) and not tunable.is_enabled()
""",
        SOFTCUDA_BLAS_ALGORITHMS="300,10",
    )


@needs_soft_card
def test_the_fastest_algorithm_is_measured_recorded_and_read_back(folder):
    variables = {"SOFTCUDA_BLAS_ALGORITHMS": "30000,20000,refused,500,15000"}
    run(
        COUNTERS
        + """
import time
tunable.enable()
tunable.set_max_tuning_iterations(4)
a, b = torch.randn(8, 4, device="cuda"), torch.randn(4, 6, device="cuda")
expected = a.cpu() @ b.cpu()
assert (a @ b).cpu().allclose(expected)
assert tunable.get_filename() == "tunableop_results0.csv"
(operator, sizes, solution, time_), = tunable.get_results()
assert (operator, sizes) == ("GemmTunableOp_float_NN", "nn_6_8_4_ld_6_4_6")
assert solution.startswith("Gemm_CublasLt_") and 0.5 < time_ < 10, (solution, time_)
# It is neither measured nor asked for again, and the fast one runs.
before = choices(), library()
began = time.monotonic()
for _ in range(20):
    c = a @ b
torch.cuda.synchronize()
assert time.monotonic() - began < 0.3
assert (choices(), library()) == (before[0], before[1] + 20) and c.cpu().allclose(expected)
rows = lines("tunableop_results0.csv")
assert rows[:3] == [f"Validator,{name},{value}" for name, value in tunable.get_validators()], rows
assert rows[3].startswith(f"{operator},{sizes},{solution},") and len(rows) == 4
assert abs(float(rows[3].split(",")[3]) - time_) < 1e-5 * time_
# Other geometries, dtypes and kinds have lines of their own.
torch.bmm(torch.randn(3, 8, 4, device="cuda").half(), torch.randn(3, 6, 4, device="cuda").half().mT)
torch.nn.functional.linear(a, b.mT.contiguous(), torch.randn(6, device="cuda"))
torch.mm(a.double(), b.double()[:, 1:5])
assert [row.split(",")[:2] for row in lines("tunableop_results0.csv")[4:]] == [
    ["GemmStridedBatchedTunableOp_Half_TN", "tn_6_8_4_B_3_ld_4_4_6"],
    ["GemmAndBiasTunableOp_float_TN", "tn_6_8_4_ld_4_4_6"],
    ["GemmTunableOp_double_NN", "nn_4_8_4_ld_6_4_4"],
]
""",
        **variables,
    )
    # The next process reads the file, and measures nothing.
    run(
        COUNTERS
        + """
import time
tunable.enable()
a, b = torch.randn(8, 4, device="cuda"), torch.randn(4, 6, device="cuda")
before = library()
began = time.monotonic()
for _ in range(20):
    c = a @ b
assert library() == before + 20 and time.monotonic() - began < 0.3 and c.cpu().allclose(a.cpu() @ b.cpu())
assert len(lines("tunableop_results0.csv")) == 7 and len(tunable.get_results()) == 4
# Where nothing is recorded, tuning that is off leaves the recommended algorithm.
tunable.tuning_enable(False)
a @ b[:, :3].contiguous()
assert library() == before + 21 and len(tunable.get_results()) == 4
""",
        **variables,
    )
    # Another version of the library measures again, and the file keeps both.
    run(
        COUNTERS
        + """
tunable.enable()
a, b = torch.randn(8, 4, device="cuda"), torch.randn(4, 6, device="cuda")
before = library()
a @ b
assert library() > before + 20 and len(tunable.get_results()) == 1
rows = lines("tunableop_results0.csv")
assert len(rows) == 7 + 4 and rows[7:10] == [f"Validator,{name},{value}" for name, value in tunable.get_validators()]
""",
        SOFTCUDA_BLAS_VERSION=130100,
        **variables,
    )
    run(COUNTERS + "assert len(tunable.get_results()) == 4", **variables)


@needs_soft_card
def test_runs_are_limited_and_slow_algorithms_given_up(folder):
    program = """
tunable.enable()
tunable.set_max_tuning_iterations({iterations})
tunable.set_max_tuning_duration({duration})
a, b = torch.randn(8, 4, device="cuda"), torch.randn(4, 6, device="cuda")
before = library()
a @ b
print(library() - before)
"""

    # One run, three and ten after two each, and the measurement; then the product. The slow one runs once and three times after two.
    def measured(algorithms, iterations, duration, **variables):
        return int(
            run(
                COUNTERS + program.format(iterations=iterations, duration=duration),
                SOFTCUDA_BLAS_ALGORITHMS=algorithms,
                PYTORCH_TUNABLEOP_FILENAME="",
                **variables,
            )
        )

    assert measured("200", 5, 0) == 1 + 5 + 12 + (2 + 5) + 1
    assert measured("200", 0, 0) == 1 + 5 + 12 + (2 + 100) + 1
    assert measured("20000", 50, 1) == 1 + 5 + 12 + (2 + 1) + 1
    assert measured("200,50000", 5, 0) == 1 + 5 + 12 + (2 + 5) + (1 + 5) + 1
    assert measured("200", 5, 0, PYTORCH_TUNABLEOP_MAX_WARMUP_ITERATIONS=4) == 1 + 5 + 12 + 4 + (2 + 5) + 1
    assert measured("200", 5, 0, PYTORCH_TUNABLEOP_MAX_TUNING_ITERATIONS=9) == 1 + 5 + 12 + (2 + 9) + 1


@needs_soft_card
def test_operands_are_not_touched_by_measurement(folder):
    """Also where the result overwrites an addend, and where copies of the operands are read in turns."""
    run(
        COUNTERS
        + """
tunable.enable()
tunable.set_max_tuning_iterations(3)
assert tunable.get_rotating_buffer_size() == torch.cuda.get_device_properties(0).L2_cache_size
for megabytes in (0, 1):
    tunable.set_rotating_buffer_size(megabytes)
    assert tunable.get_rotating_buffer_size() == megabytes << 20
    for n, dtype in enumerate((torch.float32, torch.float64, torch.float16, torch.complex64)):
        a, b, c = (torch.randn(*sizes, dtype=dtype, device="cuda") for sizes in ((5, 7 + n + 9 * megabytes), (7 + n + 9 * megabytes, 3), (5, 3)))
        host = [x.cpu() for x in (a, b, c)]
        tolerance = 2e-2 if dtype is torch.float16 else 1e-4
        expected = torch.addmm(host[2], host[0], host[1], beta=0.5)
        known = len(tunable.get_results())
        out = torch.addmm(c, a, b, beta=0.5)
        assert len(tunable.get_results()) == known + 1
        assert out.cpu().allclose(expected, atol=tolerance) and [x.cpu().equal(y) for x, y in zip((a, b, c), host)] == [True] * 3
        # Another geometry, in place: a run that is repeated would add again.
        a, own = torch.cat([a, a[:1]]), torch.cat([c, c[:1]])
        expected = torch.addmm(own.cpu(), a.cpu(), b.cpu(), beta=0.5)
        own.addmm_(a, b, beta=0.5)
        assert len(tunable.get_results()) == known + 2 and own.cpu().allclose(expected, atol=tolerance)
assert torch.cuda.memory_allocated() < 1 << 20
""",
        SOFTCUDA_BLAS_ALGORITHMS="20,0",
    )


@needs_soft_card
def test_a_wrong_algorithm_is_not_chosen_if_results_are_compared(folder):
    program = """
tunable.enable()
tunable.set_max_tuning_iterations(3)
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.complex128):
    a, b = torch.randn(8, 4, device="cuda").to(dtype), torch.randn(4, 6, device="cuda").to(dtype)
    near = (a @ b).cpu().allclose(a.cpu() @ b.cpu(), atol=0.1, rtol=0.1)
    assert near is {near}, dtype
"""
    variables = {"SOFTCUDA_BLAS_ALGORITHMS": "10000,wrong", "PYTORCH_TUNABLEOP_FILENAME": ""}
    run(COUNTERS + program.format(near=False), **variables)
    run(COUNTERS + program.format(near=True), PYTORCH_TUNABLEOP_NUMERICAL_CHECK="1e-2_1e-2", **variables)
    run(COUNTERS + "tunable.set_numerical_check_tolerances(True)" + program.format(near=True), **variables)
    run(
        COUNTERS
        + """
tunable.enable()
try:
    torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")
except RuntimeError as error:
    assert str(error).startswith("Invalid PYTORCH_TUNABLEOP_NUMERICAL_CHECK format. Expected 'atol_rtol', got: 1e-5"), error
else:
    raise AssertionError
""",
        PYTORCH_TUNABLEOP_NUMERICAL_CHECK="1e-5",
        **variables,
    )


@needs_soft_card
def test_nothing_is_measured_during_a_capture(folder):
    run(
        COUNTERS
        + """
tunable.enable()
tunable.set_max_tuning_iterations(3)
a, b = torch.randn(8, 4, device="cuda"), torch.randn(4, 6, device="cuda")
graph = torch.cuda.CUDAGraph()
before = library()
with torch.cuda.graph(graph):
    c = a @ b
assert tunable.get_results() == () and library() == before
graph.replay()
assert library() == before + 1 and c.cpu().allclose(a.cpu() @ b.cpu())
a @ b
assert len(tunable.get_results()) == 1 and library() > before + 20
# What is known is used in a capture.
before = library()
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    a @ b
assert library() == before
""",
        SOFTCUDA_BLAS_ALGORITHMS="200,10",
    )


@needs_soft_card
def test_products_are_written_down_and_measured_later(folder):
    products = """
a, b = torch.randn(8, 4, device="cuda"), torch.randn(4, 6, device="cuda")
def products():
    a @ b
    b.mT @ a.mT
    a.to(torch.bfloat16) @ b.to(torch.bfloat16)
    torch.mm(torch.randn(8, 9, device="cuda")[:, 2:6], b)
    torch.bmm(torch.randn(3, 8, 4, device="cuda"), torch.randn(3, 6, 4, device="cuda").mT)
    torch.nn.functional.linear(a, b.mT.contiguous(), torch.randn(6, device="cuda"))
"""
    run(
        COUNTERS
        + products
        + """
assert tunable.is_enabled() and not tunable.tuning_is_enabled() and tunable.record_untuned_is_enabled()
before = library()
products(); products()
assert library() == before + 12
rows = lines("tunableop_untuned0.csv")
assert len(rows) == 6 and rows[0] == "GemmTunableOp_float_NN,nn_6_8_4_ld_6_4_6", rows
assert not Path("tunableop_results0.csv").exists()
""",
        PYTORCH_TUNABLEOP_ENABLED=1,
        PYTORCH_TUNABLEOP_TUNING=0,
        PYTORCH_TUNABLEOP_RECORD_UNTUNED=1,
    )
    run(
        COUNTERS
        + products
        + """
tunable.set_max_tuning_iterations(3)
tunable.tune_gemm_in_file("tunableop_untuned0.csv")
assert {row[:2] for row in tunable.get_results()} == {tuple(row.split(",")) for row in lines("tunableop_untuned0.csv")}
before = library()
products()
assert library() == before + 6
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    Path("odd.csv").write_text("ScaledGemmTunableOp_a,nn_1\\n")
    tunable.tune_gemm_in_file("odd.csv")
assert "unknown op ScaledGemmTunableOp" in str(told[0].message)
""",
        PYTORCH_TUNABLEOP_ENABLED=1,
    )


@needs_soft_card
def test_several_gpus_measure_and_their_results_are_joined(folder):
    from soft_card import environment, run_file_in

    run_file_in(
        environment(SOFTCUDA_DEVICES=2, PYTORCH_TUNABLEOP_ENABLED=1, PYTORCH_TUNABLEOP_MAX_TUNING_ITERATIONS=3),
        folder / "program.py",
        """
from pathlib import Path
import rushlight as torch
if __name__ == "__main__":
    rows = [f"GemmTunableOp_float_NN,nn_6_8_{n}_ld_6_{n}_6" for n in range(4, 8)]
    Path("untuned0.csv").write_text("\\n".join(rows[:3]) + "\\n")
    Path("untuned1.csv").write_text("\\n".join(rows[2:]) + "\\n")
    try:
        torch.cuda.tunable.mgpu_tune_gemm_in_file("untuned?.csv", 3)
    except AssertionError as error:
        assert str(error) == "num_gpus must be between 1 and 2, got 3"
    torch.cuda.tunable.mgpu_tune_gemm_in_file("untuned?.csv", 2)
    full = Path("tunableop_results_full0.csv").read_text()
    assert full == Path("tunableop_results_full1.csv").read_text()
    assert sorted(row.rsplit(",", 2)[0] for row in full.splitlines() if row.startswith("Gemm")) == rows
    assert full.count("Validator") == 3 and torch.cuda.tunable.read_file("tunableop_results_full1.csv")
""",
    )


@needs_soft_card
def test_a_file_that_cannot_be_written_is_told(folder):
    run(
        COUNTERS
        + """
tunable.enable()
tunable.set_max_tuning_iterations(1)
tunable.set_filename("none/here.csv")
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")
assert "failed to open 'none/here.csv'" in str(told[0].message) and len(tunable.get_results()) == 1
tunable.set_filename("log%d.csv", True)
assert tunable.get_filename() == "log0.csv"
torch.ones(3, 2, device="cuda") @ torch.ones(2, 2, device="cuda")
assert len(lines("log0.csv")) == 4
assert "finding fastest for GemmTunableOp_float_NN(nn_2_3_2_ld_2_2_2)" in Path("told.txt").read_text()
""",
        PYTORCH_TUNABLEOP_VERBOSE=3,
        PYTORCH_TUNABLEOP_VERBOSE_FILENAME="told.txt",
    )


@needs_soft_card
def test_a_pipe_is_no_file_of_results(folder):
    """Opening one may never end."""
    run(
        COUNTERS
        + """
os.mkfifo("pipe.csv")
tunable.set_filename("pipe.csv")
assert tunable.get_results() == () and tunable.read_file("pipe.csv") is False
tunable.enable()
x = torch.ones(4, 4, device="cuda")
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    assert (x @ x).sum().item() == 64
assert tunable.get_results()
"""
    )
