"""``torchrun`` starts the processes of a distributed program.

    torchrun --nproc-per-node 4 train.py --epochs 3

On several machines, run the same command on each of them, with the address of one:

    torchrun --nnodes 2 --rdzv-endpoint node0:29400 --nproc-per-node 4 train.py

``python -m rushlight.distributed.run`` is the same command, also where another package has installed a ``torchrun``.

Every process gets its place in the environment: RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, from
which `init_process_group` begins the default group. If one of them fails, the others are ended; with ``--max-restarts``
all of them begin again.
"""

import argparse
import os
import sys
import uuid
from importlib.metadata import entry_points

from rushlight import cuda
from rushlight.distributed.elastic.multiprocessing import DefaultLogsSpecs, LogsSpecs, SignalException, Std, _signals
from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError
from rushlight.distributed.elastic.rendezvous import RendezvousError
from rushlight.distributed.launcher.api import LaunchConfig, elastic_launch
from rushlight.distributed.store import DistError
from rushlight.numa.binding import AffinityMode, NumaOptions

__all__ = [
    "config_from_args",
    "determine_local_world_size",
    "get_args_parser",
    "main",
    "parse_args",
    "parse_min_max_nnodes",
    "run",
]


def __dir__() -> list[str]:
    return __all__


def _flag(parser, name, *short, **options):
    """Adds an option under its name with hyphens and with underscores. PET_NNODES in the environment stands for ``--nnodes``."""
    given = os.environ.get(f"PET_{name[2:].replace('-', '_').upper()}")
    if given is not None:
        options["default"] = given != "0" if options.get("action") == "store_true" else given
    parser.add_argument(*short, *dict.fromkeys((name, "--" + name[2:].replace("-", "_"))), **options)


def _texts(value):
    """The texts of a list with commas. Two commas stand for one in a text."""
    return [text.replace("\0", ",") for text in value.replace(",,", "\0").split(",")]


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
    for name in ("stdout", "stderr"):
        _flag(
            parser,
            f"--duplicate-{name}-filters",
            type=_texts,
            default=[],
            help=f"texts: lines of a teed {name} with one of them go to filtered_{name}.log too: error,loss (,, for a comma)",
        )
    _flag(
        parser, "--node-rank", type=int, default=None, help="the number of this machine, by default in order of coming"
    )
    _flag(parser, "--master-addr", default="127.0.0.1", help="the address of the store")
    _flag(parser, "--master-port", type=int, default=None, help="the port of the store, by default a free one")
    _flag(parser, "--local-addr", default=None, help="accepted")
    _flag(
        parser,
        "--logs-specs",
        default=None,
        help="the name of an installed class that divides output (torchrun.logs_specs)",
    )
    _flag(
        parser,
        "--numa-binding",
        choices=[mode.value for mode in AffinityMode],
        help="the CPUs of each process, near its GPU: those of the node or socket, a part of the node's cores, or cores that share a cache",
    )
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


def determine_local_world_size(nproc_per_node):
    """The number of processes that a text asks for: a number, ``"cpu"``, ``"gpu"`` or ``"auto"``.

    Raises:
        ValueError: it is no such text, or there are no GPUs.

    >>> torch.distributed.run.determine_local_world_size("2")
    2
    """
    if nproc_per_node == "gpu" and not cuda.is_available():
        raise ValueError("Cuda is not available.")
    if nproc_per_node == "gpu" or (nproc_per_node == "auto" and cuda.is_available()):
        return cuda.device_count()
    if nproc_per_node in ("cpu", "auto"):
        return len(os.sched_getaffinity(0))
    try:
        count = int(nproc_per_node)
    except ValueError:
        raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}") from None
    if count < 1:
        raise ValueError(f"nproc_per_node is {count}, and must be at least 1")
    return count


def parse_min_max_nnodes(nnodes):
    """The least and the largest number of machines in ``"2"`` or ``"1:4"``.

    Raises:
        ValueError: it is no such text.

    >>> torch.distributed.run.parse_min_max_nnodes("1:4")
    (1, 4)
    """
    try:
        least, _, most = nnodes.partition(":")
        bounds = int(least), int(most or least)
    except ValueError:
        raise ValueError(f"--nnodes {nnodes}: write a number of machines, or the least and the largest: 1:4") from None
    if not 1 <= bounds[0] <= bounds[1]:
        raise ValueError(f"--nnodes {nnodes}: the least number is at least 1, and the largest not below it")
    return bounds


def _logs_specs_class(name):
    """The class of logs that an installed package gives this name."""
    if name is None:
        return DefaultLogsSpecs
    found = entry_points(group="torchrun.logs_specs", name=name)
    if not found:
        raise ValueError(f"Could not find entrypoint under 'torchrun.logs_specs[{name}]' key")
    made = next(iter(found)).load()
    if not (isinstance(made, type) and issubclass(made, LogsSpecs)):
        raise ValueError(f"--logs-specs {name}: {made!r} is no subclass of LogsSpecs")
    return made


