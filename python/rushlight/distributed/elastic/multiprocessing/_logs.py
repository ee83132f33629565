"""Where the output of processes goes."""

import abc
import os
import re
import tempfile
from dataclasses import dataclass, field
from enum import IntFlag
from typing import IO


class Std(IntFlag):
    """Streams of a process.

    >>> Std = torch.distributed.elastic.multiprocessing.Std
    >>> Std.from_str("3") is Std.ALL, Std.from_str("0:1,2:3")
    (True, {0: <Std.OUT: 1>, 2: <Std.ALL: 3>})
    """

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm):
        """The streams of all processes, from ``"0"`` to ``"3"``, or a dict of those of some, from ``"0:1,2:3"``.

        Raises:
            ValueError: the text is neither.
        """
        if re.fullmatch("[0-3]", vm):
            return cls(int(vm))
        if re.fullmatch(r"(\d+:[0-3],)*\d+:[0-3]", vm):
            return {int(rank): cls(int(streams)) for rank, streams in (pair.split(":") for pair in vm.split(","))}
        raise ValueError(
            rf"{vm} does not match: <^[0123]$> or <^(\d:[0123],)*(\d:[0123])$>"
            "\n  Write 0 to 3 for all processes, or pairs of a local rank and such a number: 0:3,1:1."
        )


def to_map(val_or_map, local_world_size):
    """The streams of each process: those of a dict, or the same of all. Ranks that do not exist are left out.

    >>> multiprocessing = torch.distributed.elastic.multiprocessing
    >>> multiprocessing.to_map({0: multiprocessing.Std.OUT, 5: multiprocessing.Std.OUT}, 2)
    {0: <Std.OUT: 1>, 1: <Std.NONE: 0>}
    """
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {rank: val_or_map.get(rank, Std.NONE) for rank in range(local_world_size)}


@dataclass
class LogsDest:
    """Files of processes, by local rank.

    Args:
        stdouts, stderrs: the file to which a stream goes; an empty text for that of the launcher.
        tee_stdouts, tee_stderrs: the files of streams that the terminal gets, too.
        error_files: where `record` writes.
        filtered_stdout, filtered_stderr: the files of lines that contain a filter's text, for all processes together.
    """

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)
    filtered_stdout: str = ""
    filtered_stderr: str = ""


class LogsSpecs(abc.ABC):
    """How output is divided. A subclass has `reify`, and torchrun finds it by ``--logs-specs``.

    Args:
        log_dir: a folder.
        redirects: the streams that go to files, a `Std` or a dict of them by local rank.
        tee: the streams that go to files and to the terminal.
        local_ranks_filter: the processes that write to the terminal, by default all.
    """

    def __init__(self, log_dir=None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        self._root_log_dir, self._redirects, self._tee = log_dir, redirects, tee
        self._local_ranks_filter = local_ranks_filter

    @abc.abstractmethod
    def reify(self, envs):
        """The `LogsDest` of processes with these environments, by local rank."""

    @property
    @abc.abstractmethod
    def root_log_dir(self):
        """The folder."""


class DefaultLogsSpecs(LogsSpecs):
    """Files ``<log_dir>/<job>_<random>/attempt_<number>/<local rank>/stdout.log``, ``stderr.log`` and ``error.json``.
    Lines that contain a filter's text are also in ``filtered_stdout.log`` and ``filtered_stderr.log`` of the attempt.

    Args:
        log_dir, redirects, tee, local_ranks_filter: as for `LogsSpecs`. Without a `log_dir`, the folder is a new one; if no output
            goes into it, there is none, and the files of errors have no names.

    >>> import tempfile
    >>> multiprocessing = torch.distributed.elastic.multiprocessing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     specs = multiprocessing.DefaultLogsSpecs(folder, redirects={1: multiprocessing.Std.OUT})
    ...     found = specs.reify({0: {}, 1: {}})
    ...     found.stdouts[0], found.stdouts[1].endswith("attempt_0/1/stdout.log")
    ('', True)
    """

    def __init__(self, log_dir=None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self._run_log_dir = None
        self._errors: list[IO[bytes]] = []

    @property
    def root_log_dir(self):
        """The folder."""
        if self._root_log_dir is None:
            self._root_log_dir = tempfile.mkdtemp(prefix="torchelastic_")
        return self._root_log_dir

    def reify(self, envs):
        """Makes the folders of processes with these environments, and names their files."""
        first, made = next(iter(envs.values()), {}), LogsDest()
        redirects, tees = to_map(self._redirects, len(envs)), to_map(self._tee, len(envs))
        shown = envs.keys() if self._local_ranks_filter is None else self._local_ranks_filter
        if self._root_log_dir == os.devnull or (
            self._root_log_dir is None and not any(redirects.values()) and not any(tees.values())
        ):
            self._errors = [open(os.memfd_create(f"error-{rank}"), "wb") for rank in envs]
            for rank, file in zip(envs, self._errors):
                made.error_files[rank] = f"/proc/{os.getpid()}/fd/{file.fileno()}"
                made.stdouts[rank] = made.stderrs[rank] = "" if rank in shown else os.devnull
            return made
        if self._run_log_dir is None:
            os.makedirs(self.root_log_dir, exist_ok=True)
            # Machines may share the folder.
            job = first.get("TORCHELASTIC_RUN_ID", "none")
            self._run_log_dir = tempfile.mkdtemp(prefix=f"{job}_", dir=self.root_log_dir)
        attempt = os.path.join(self._run_log_dir, f"attempt_{first.get('TORCHELASTIC_RESTART_COUNT', '0')}")
        made.filtered_stdout, made.filtered_stderr = (
            os.path.join(attempt, f"filtered_{name}.log") for name in ("stdout", "stderr")
        )
        for rank in envs:
            folder = os.path.join(attempt, str(rank))
            os.makedirs(folder, exist_ok=True)
            made.error_files[rank] = os.path.join(folder, "error.json")
            for stream, name, files, tee_files in (
                (Std.OUT, "stdout", made.stdouts, made.tee_stdouts),
                (Std.ERR, "stderr", made.stderrs, made.tee_stderrs),
            ):
                path = os.path.join(folder, f"{name}.log")
                if (redirects[rank] | tees[rank]) & stream:
                    files[rank] = path
                else:
                    files[rank] = "" if rank in shown else os.devnull
                if tees[rank] & stream and rank in shown:
                    tee_files[rank] = path
        return made

    def __repr__(self):
        return (
            f"DefaultLogsSpecs(root_log_dir={self._root_log_dir}, redirects={self._redirects}, tee={self._tee}, "
            f"local_ranks_filter={self._local_ranks_filter})"
        )
