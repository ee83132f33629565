"""Functions and commands in several processes without the command line, and what agents, rendezvous and logs consist of."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import run
from rushlight.distributed.elastic import rendezvous
from rushlight.distributed.elastic.agent.server import RunResult, Worker, WorkerSpec, WorkerState
from rushlight.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from rushlight.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std, start_processes, to_map
from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, record
from rushlight.distributed.elastic.rendezvous.registry import get_rendezvous_handler
from rushlight.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint
from rushlight.distributed.launcher import LaunchConfig, elastic_launch


def _config(**options):
    given = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "max_restarts": 0, "start_method": "fork"}
    return LaunchConfig(1, 1, 2, **given | options)


def _handler(**options):
    return get_rendezvous_handler(rendezvous.RendezvousParameters("c10d", "localhost:0", "job", 1, 1, **options))


def _sum(count):
    dist.init_process_group("gloo")
    tensor = torch.full((count,), dist.get_rank() + 1.0)
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    return {"sum": tensor, "place": [os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "ROLE_NAME")]}


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_function(method):
    """Results may be longer than a pipe."""
    results = elastic_launch(_config(start_method=method), _sum)(100_000)
    assert [results[rank]["place"] for rank in (0, 1)] == [
        ["0", "0", "2", "default_role"],
        ["1", "1", "2", "default_role"],
    ]
    assert all(one["sum"].sum() == 300_000 for one in results.values())


def test_a_command():
    assert elastic_launch(_config(), "true")() == {0: None, 1: None}
    with pytest.raises(ChildFailedError, match="exit code 7") as found:
        elastic_launch(_config(), sys.executable)("-c", "import os; os._exit(7 * (os.environ['RANK'] == '1'))")
    assert found.value.get_first_failure()[0] == 1 and found.value.failures[1].exitcode == 7


def test_the_installed_command():
    [entry] = [
        one for one in entry_points(group="console_scripts") if one.name == "torchrun" and one.dist.name == "rushlight"
    ]
    assert entry.load() is run.main


def _fail():
    if os.environ["RANK"] == "0":
        time.sleep(60)
    raise ValueError("no data")


def test_the_error_of_a_function_is_told():
    with pytest.raises(ChildFailedError) as found:
        elastic_launch(_config(), _fail)()
    assert found.value.name == "_fail" and list(found.value.failures) == [1]
    lines = str(found.value).splitlines()
    assert lines[0] == "_fail FAILED" and lines[-1] == "    ValueError: no data"
    assert found.value.failures[1].message["message"] == "ValueError: no data"


def test_an_error_without_a_place_for_it(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", "/none/error.json")
    with pytest.raises(ValueError, match="no data"):
        record(_raise)()


def _raise():
    raise ValueError("no data")


def _fail_once(path):
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return os.environ["TORCHELASTIC_RESTART_COUNT"]


def test_restarts(capfd):
    assert elastic_launch(_config(max_restarts=1), _fail_once)("") == {0: "1", 1: "1"}
    assert "failed with signal SIGKILL; restart 1 of 1" in capfd.readouterr().err


def test_a_launcher_in_a_thread():
    """Python has handlers of signals in the main thread alone."""
    results = []
    thread = threading.Thread(target=lambda: results.append(elastic_launch(_config(), pow)(2, 3)))
    thread.start()
    thread.join(60)
    assert results == [{0: 8, 1: 8}]


def test_handlers_of_signals_are_given_back():
    before = signal.getsignal(signal.SIGTERM)
    elastic_launch(_config(), pow)(2, 3)
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_agent():
    agent = LocalElasticAgent(
        WorkerSpec("trainer", 2, _handler(), entrypoint=pow, args=(2, 5)), DefaultLogsSpecs(), "fork"
    )
    group = agent.get_worker_group()
    assert group.state == WorkerState.INIT and str(group.workers[1]) == str(Worker(1))
    assert agent.run() == RunResult(WorkerState.SUCCEEDED, {0: 32, 1: 32})
    assert (group.state, group.group_rank, group.group_world_size) == (WorkerState.SUCCEEDED, 0, 1)
    assert str(group.workers[1]) == "local_rank=1,global_rank=1,role_rank=1,world_size=2,role_world_size=2"
    agent = LocalElasticAgent(
        WorkerSpec("trainer", 2, _handler(), entrypoint=_fail, max_restarts=0), DefaultLogsSpecs(), "fork"
    )
    result = agent.run()
    assert result.is_failed() and list(result.failures) == [1]
    for options in ({"entrypoint": None}, {"local_world_size": 0, "entrypoint": pow}):
        with pytest.raises(AssertionError):
            WorkerSpec(**{"role": "r", "local_world_size": 1, "rdzv_handler": None} | options)
    with pytest.warns(DeprecationWarning):
        assert WorkerSpec("r", 1, None, fn=pow).get_entrypoint_name() == "pow"


class _Alone(rendezvous.RendezvousHandler):
    """A rendezvous that a program registers: this machine is alone."""

    def __init__(self, params):
        self.params, self.ended = params, False

    def get_backend(self):
        return "alone"

    def next_rendezvous(self):
        address = rendezvous.RendezvousStoreInfo.build(0, dist.HashStore(), "localhost")
        return rendezvous.RendezvousInfo(dist.HashStore(), 0, 1, address)

    def is_closed(self):
        return self.ended

    def set_closed(self):
        self.ended = True

    def num_nodes_waiting(self):
        return 0

    def get_run_id(self):
        return self.params.run_id

    def shutdown(self):
        self.ended = True
        return True


def test_a_rendezvous_of_a_program(monkeypatch):
    """Its processes serve their store themselves."""
    monkeypatch.setattr(rendezvous.rendezvous_handler_registry, "_creators", {"alone": _Alone})
    results = elastic_launch(_config(rdzv_backend="alone", rdzv_endpoint=""), _sum)(3)
    assert results[1]["sum"].tolist() == [3.0] * 3
    registry = rendezvous.rendezvous_handler_registry
    with pytest.raises(ValueError, match="cannot be registered with"):
        registry.register("alone", pow)
    with pytest.raises(ValueError, match="The rendezvous backend 'zz' is not registered.*\n  Choose alone"):
        registry.create_handler(rendezvous.RendezvousParameters("zz", "", "job", 1, 1))
    registry.register("other", _Alone)
    with pytest.raises(RuntimeError, match="does not match the requested backend 'other'"):
        registry.create_handler(rendezvous.RendezvousParameters("other", "", "job", 1, 1))


def test_a_closed_rendezvous():
    handler = _handler()
    info = handler.next_rendezvous()
    assert (info.rank, info.world_size, handler.num_nodes_waiting(), handler.is_closed()) == (0, 1, 0, False)
    assert dist.TCPStore("localhost", info.bootstrap_store_info.master_port).check(["key"]) is False
    handler.set_closed()
    with pytest.raises(rendezvous.RendezvousClosedError):
        handler.next_rendezvous()


def test_a_machine_that_was_not_needed_ends_well():
    first = get_rendezvous_handler(rendezvous.RendezvousParameters("c10d", "localhost:0", "job", 2, 2))
    port = first._address.master_port
    second, third = (
        get_rendezvous_handler(rendezvous.RendezvousParameters("c10d", f"localhost:{port}", "job", 2, 2))
        for _ in range(2)
    )
    with ThreadPoolExecutor() as pool:
        others = [pool.submit(one.next_rendezvous) for one in (first, second)]
        assert sorted(one.result(20).rank for one in others) == [0, 1]
        late = pool.submit(third.next_rendezvous)
        deadline = time.monotonic() + 20
        while not third._all.add("waiting", 0) and time.monotonic() < deadline:
            time.sleep(0.01)
        # There is no place for it, so that the others do not begin again.
        assert first.num_nodes_waiting() == 0 and not late.done()
        with pytest.raises(rendezvous.RendezvousGracefulExitError):
            first.set_closed()
            late.result(20)


def test_parameters():
    made = rendezvous.RendezvousParameters("c10d", "", "job", 1, 2, number="3", truth="yes")
    assert (
        made.get_as_int("number") == 3
        and made.get_as_bool("truth") is True
        and made.get_as_bool("none", False) is False
    )
    with pytest.raises(ValueError, match="'truth' does not represent a valid integer value."):
        made.get_as_int("truth")
    with pytest.raises(ValueError, match="'number' does not represent a valid boolean value."):
        made.get_as_bool("number")
    for arguments, sentence in (
        (("", "", "job", 1, 1), "name must be a non-empty string"),
        (("c10d", "", "job", 0, 1), r"nodes \(0\) must be greater than zero"),
        (("c10d", "", "job", 3, 2), r"nodes \(2\) must be greater than or equal to the minimum"),
    ):
        with pytest.raises(ValueError, match=sentence):
            rendezvous.RendezvousParameters(*arguments)
    texts = ("", "node0", "node0:12", "[::1]:12", ":12")
    expected = [("localhost", 7), ("node0", 7), ("node0", 12), ("::1", 12), ("localhost", 12)]
    assert [parse_rendezvous_endpoint(text, 7) for text in texts] == expected


def test_streams():
    assert Std.from_str("2") is Std.ERR and Std.from_str("0:1,12:3") == {0: Std.OUT, 12: Std.ALL}
    for text in ("", "4", "0:", "0:9", "a", "0:1, 1:1"):
        with pytest.raises(ValueError, match="does not match: <"):
            Std.from_str(text)
    # Ranks that do not exist are left out.
    assert to_map({5: Std.OUT}, 2) == {0: Std.NONE, 1: Std.NONE} and to_map(Std.OUT, 1) == {0: Std.OUT}


def test_where_output_goes(tmp_path, capfd):
    specs = DefaultLogsSpecs(str(tmp_path), redirects={0: Std.OUT}, tee=Std.ERR, local_ranks_filter={0})
    envs = {0: {"TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": "2"}, 1: {}}
    made = start_processes(
        "name", "sh", {0: ("-c", "echo out; echo err >&2"), 1: ("-c", "echo out; echo err >&2")}, envs, specs
    )
    assert not made.wait().is_failed() and set(made.pids()) == {0, 1}
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "[name0]:err\n")
    files = {
        str(path.relative_to(tmp_path)).partition("/")[2]: path.read_text() for path in tmp_path.glob("job_*/**/*.log")
    }
    assert files == {
        "attempt_2/0/stdout.log": "out\n",
        "attempt_2/0/stderr.log": "err\n",
        "attempt_2/1/stderr.log": "err\n",
    }


def _shell(lines):
    subprocess.run(["sh", "-c", lines], check=True)


@pytest.mark.parametrize("command", ["sh", _shell])
def test_lines_that_filters_choose(tmp_path, capfd, command):
    lines = "echo apple; echo pear; echo an, orange; echo apple >&2"
    args = ("-c", lines) if command == "sh" else (lines,)
    specs = DefaultLogsSpecs(str(tmp_path), tee=Std.ALL)
    made = start_processes(
        "name",
        command,
        {0: args, 1: args},
        {0: {}, 1: {}},
        specs,
        {0: "zero "},
        duplicate_stdout_filters=["apple", ", o"],
    )
    assert not made.wait().is_failed()
    assert len(capfd.readouterr().out.splitlines()) == 6
    [found] = tmp_path.glob("*/attempt_0/filtered_*.log")
    assert found.name == "filtered_stdout.log"
    assert sorted(found.read_text().splitlines()) == [
        "[name1]:an, orange",
        "[name1]:apple",
        "zero an, orange",
        "zero apple",
    ]


def test_filters_of_the_command_line(tmp_path):
    options = ["--tee", "3", "--log-dir", str(tmp_path), "--duplicate-stderr-filters", "loss,,1,error", "sh", "-c"]
    config, command, args = run.config_from_args(
        run.parse_args(["--no-python", *options, "echo 'loss,1' >&2; echo loss"])
    )
    assert config.duplicate_stderr_filters == ["loss,1", "error"] and config.duplicate_stdout_filters == []
    elastic_launch(config, command)(*args)
    assert [path.read_text() for path in tmp_path.glob("*/*/filtered_*.log")] == ["[default0]:loss,1\n"]


def test_waiting_for_processes():
    started = start_processes("name", "sleep", {0: (60,)}, {0: {}}, DefaultLogsSpecs())
    assert started.wait(0.05, period=0.01) is None
    started.close()
    assert started.wait().failures[0].signal_name() == "SIGTERM"
    for args, envs in (({0: ()}, {0: {}, 1: {}}), ({1: ()}, {1: {}})):
        with pytest.raises(RuntimeError, match="local rank mapping mismatch"):
            start_processes("name", "true", args, envs, DefaultLogsSpecs())


def test_nothing_is_written_without_logs(tmp_path, monkeypatch):
    """The files of errors have no names."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(ChildFailedError, match="no data"):
        elastic_launch(_config(), _fail)()
    assert not list(tmp_path.iterdir())