def _rendezvous_options(text):
    """The options in ``"join_timeout=60,last_call_timeout=30"``."""
    options = {}
    for pair in text.split(",") if text else ():
        name, _, value = (part.strip() for part in pair.partition("="))
        if not name:
            raise ValueError(
                "The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>.\n"
                f"  --rdzv-conf {text}: write as in join_timeout=60,last_call_timeout=30."
            )
        if not value:
            raise ValueError(
                f"The rendezvous configuration option '{name}' must have a value specified.\n"
                f"  --rdzv-conf {text}: write {name}=VALUE."
            )
        options[name] = value
    return options


def _most_processes():
    """How many processes the kernel runs at once."""
    with open("/proc/sys/kernel/pid_max") as limit:
        return int(limit.read())


def config_from_args(args):
    """The `LaunchConfig`, the command and its arguments that a parsed command line describes.

    Raises:
        ValueError: an option has no such value.

    >>> run = torch.distributed.run
    >>> config, command, arguments = run.config_from_args(run.parse_args(["--nproc-per-node=2", "train.py", "--epochs", "3"]))
    >>> config.nproc_per_node, arguments
    (2, ['-u', 'train.py', '--epochs', '3'])
    """
    if args.max_restarts < 0:
        raise ValueError("max_restarts must be >= 0")
    if not 0 < args.monitor_interval < float("inf"):
        raise ValueError(f"--monitor-interval {args.monitor_interval}: write a positive number of seconds")
    least, most = (1, 1) if args.standalone else parse_min_max_nnodes(args.nnodes)
    options = _rendezvous_options(args.rdzv_conf)
    if args.node_rank is not None:
        if not (args.standalone or 0 <= args.node_rank < most):
            raise ValueError(f"--node-rank {args.node_rank}: {most} machines have the numbers from 0 to {most - 1}")
        options["rank"] = args.node_rank
    port = args.master_port or (29500 if most > 1 else 0)
    host = f"[{args.master_addr}]" if ":" in args.master_addr.strip("[]") else args.master_addr
    endpoint = f"{host}:{port}" if args.standalone or not args.rdzv_endpoint else args.rdzv_endpoint
    try:
        local_ranks = {int(rank) for rank in args.local_ranks_filter.split(",") if rank}
    except ValueError:
        filtered = args.local_ranks_filter
        raise ValueError(f"--local-ranks-filter {filtered}: write local ranks with commas between them: 0,1") from None
    processes = determine_local_world_size(args.nproc_per_node)
    if processes > _most_processes():
        raise ValueError(
            f"--nproc-per-node {processes}: this machine runs at most {_most_processes()} processes at once"
        )
    config = LaunchConfig(
        min_nodes=least,
        max_nodes=most,
        nproc_per_node=processes,
        logs_specs=_logs_specs_class(args.logs_specs)(
            log_dir=args.log_dir,
            redirects=Std.from_str(args.redirects),
            tee=Std.from_str(args.tee),
            local_ranks_filter=local_ranks or None,
        ),
        run_id=str(uuid.uuid4()) if args.standalone else args.rdzv_id,
        role=args.role,
        rdzv_endpoint=endpoint,
        rdzv_backend="c10d" if args.standalone else args.rdzv_backend,
        rdzv_configs=options,
        max_restarts=args.max_restarts,
        monitor_interval=args.monitor_interval,
        start_method=args.start_method,
        log_line_prefix_template=os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
        local_addr=args.local_addr,
        event_log_handler=args.event_log_handler,
        duplicate_stdout_filters=args.duplicate_stdout_filters,
        duplicate_stderr_filters=args.duplicate_stderr_filters,
        numa_options=None if args.numa_binding is None else NumaOptions(AffinityMode(args.numa_binding)),
        signals_to_handle=args.signals_to_handle,
        virtual_local_rank=args.virtual_local_rank,
        shutdown_timeout=args.shutdown_timeout,
    )
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return config, args.training_script, args.training_script_args
    module = ["-m"] if args.module else []
    return config, sys.executable, ["-u", *module, args.training_script, *args.training_script_args]


def run(args):
    """Runs a parsed command line.

    Raises:
        ChildFailedError: a process has failed.
    """
    config, command, arguments = config_from_args(args)
    try:
        elastic_launch(config, command)(*arguments)
    except ChildFailedError:
        if args.redirects != "0" or args.tee != "0":
            sys.stderr.write(f"torchrun: output is in {config.logs_specs.root_log_dir}\n")
        raise


def main(args=None):
    """Runs the command line of this process."""
    try:
        options = parse_args(args)
        with _signals.handled(options.signals_to_handle):
            run(options)
    except SignalException as error:
        sys.exit(128 + error.sigval)
    except ChildFailedError as error:
        sys.exit(f"torchrun: {error}")
    except (ValueError, OSError, DistError, RendezvousError) as error:
        sys.exit(f"torchrun: error: {error}")


if __name__ == "__main__":
    main()
