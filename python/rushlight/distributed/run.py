"""``python -m rushlight.distributed.run`` (as ``torchrun``) starts the processes of a distributed program.

    python -m rushlight.distributed.run --nproc-per-node 4 train.py --epochs 3

On several machines, run the same command on each of them, with the address of one:

    python -m rushlight.distributed.run --nnodes 2 --rdzv-endpoint node0:29400 --nproc-per-node 4 train.py

Every process gets its place in the environment: RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, from
which `init_process_group` begins the default group. If one of them fails, the others are ended; with ``--max-restarts``
all of them begin again.
"""

import argparse
import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid
from datetime import timedelta
from typing import Any, NamedTuple

from rushlight import cuda
from rushlight.distributed import _nodes
from rushlight.distributed._launch_events import Events
from rushlight.distributed.store import DistError

_PR_SET_PDEATHSIG = 1


def _flag(parser, name, *short, **options):
    """Adds an option under its name with hyphens and with underscores. PET_NNODES in the environment stands for ``--nnodes``."""
    given = os.environ.get(f"PET_{name[2:].replace('-', '_').upper()}")
    if given is not None:
        options["default"] = given != "0" if options.get("action") == "store_true" else given
    parser.add_argument(*short, *dict.fromkeys((name, "--" + name[2:].replace("-", "_"))), **options)


def get_args_parser():
    """The parser of the command line, with torchrun's options."""
    parser = argparse.ArgumentParser(
        prog="torchrun",
        description="Starts the processes of a distributed program on this machine, and those of other machines with it.",
    )
    _flag(parser, "--nnodes", default="1:1", help="the number of machines, or the least and the largest: 1:4")
    _flag(parser, "--nproc-per-node", default="1", help="how many processes, or cpu, gpu, auto")
    _flag(
        parser, "--rdzv-backend", default="static", help="static or c10d; with a --node-rank machines have that number"
    )
    _flag(parser, "--rdzv-endpoint", default="", help="HOST:PORT of the store, on one of the machines")
    _flag(parser, "--rdzv-id", default="none", help="a name of the job")
    _flag(
        parser,
        "--rdzv-conf",
        default="",
        help="seconds: join_timeout=600 for machines to come, last_call_timeout=30 for more of them than the least, "
        "keep_alive_interval=5 times keep_alive_max_attempt=3 for one that does not answer",
    )
    _flag(parser, "--standalone", action="store_true", help="any free port")
    _flag(parser, "--max-restarts", type=int, default=0, help="how often all processes begin again after a failure")
    _flag(parser, "--monitor-interval", type=float, default=0.1, help="seconds between looks at the processes")
    _flag(parser, "--start-method", default="spawn", choices=["spawn", "fork", "forkserver"], help="accepted")
    _flag(parser, "--role", default="default", help="a name for the processes")
    _flag(parser, "--module", "-m", action="store_true", help="the program is a module")
    _flag(parser, "--no-python", action="store_true", help="the program is no Python file")
    _flag(parser, "--run-path", action="store_true", help="accepted; the program is run as a script")
    _flag(parser, "--log-dir", default=None, help="where output is written, in a new folder of this command")
    _flag(parser, "--redirects", "-r", default="0", help="what goes to files: 0 none, 1 stdout, 2 stderr, 3 both")
    _flag(parser, "--tee", "-t", default="0", help="what goes to files and to the terminal, likewise")
    _flag(parser, "--local-ranks-filter", default="", help="only these ranks write to the terminal: 0,1")
    _flag(
        parser, "--node-rank", type=int, default=None, help="the number of this machine, by default in order of coming"
    )
    _flag(parser, "--master-addr", default="127.0.0.1", help="the address of the store")
    _flag(parser, "--master-port", type=int, default=None, help="the port of the store, by default a free one")
    _flag(parser, "--local-addr", default=None, help="accepted")
    _flag(parser, "--event-log-handler", default="null", help="console: write what happens to processes to stderr")
    _flag(
        parser,
        "--signals-to-handle",
        default="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        help="the signals that end the processes and this command",
    )
    _flag(
        parser, "--shutdown-timeout", type=int, default=None, help="seconds before processes are killed, by default 30"
    )
    _flag(
        parser,
        "--virtual-local-rank",
        action="store_true",
        help="every process sees its own GPU alone, and has the LOCAL_RANK 0",
    )
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def parse_args(args):
    """Reads a command line."""
    return get_args_parser().parse_args(args)


