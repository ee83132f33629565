"""multiprocessing's contexts with this package's queues and pipes. They share multiprocessing's start method."""

import multiprocessing
from multiprocessing import context, popen_forkserver, popen_spawn_posix

from . import anonymous_sockets, bundle, channel, connection, pool, preload, queues
from .group import Member


class _Channels(context.BaseContext):
    """The parts of a context that use this package's classes."""

    def Pipe(self, duplex=True):
        """Two connected ends for objects and shared tensors. With ``duplex=False`` the first only receives and the
        second only sends.

        >>> reader, writer = torch.multiprocessing.Pipe(duplex=False)
        >>> writer.send(torch.ones(2))
        >>> reader.recv()
        tensor([1., 1.])
        """
        return connection.Pipe(duplex)

    def Queue(self, maxsize=0):
        """A queue for several processes at both ends. Tensors are sent as handles to shared memory.

        Args:
            maxsize: the number of objects from which ``put`` waits; 0 for no limit.

        >>> queue = torch.multiprocessing.Queue()
        >>> queue.put(torch.ones(2))
        >>> queue.get(timeout=30)
        tensor([1., 1.])
        """
        return queues.Queue(maxsize, ctx=self.get_context())

    def JoinableQueue(self, maxsize=0):
        """A `Queue` that counts unfinished objects: ``task_done`` and ``join``.

        >>> queue = torch.multiprocessing.JoinableQueue()
        >>> queue.put(1)
        >>> queue.get(timeout=30)
        1
        >>> queue.task_done()
        >>> queue.join()
        """
        return queues.JoinableQueue(maxsize, ctx=self.get_context())

    def SimpleQueue(self):
        """A `Queue` without a thread: ``put`` returns when the pipe has accepted the object.

        >>> queue = torch.multiprocessing.SimpleQueue()
        >>> queue.put("text")
        >>> queue.get()
        'text'
        """
        return queues.SimpleQueue(ctx=self.get_context())

    def Manager(self):
        """A server process that holds lists, dicts and other objects; see `multiprocessing.Manager`."""
        from multiprocessing.managers import SyncManager

        manager = SyncManager(anonymous_sockets.address(), ctx=self.get_context())
        # The standard library's server would wait for clients forever.
        manager.start(initializer=channel.end_with_parent)
        return manager

    def Pool(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None):
        """A pool of processes for calls; see `multiprocessing.Pool`. Tensors in arguments and results are shared.

        Args:
            processes: the number of processes; by default the number of processors.
            initializer, initargs: a function that each process calls when it begins, and its arguments.
            maxtasksperchild: the number of calls after which a process is replaced.

        >>> with torch.multiprocessing.get_context("fork").Pool(1) as pool:
        ...     pool.map(abs, [-1, 2])
        [1, 2]
        """
        return pool.Pool(processes, initializer, initargs, maxtasksperchild, context=self.get_context())

    def get_context(self, method=None):
        """The functions of this module for one start method.

        Args:
            method: ``"fork"``, ``"spawn"`` or ``"forkserver"``; by default the default method.

        Raises:
            ValueError: the start method is unknown.

        >>> torch.multiprocessing.get_context("spawn").get_start_method()
        'spawn'
        """
        if method is None:
            return self
        super().get_context(method)  # raises an error for an unknown or unavailable method
        return _concrete[method]


# A process closes the inherited descriptors as soon as it is started.
class _SpawnPopen(popen_spawn_posix.Popen):
    def _launch(self, process_obj):
        try:
            super()._launch(process_obj)
        finally:
            bundle.release(self)


class _ForkServerPopen(popen_forkserver.Popen):
    def _launch(self, process_obj):
        preload.preload()
        anonymous_sockets.ensure_fork_server()
        try:
            super()._launch(process_obj)
        finally:
            bundle.release(self)


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
    """A process with the default start method."""

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
    """The context of the default start method, which ``multiprocessing.set_start_method`` sets."""

    Process = Process

    def get_context(self, method=None):
        """The functions of this module for one start method.

        Args:
            method: ``"fork"``, ``"spawn"`` or ``"forkserver"``; by default the default method.

        Raises:
            ValueError: the start method is unknown.

        >>> torch.multiprocessing.get_context("spawn").get_start_method()
        'spawn'
        """
        if method is None:
            # Reading the default must not fix it, because it may still be set.
            method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
        return super().get_context(method)

    def get_start_method(self, allow_none=False):
        """The default start method. With ``allow_none`` it is None until it has been set or used.

        >>> torch.multiprocessing.get_start_method() in torch.multiprocessing.get_all_start_methods()
        True
        """
        return multiprocessing.get_start_method(allow_none)

    def set_start_method(self, method, force=False):
        """Sets the default start method of the program. ``force`` allows this after it has been set or used.

        Raises:
            RuntimeError: it was set or used before.
            ValueError: the start method is unknown.

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
