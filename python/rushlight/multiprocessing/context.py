"""multiprocessing's contexts with our queues and pipes. The start method is multiprocessing's own setting."""

import multiprocessing
from multiprocessing import context, popen_forkserver, popen_spawn_posix

from . import channel, connection, parcel, pool, preload, queues, unnamed
from .group import Member


class _Channels(context.BaseContext):
    """What a context makes of ours."""

    def Pipe(self, duplex=True):
        """Two connected ends, through which objects and shared tensors go; with ``duplex=False`` the first one only
        receives.

        >>> reader, writer = torch.multiprocessing.Pipe(duplex=False)
        >>> writer.send(torch.ones(2))
        >>> reader.recv()
        tensor([1., 1.])
        """
        return connection.Pipe(duplex)

    def Queue(self, maxsize=0):
        """A queue for several processes at both ends; tensors go through it as handles on shared memory.

        Args:
            maxsize: from how many objects on ``put`` waits; 0 for no bound.

        >>> queue = torch.multiprocessing.Queue()
        >>> queue.put(torch.ones(2))
        >>> queue.get(timeout=30)
        tensor([1., 1.])
        """
        return queues.Queue(maxsize, ctx=self.get_context())

    def JoinableQueue(self, maxsize=0):
        """A `Queue` that knows what has been taken but not finished: ``task_done`` and ``join``.

        >>> queue = torch.multiprocessing.JoinableQueue()
        >>> queue.put(1)
        >>> queue.get(timeout=30)
        1
        >>> queue.task_done()
        >>> queue.join()
        """
        return queues.JoinableQueue(maxsize, ctx=self.get_context())

    def SimpleQueue(self):
        """A `Queue` without a thread of its own: ``put`` returns when the pipe has taken the object.

        >>> queue = torch.multiprocessing.SimpleQueue()
        >>> queue.put("text")
        >>> queue.get()
        'text'
        """
        return queues.SimpleQueue(ctx=self.get_context())

    def Manager(self):
        """A process that holds lists, dicts and the like for others; see `multiprocessing.Manager`."""
        from multiprocessing.managers import SyncManager

        manager = SyncManager(unnamed.address(), ctx=self.get_context())
        # The standard library's server would wait for clients for ever.
        manager.start(initializer=channel.end_with_parent)
        return manager

    def Pool(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None):
        """Processes that take calls; see `multiprocessing.Pool`. Tensors among arguments and results are shared.

        Args:
            processes: how many; as many as there are processors without it.
            initializer, initargs: called in each process as it begins.
            maxtasksperchild: after how many calls a process is replaced.

        >>> with torch.multiprocessing.get_context("fork").Pool(1) as pool:
        ...     pool.map(abs, [-1, 2])
        [1, 2]
        """
        return pool.Pool(processes, initializer, initargs, maxtasksperchild, context=self.get_context())

    def get_context(self, method=None):
        """The names of this module for one start method.

        Args:
            method: ``"fork"``, ``"spawn"`` or ``"forkserver"``; the default one without it.

        Raises:
            ValueError: another name.

        >>> torch.multiprocessing.get_context("spawn").get_start_method()
        'spawn'
        """
        if method is None:
            return self
        super().get_context(method)  # raises for a name that is unknown or not to be had here
        return _concrete[method]


# What a process inherits is let go of as soon as it is started.
class _SpawnPopen(popen_spawn_posix.Popen):
    def _launch(self, process_obj):
        try:
            super()._launch(process_obj)
        finally:
            parcel.release(self)


class _ForkServerPopen(popen_forkserver.Popen):
    def _launch(self, process_obj):
        preload.preload()
        unnamed.ensure_fork_server()
        try:
            super()._launch(process_obj)
        finally:
            parcel.release(self)


class ForkProcess(Member, context.ForkProcess):
    pass


class SpawnProcess(Member, context.SpawnProcess):
    @staticmethod
    def _Popen(process_obj):
        return _SpawnPopen(process_obj)


class ForkServerProcess(Member, context.ForkServerProcess):
    @staticmethod
    def _Popen(process_obj):
        return _ForkServerPopen(process_obj)


class Process(Member, context.Process):
    """A process of the default start method."""

    @staticmethod
    def _Popen(process_obj):
        return default.get_context().Process._Popen(process_obj)


class ForkContext(_Channels, context.ForkContext):
    Process = ForkProcess


class SpawnContext(_Channels, context.SpawnContext):
    Process = SpawnProcess


class ForkServerContext(_Channels, context.ForkServerContext):
    Process = ForkServerProcess


class DefaultContext(_Channels):
    """Follows ``multiprocessing.set_start_method``, called here or there."""

    Process = Process

    def get_context(self, method=None):
        """The names of this module for one start method.

        Args:
            method: ``"fork"``, ``"spawn"`` or ``"forkserver"``; the default one without it.

        Raises:
            ValueError: another name.

        >>> torch.multiprocessing.get_context("spawn").get_start_method()
        'spawn'
        """
        if method is None:
            # Asking for the default must not fix it: it may still be set.
            method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
        return super().get_context(method)

    def get_start_method(self, allow_none=False):
        """The default start method; with ``allow_none`` None as long as nobody has set or used it.

        >>> torch.multiprocessing.get_start_method() in torch.multiprocessing.get_all_start_methods()
        True
        """
        return multiprocessing.get_start_method(allow_none)

    def set_start_method(self, method, force=False):
        """Sets the default start method of the program; ``force`` also after it has been set or used.

        Raises:
            RuntimeError: it was set or used before.
            ValueError: another name.

        >>> torch.multiprocessing.set_start_method(torch.multiprocessing.get_start_method(), force=True)
        """
        multiprocessing.set_start_method(method, force)

    def get_all_start_methods(self):
        """The start methods of this system, the default one first.

        >>> sorted(torch.multiprocessing.get_all_start_methods())
        ['fork', 'forkserver', 'spawn']
        """
        return multiprocessing.get_all_start_methods()


_concrete: dict[str, context.BaseContext] = {
    "fork": ForkContext(),
    "spawn": SpawnContext(),
    "forkserver": ForkServerContext(),
}
default = DefaultContext()
