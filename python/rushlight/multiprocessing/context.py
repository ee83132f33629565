"""multiprocessing's contexts with our queues and pipes. The start method is multiprocessing's own setting."""

import multiprocessing
from multiprocessing import context, popen_forkserver, popen_spawn_posix

from . import channel, connection, parcel, pool, queues
from .group import Member


class _Channels(context.BaseContext):
    """What a context makes of ours."""

    def Pipe(self, duplex=True):
        return connection.Pipe(duplex)

    def Queue(self, maxsize=0):
        return queues.Queue(maxsize, ctx=self.get_context())

    def JoinableQueue(self, maxsize=0):
        return queues.JoinableQueue(maxsize, ctx=self.get_context())

    def SimpleQueue(self):
        return queues.SimpleQueue(ctx=self.get_context())

    def Manager(self):
        from multiprocessing.managers import SyncManager

        manager = SyncManager(ctx=self.get_context())
        # The standard library's server would wait for clients for ever.
        manager.start(initializer=channel.end_with_parent)
        return manager

    def Pool(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None):
        return pool.Pool(processes, initializer, initargs, maxtasksperchild, context=self.get_context())

    def get_context(self, method=None):
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
        if method is None:
            # Asking for the default must not fix it: it may still be set.
            method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
        return super().get_context(method)

    def get_start_method(self, allow_none=False):
        return multiprocessing.get_start_method(allow_none)

    def set_start_method(self, method, force=False):
        multiprocessing.set_start_method(method, force)

    def get_all_start_methods(self):
        return multiprocessing.get_all_start_methods()


_concrete: dict[str, context.BaseContext] = {
    "fork": ForkContext(),
    "spawn": SpawnContext(),
    "forkserver": ForkServerContext(),
}
default = DefaultContext()