def _processes(text: str) -> int:
    if text == "gpu" and not cuda.is_available():
        raise ValueError("Cuda is not available.")
    if text == "gpu" or (text == "auto" and cuda.is_available()):
        return cuda.device_count()
    if text in ("cpu", "auto"):
        return len(os.sched_getaffinity(0))
    try:
        count = int(text)
    except ValueError:
        raise ValueError(f"Unsupported nproc_per_node value: {text}") from None
    if count < 1:
        raise ValueError(f"nproc_per_node is {count}, and must be at least 1")
    return count


def _endpoint(text: str) -> tuple[str, int]:
    """The host and the port of ``node0:29400``, or of an address such as ``[::1]:29400``."""
    found = re.fullmatch(r"(.*?)(?::([^:\]]*))?", text)
    host, port = found.groups() if found is not None else (text, "")
    port = port or "29400"
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError(
            f"The port number of the rendezvous endpoint '{text}' must be an integer between 0 and 65536.\n"
            "  Write HOST:PORT, or [ADDRESS]:PORT for an address with colons."
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _patience(text: str) -> _nodes.Patience:
    """How long to wait, from ``a=1,join_timeout=600``."""
    options = dict(pair.partition("=")[::2] for pair in text.split(",") if pair)

    def seconds(name, default):
        try:
            return float(options.get(name, default))
        except ValueError:
            raise ValueError(f"--rdzv-conf {text}: {name} is a number of seconds") from None

    beat, beats = seconds("keep_alive_interval", 5), seconds("keep_alive_max_attempt", 3)
    return _nodes.Patience(seconds("join_timeout", 600), seconds("last_call_timeout", 30), beat / 5, beat * beats)


def _signals(text: str) -> list[signal.Signals]:
    """The signals of a list of names."""
    try:
        return [signal.Signals[name.strip()] for name in text.split(",") if name.strip()]
    except KeyError as error:
        raise ValueError(f"--signals-to-handle {text}: {error.args[0]} is no signal") from None


def _ends_with_this_process():
    """What a new process calls first, so that it gets SIGTERM when this one ends, however that happens."""
    parent, library = os.getpid(), ctypes.CDLL(None)

    def begin():
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return begin


def _streams(text: str, count: int) -> list[int]:
    """Which streams of each process an option names: a number for all, or pairs such as 0:3,1:1."""
    if re.fullmatch(r"[0-3]", text):
        return [int(text)] * count
    chosen = [0] * count
    for pair in text.split(","):
        found = re.fullmatch(r"(\d+):([0-3])", pair.strip())
        if found is None or int(found[1]) >= count:
            raise ValueError(
                f"{text} does not say which streams to redirect\n  Write 0 to 3, or pairs of rank and number."
            )
        chosen[int(found[1])] = int(found[2])
    return chosen


class ChildFailedError(RuntimeError):
    """A process of the program has failed, and there are no restarts left."""


class _Signalled(SystemExit):
    """A signal ends this command, and is passed on to the processes."""

    def __init__(self, number):
        super().__init__(128 + number)
        self.number = number


class _Signals:
    """The signals that end this command.

    One that comes in a `held` block is raised at its end. There, an exception would leave a process that nobody ends or
    waits for, or a lock of `subprocess` that nobody releases. Only the first one is raised at once: another one comes while
    that is handled, and would keep the processes from being ended.
    """

    def __init__(self):
        self._number, self._is_held, self._is_ending = None, False, False

    def __call__(self, number, frame):
        is_first, self._number = self._number is None, self._number or number
        if is_first and not self._is_held:
            self._raise()

    def _raise(self):
        if self._number is not None and not self._is_ending:
            raise _Signalled(self._number)

    def end(self):
        """This command ends anyway; signals raise nothing from now on."""
        self._is_ending = True

    @contextlib.contextmanager
    def held(self):
        """Holds signals until the end of a block. Python loses what a handler raises in some callbacks; that is raised then, too."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
        self._raise()


class _Member(NamedTuple):
    process: subprocess.Popen[bytes]
    copiers: list[threading.Thread]


class _Launch:
    """The processes of one command."""

    def __init__(self, options, signals):
        if options.max_restarts < 0:
            raise ValueError("max_restarts must be >= 0")
        if options.rdzv_backend not in ("static", "c10d"):
            raise ValueError(
                f"The rendezvous backend '{options.rdzv_backend}' is not registered. Did you forget to call `register`?\n"
                "  Choose static or c10d."
            )
        bounds = (1, 1) if options.standalone else _nodes.numbers(options.nnodes)
        self.signals = signals
        self.options, self.count = options, _processes(options.nproc_per_node)
        host, port = options.master_addr, options.master_port or (29500 if bounds[1] > 1 else 0)
        if options.rdzv_endpoint and not options.standalone:
            host, port = _endpoint(options.rdzv_endpoint)
        node = 0 if bounds[1] == 1 else options.node_rank
        patience = _patience(options.rdzv_conf)
        self.store, self.serves = _nodes.open_store(host, port, node, timedelta(seconds=patience.join))
        self.host = host
        self.name = str(uuid.uuid4()) if options.standalone else options.rdzv_id
        self.nodes = _nodes.Nodes(self.store, self.name, bounds, node, self.count, patience)
        self.round = _nodes.Round(0, 0, [self.count])
        self.redirects = _streams(options.redirects, self.count)
        self.tees = _streams(options.tee, self.count)
        self.shown = {int(rank) for rank in options.local_ranks_filter.split(",") if rank} or set(range(self.count))
        self.folder = None
        if any(self.redirects) or any(self.tees):
            logs = options.log_dir or tempfile.mkdtemp(prefix="torchelastic_")
            os.makedirs(logs, exist_ok=True)
            # Machines may share the folder.
            self.folder = tempfile.mkdtemp(prefix=f"{self.name}_", dir=logs)
        self.events, self.restarts = Events(options, self.name), 0
        self.members: list[_Member] = []

    def command(self):
        options = self.options
        if options.no_python:
            if options.module:
                raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
            return [options.training_script, *options.training_script_args]
        module = ["-m"] if options.module else []
        return [sys.executable, "-u", *module, options.training_script, *options.training_script_args]

    def environment(self, local):
        own_round, virtual = self.round, self.options.virtual_local_rank
        rank, total = str(own_round.first + local), str(sum(own_round.counts))
        own = {
            "RANK": rank,
            "LOCAL_RANK": "0" if virtual else str(local),
            "GROUP_RANK": str(own_round.node),
            "ROLE_RANK": rank,
            "ROLE_NAME": self.options.role,
            "WORLD_SIZE": total,
            "LOCAL_WORLD_SIZE": str(self.count),
            "ROLE_WORLD_SIZE": total,
            "GROUP_WORLD_SIZE": str(len(own_round.counts)),
            "MASTER_ADDR": self.host,
            "MASTER_PORT": str(self.store.port),
            "TORCHELASTIC_RUN_ID": self.name,
            "TORCHELASTIC_RESTART_COUNT": str(own_round.number),
            "TORCHELASTIC_MAX_RESTARTS": str(self.options.max_restarts),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        if virtual:
            seen = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
            own["CUDA_VISIBLE_DEVICES"] = seen[local] if local < len(seen) else str(local)
        if self.count > 1 and "OMP_NUM_THREADS" not in os.environ:
            own["OMP_NUM_THREADS"] = "1"
        return {**os.environ, **own}

    def start(self):
        begun = time.monotonic()
        self.round = self.nodes.join()
        self.events.of_launcher("RENDEZVOUS", begun, restarts=self.restarts)
        self.members = []
        for rank in range(self.count):
            with self.signals.held(), contextlib.ExitStack() as files:
                self.members.append(self._start_one(rank, files))
        for rank, member in enumerate(self.members):
            self.events.of_process("START", self.round, rank, member.process.pid, restarts=self.restarts)

    def _start_one(self, rank, files):
        streams: dict[str, Any] = {}
        copied = []
        for bit, name in ((1, "stdout"), (2, "stderr")):
            tee = bool(self.tees[rank] & bit)
            if not tee and not self.redirects[rank] & bit:
                if rank not in self.shown:
                    streams[name] = subprocess.DEVNULL
                continue
            folder = os.path.join(self.folder, f"attempt_{self.round.number}", str(rank))
            os.makedirs(folder, exist_ok=True)
            file = open(os.path.join(folder, f"{name}.log"), "wb", buffering=0)
            if tee:
                streams[name] = subprocess.PIPE
                copied.append((name, file))
            else:
                streams[name] = files.enter_context(file)
        process = subprocess.Popen(
            self.command(), env=self.environment(rank), preexec_fn=_ends_with_this_process(), **streams
        )
        copiers = [
            threading.Thread(
                target=self._copy, args=(rank, getattr(process, name), file, getattr(sys, name)), daemon=True
            )
            for name, file in copied
        ]
        for copier in copiers:
            copier.start()
        return _Member(process, copiers)

    def _copy(self, rank, source, file, terminal):
        """Copies lines to a file, and with the name of the process to the terminal."""
        with source, file:
            for line in source:
                file.write(line)
                if rank in self.shown:
                    terminal.write(f"[{self.options.role}{rank}]:{line.decode(errors='replace')}")
                    terminal.flush()

    def watch(self) -> tuple[bool, str] | None:
        """Waits until all processes have ended well, or all have to end. Returns whether one failed, and why."""
        left = dict(enumerate(self.members))
        done = False
        while not (done and self.nodes.all_done(self.round)):
            with self.signals.held():
                codes = {rank: member.process.poll() for rank, member in left.items()}
            left = {rank: member for rank, member in left.items() if codes[rank] is None}
            failed = [(rank, code) for rank, code in codes.items() if code]
            if failed:
                # A process that a signal ended is the cause of errors in the others.
                rank, code = min(failed, key=lambda one: one[1] > 0)
                why = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
                if code > 0 and len(self.round.counts) > 1:
                    # Another machine may have that process, and tells of it first.
                    time.sleep(2 * self.options.monitor_interval)
                self.nodes.fail(self.round, f"rank {self.round.first + rank} failed with {why}")
            if not left and not failed and not done:
                done = True
                self.nodes.finish(self.round)
                continue
            news = self.nodes.news(self.round)
            if news is not None:
                return news
            time.sleep(self.options.monitor_interval)
        return None

    def linger(self):
        """Keeps the store until the other machines have seen the end."""
        key = f"torchrun/{self.name}/ended"
        ended = self.store.add(key, 1)
        deadline = time.monotonic() + 5
        while self.serves and ended < len(self.round.counts) and time.monotonic() < deadline:
            time.sleep(0.02)
            ended = self.store.add(key, 0)

    def tell_end(self, failed):
        """Records how each process has ended."""
        for rank, member in enumerate(self.members):
            code = member.process.returncode
            state = "SUCCEEDED" if not failed else "FAILED" if code not in (0, -signal.SIGTERM) else "TERMINATED"
            told = code if state == "FAILED" else None
            self.events.of_process(state, self.round, rank, member.process.pid, told, self.restarts)
        self.events.of_launcher("SUCCEEDED", current=self.round, restarts=self.restarts)

    def stop(self, number=signal.SIGTERM):
        """Ends the processes that still run, at last with SIGKILL."""
        with self.signals.held():
            self._stop(number)

    def _stop(self, number):
        for member in self.members:
            if member.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    member.process.send_signal(number)
        grace = self.options.shutdown_timeout
        if grace is None:
            grace = float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 30))
        deadline = time.monotonic() + grace
        for member in self.members:
            try:
                member.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
        for member in self.members:
            for copier in member.copiers:
                copier.join(5)


def run(args):
    """Runs a parsed command line.

    Raises:
        ChildFailedError: a process has failed.
    """
    _run(args, _Signals())


def _run(args, signals):
    launch = _Launch(args, signals)
    while True:
        try:
            launch.start()
            news = launch.watch()
        except BaseException as error:
            signals.end()
            told = traceback.format_exc()
            launch.stop(error.number if isinstance(error, _Signalled) else signal.SIGINT)
            launch.events.of_launcher("FAILED", current=launch.round, restarts=launch.restarts, error=told)
            raise
        launch.stop()
        if news is None:
            launch.tell_end(False)
            launch.linger()
            return
        failed, why = news
        if failed and launch.restarts == args.max_restarts:
            launch.tell_end(True)
            launch.linger()
            break
        launch.restarts += failed
        count = f"restart {launch.restarts} of {args.max_restarts}" if failed else "all begin again"
        sys.stderr.write(f"torchrun: {why}; {count}\n")
        launch.nodes.next(launch.round)
    logs = f"\n  Output is in {launch.folder}." if launch.folder else ""
    first, _, rest = why.partition(" failed ")
    raise ChildFailedError(f"{first} of {args.training_script} failed {rest}{logs}" if rest else f"{why}{logs}")


def main(args=None):
    """Runs the command line of this process."""
    signals, before = _Signals(), {}
    try:
        options = parse_args(args)
        # A signal that is ignored, as SIGHUP under nohup, stays so.
        for number in _signals(options.signals_to_handle):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, signals)
        _run(options, signals)
    except ChildFailedError as error:
        sys.exit(f"torchrun: {error}")
    except (ValueError, DistError) as error:
        sys.exit(f"torchrun: error: {error}")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    main()