def test_failures():
    killed, failed = ProcessFailure(0, 11, -9, ""), ProcessFailure(1, 12, 3, "")
    assert killed.message == "Signal 9 (SIGKILL) received by PID 11" and failed.signal_name() == "<N/A>"
    error = ChildFailedError("train.py", {0: failed, 4: killed})
    assert error.get_first_failure() == (4, killed)
    assert str(error) == (
        "train.py FAILED\n  rank 4 failed with signal SIGKILL (process 11)\n  rank 0 failed with exit code 3 (process 12)"
    )
    with pytest.raises(AssertionError):
        ChildFailedError("train.py", {})


class _Entry:
    def __init__(self, value):
        self.load = lambda: value


def test_logs_of_a_package(monkeypatch):
    found = {"mine": _Entry(type("Mine", (DefaultLogsSpecs,), {})), "none": _Entry(int)}
    monkeypatch.setattr(run, "entry_points", lambda group, name: [found[name]] if name in found else [])

    def config(name):
        return run.config_from_args(run.parse_args(["--logs-specs", name, "train.py"]))[0]

    assert type(config("mine").logs_specs).__name__ == "Mine"
    with pytest.raises(ValueError, match="is no subclass of LogsSpecs"):
        config("none")
    with pytest.raises(ValueError, match=r"Could not find entrypoint under 'torchrun.logs_specs\[zz\]' key"):
        config("zz")


def test_a_prefix_of_lines(tmp_path, capfd):
    template = "[${role_name} ${rank}] "
    specs = DefaultLogsSpecs(str(tmp_path), tee=Std.OUT)
    elastic_launch(_config(logs_specs=specs, log_line_prefix_template=template, role="r"), "echo")("here")
    assert sorted(capfd.readouterr().out.splitlines()) == ["[r 0] here", "[r 1] here"]
