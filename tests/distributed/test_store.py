"""Stores: torch's results, waiting, invalid clients, servers that have ended."""

import os
import signal
import socket
import threading
import time
from datetime import timedelta

import pytest

import rushlight as torch
from rushlight import distributed, multiprocessing

SHORT = timedelta(seconds=0.2)


@pytest.fixture
def later():
    """Calls a function after some seconds. What is still waiting or running when a test fails does not outlive it."""
    timers = []

    def call(seconds, function, *arguments):
        timers.append(threading.Timer(seconds, function, arguments))
        timers[-1].daemon = True
        timers[-1].start()

    yield call
    for timer in timers:
        timer.cancel()
        timer.join(10)


@pytest.fixture(params=["hash", "tcp", "prefix"])
def store(request):
    if request.param == "tcp":
        made = distributed.TCPStore("127.0.0.1", 0, 1, True, timeout=SHORT)
    else:
        made = distributed.HashStore()
        if request.param == "prefix":
            made = distributed.PrefixStore("job", made)
    made.set_timeout(SHORT)
    return made


def test_values(store):
    store.set("a", "xyz")
    store.set("b", b"\x00\xff")
    assert (store.get("a"), store.get("b")) == (b"xyz", b"\x00\xff")
    store.append("ap", "1")
    store.append("ap", "2")
    assert store.multi_get(["ap", "a"]) == [b"12", b"xyz"]
    with pytest.raises(torch.distributed.DistStoreError, match="multiSet keys and values vectors must be of same size"):
        store.multi_set(["x"], ["1", "2"])
    store.multi_set(["x", "y"], ["1", "2"])
    assert store.check(["x", "y"]) and not store.check(["x", "z"])
    assert (store.delete_key("x"), store.delete_key("x")) == (True, False)
    assert store.multi_get([]) == []


def test_a_file_that_is_removed_while_it_is_opened(tmp_path, monkeypatch):
    """The last user of a file leaves when the first one of the next group has opened it, and has not locked it yet."""
    path = tmp_path / "store"
    users = [distributed.FileStore(path, 1)]
    users[0].set("key", "old")
    opened = distributed.FileStore._open

    def late(store):
        file = opened(store)
        users.clear()
        return file

    monkeypatch.setattr(distributed.FileStore, "_open", late)
    store = distributed.FileStore(path, 2)
    monkeypatch.undo()
    assert not store.check(["key"])
    store.set("key", "new")
    assert distributed.FileStore(path, 2).get("key") == b"new"


def test_a_file_that_cannot_be_the_stores(tmp_path):
    with pytest.raises(
        distributed.DistNetworkError, match="^The store cannot open /proc/none/store: No such file or directory"
    ):
        distributed.FileStore("/proc/none/store", 1)
    with pytest.raises(
        distributed.DistStoreError, match="\n  The store cannot use /dev/full: give the path of a file of"
    ):
        distributed.FileStore("/dev/full", 1)


def test_numbers(store):
    assert (store.add("n", 5), store.add("n", -2), store.get("n")) == (5, 3, b"3")
    store.set("a", "xyz")
    with pytest.raises(ValueError, match="not a number"):
        store.add("a", 1)
    with pytest.raises(ValueError, match="beyond 64 bits"):
        store.add("n", 2**63 - 1)
    with pytest.raises(TypeError, match="an int of 64 bits for the amount"):
        store.add("n", 2**70)


def test_queues(store):
    assert store.queue_len("jobs") == 0
    for value in ("first", b"second"):
        store.queue_push("jobs", value)
    assert store.queue_len("jobs") == 2 and store.queue_pop("jobs") == b"first"
    assert store.queue_pop("jobs", block=False) == b"second" and store.queue_len("jobs") == 0
    with pytest.raises(distributed.QueueEmptyError, match="queue is empty"):
        store.queue_pop("jobs", block=False)
    with pytest.raises(distributed.DistStoreError, match="wait timeout after 200ms, keys: /jobs"):
        store.queue_pop("jobs")
    store.queue_push("jobs", "third")
    assert store.queue_pop("jobs") == b"third" and store.queue_len("others") == 0


def test_queues_are_not_among_the_keys(store):
    before = store.num_keys()
    store.set("a", "1")
    store.queue_push("jobs", b"first")
    assert store.num_keys() == before + 1 and store.list_keys() == ["a"]
    other = distributed.PrefixStore("other", store)
    other.set("b", "2")
    assert other.list_keys() == ["b"] and store.list_keys() == ["a", "other/b"] and other.num_keys() == before + 2


def test_types(store):
    for name, arguments in (
        ("set", ("a", 5)), ("set", (5, "a")), ("append", ("a", 1.5)), ("add", ("a", "1")), ("add", (1, 1)), ("queue_push", ("q", 3)),
        ("queue_pop", (3,)), ("queue_len", (None,)), ("delete_key", (b"a",)), ("compare_set", ("a", "1", None)),
        ("get", (1,)), ("check", ("ab",)), ("check", ([1],)), ("wait", ("ab",)), ("wait", (None,)), ("wait", (["a"], 5)),
        ("wait", (["a"], "x")), ("wait", (["a"], float("nan"))), ("multi_get", ("ab",)), ("multi_set", ("ab", "xy")),
        ("multi_set", (["a", "b"], ["1", 2])), ("add", ("a", 2**63)), ("set_timeout", ("1",)), ("set_timeout", (None,)),
        ("barrier", (1, 1)), ("barrier", ("b", 2, "x")),
    ):  # fmt: skip
        text = rf"{name}\(\): incompatible function arguments. The following argument types are supported:"
        with pytest.raises(TypeError, match=text):
            getattr(store, name)(*arguments)
    assert store.timeout == SHORT and not store.check(["a"]) and not store.check(["b"])


def test_timeouts_are_timedeltas_or_floats(store):
    store.set("a", "1")
    store.wait(["a"], 1.5)
    store.set_timeout(0.1)
    assert store.timeout == timedelta(seconds=0.1)
    store.set_timeout(timedelta(seconds=-1))
    assert store.get("a") == b"1"
    with pytest.raises(distributed.DistStoreError, match="wait timeout after -1000ms, keys: /never"):
        store.get("never")


def test_each_value_of_a_queue_goes_to_one_process(store):
    store.set_timeout(timedelta(seconds=10))
    taken, count = [[] for _ in range(4)], 100

    def take(own, clone):
        while (value := clone.queue_pop("jobs")) != b"end":
            own.append(int(value))

    threads = [threading.Thread(target=take, args=(own, store.clone()), daemon=True) for own in taken]
    for thread in threads:
        thread.start()
    for number in range(count):
        store.queue_push("jobs", str(number))
    for _ in threads:
        store.queue_push("jobs", "end")
    for thread in threads:
        thread.join(30)
    assert sorted(number for own in taken for number in own) == list(range(count)) and store.queue_len("jobs") == 0


def test_clones_and_barriers(store):
    store.set("a", "1")
    other = store.clone()
    assert type(other) is type(store) and other.get("a") == b"1" and store.has_extended_api()
    store.barrier("alone", 1)
    with pytest.raises(distributed.DistStoreError, match="barrier timeout after 100ms, key: two"):
        store.barrier("two", 2, timedelta(seconds=0.1))
    other.barrier("two", 2)
    store.barrier("two", 2)


def test_compare_set(store):
    assert store.compare_set("c", "", "one") == b"one"
    assert store.compare_set("c", "two", "three") == b"one"
    assert store.compare_set("c", "one", "three") == b"three"
    assert store.compare_set("d", "x", "three") == b"x"
    assert not store.check(["d"])


def test_what_never_comes(store):
    with pytest.raises(distributed.DistStoreError, match="wait timeout after 200ms, keys: /nope"):
        store.get("nope")
    with pytest.raises(distributed.DistStoreError, match="after 0ms, keys: /a, /b"):
        store.wait(["a", "b"], timedelta(0))


def test_what_comes_late(store, later):
    store.set_timeout(timedelta(seconds=60))
    later(0.05, store.set, "late", "here")
    assert store.get("late") == b"here"


def test_prefixes_keep_keys_apart():
    store = distributed.HashStore()
    one, two = distributed.PrefixStore("1", store), distributed.PrefixStore("2", store)
    one.set("k", "a")
    two.set("k", "b")
    assert (one.get("k"), two.get("k"), store.list_keys()) == (b"a", b"b", ["1/k", "2/k"])
    assert one.underlying_store is store


def member(rank, port, world):
    store = distributed.TCPStore("127.0.0.1", port, world, False, token="secret")
    store.set(f"rank{rank}", str(os.getpid()))
    store.wait([f"rank{other}" for other in range(world - 1)])
    store.add("seen", 1)


def test_processes_find_each_other():
    master = distributed.TCPStore("127.0.0.1", 0, 3, True, wait_for_workers=False, token="secret")
    context = multiprocessing.get_context("spawn")
    members = [context.Process(target=member, args=(rank, master.port, 3), daemon=True) for rank in range(2)]
    for process in members:
        process.start()
    assert [int(master.get(f"rank{rank}")) for rank in range(2)] == [process.pid for process in members]
    for process in members:
        process.join(60)
    assert [process.exitcode for process in members] == [0, 0]
    assert master.get("seen") == b"2"
    assert master.num_keys() == 4  # and the counter of processes


def test_who_is_missing():
    with pytest.raises(distributed.DistStoreError, match="waiting for clients. 1/2 clients joined"):
        distributed.TCPStore("127.0.0.1", 0, 2, True, timeout=SHORT)


@pytest.mark.parametrize(
    ("kind", "arguments", "why"),
    [
        ("TCPStore", ("127.0.0.1", 70000), "The port 70000 is no integer from 0 to 65535"),
        ("TCPStore", ("127.0.0.1", -1), "The port -1 is no integer from 0 to 65535"),
        ("TCPStore", ("127.0.0.1", 1.5), "The port 1.5 is no integer from 0 to 65535"),
        ("TCPStore", (3, 29500), "The host name 3 is no text"),
        ("TCPStore", ("127.0.0.1", 0, "2", True), "The size of the world '2' is no integer"),
        ("TCPStore", ("127.0.0.1", 0, 1, 2), "Is_master must be a bool, not 2"),
        ("TCPStore", ("127.0.0.1", 0, 1, True, 5), "a timedelta for the timeout, but got 5"),
        ("TCPStore", ("127.0.0.1", 0, 1, True, SHORT, "no"), "Wait_for_workers must be a bool, not 'no'"),
        ("FileStore", ("unused", "2"), "The size of the world '2' is no integer"),
        ("PrefixStore", (3, distributed.HashStore()), "The prefix 3 is no text"),
        ("PrefixStore", ("job", 3), "3 is no store"),
    ],
)
def test_arguments_of_wrong_kinds(kind, arguments, why):
    with pytest.raises(TypeError) as caught:
        getattr(distributed, kind)(*arguments)
    first, _, rest = str(caught.value).partition("\n")
    assert first == "__init__(): incompatible constructor arguments. The following argument types are supported:"
    assert why in rest and (f"1. {kind}(" in rest or "timedelta" in why)


def test_nobody_serves():
    master = distributed.TCPStore("127.0.0.1", 0, is_master=True)
    client = distributed.TCPStore("127.0.0.1", master.port)
    with pytest.raises(distributed.DistNetworkError, match="did not accept the token"):
        distributed.TCPStore("127.0.0.1", master.port, token="wrong")
    with pytest.raises(
        distributed.DistNetworkError,
        match="^The server socket has failed to listen on any local network address. port: [0-9]+, useIpv6: false, code: -98",
    ):
        distributed.TCPStore("127.0.0.1", master.port, is_master=True)
    port = master.port
    del master
    with pytest.raises(
        distributed.DistNetworkError, match="^Failed to recv, got 0 bytes. Connection was likely closed"
    ):
        client.get("k")
    with pytest.raises(
        distributed.DistNetworkError,
        match=r"^The client socket has timed out after \d+ms while trying to connect to \(127",
    ):
        distributed.TCPStore("127.0.0.1", port, timeout=SHORT)


def test_ctrl_c_ends_a_wait(later):
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True)
    later(0.2, os.kill, os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        store.get("never")
    began = time.monotonic()
    while time.monotonic() < began + 0.5:  # late signals would end the test process
        time.sleep(0.01)


@pytest.mark.parametrize("kind", ["hash", "tcp"])
def test_a_forked_child_is_told(kind):
    store = distributed.HashStore() if kind == "hash" else distributed.TCPStore("127.0.0.1", 0, is_master=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.set("a", "b")
        except torch.distributed.DistNetworkError as error:
            code = 0 if "forked" in str(error) else 2
        finally:
            del store
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    store.set("a", "b")
    assert store.get("a") == b"b"


def test_a_small_question_has_no_huge_answer(store):
    store.set_timeout(timedelta(seconds=30))
    store.set("large", bytes(1 << 20))
    with pytest.raises(ValueError, match="an answer holds up to 268435456 bytes"):
        store.multi_get(["large"] * 70_000)
    assert store.multi_get(["large"] * 3) == [bytes(1 << 20)] * 3


def test_a_question_that_is_too_large_leaves_the_connection(store):
    store.set_timeout(timedelta(seconds=30))
    if isinstance(store, distributed.TCPStore):
        with pytest.raises(ValueError, match="a message holds up to 268435456 bytes"):
            store.set("larger", bytes(1 << 28))
    store.set("key", "value")
    assert store.get("key") == b"value"


def test_a_peer_that_does_not_read_is_given_up():
    """Neither the timeout nor Ctrl-C waits for the system's buffers."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def welcome():
            with server.accept()[0] as peer:
                peer.sendall(b"\2\1\0\0\0\1\0\0\0\1" + b"\3\1\0\0\0\x08\0\0\0" + bytes(8))
                over.wait()

        over = threading.Event()
        thread = threading.Thread(target=welcome, daemon=True)
        thread.start()
        try:
            timeout = timedelta(seconds=0.5)
            store = distributed.TCPStore("127.0.0.1", server.getsockname()[1], timeout=timeout)
            with pytest.raises(distributed.DistNetworkError):
                store.set("key", bytes(100 << 20))
        finally:
            over.set()
        thread.join(10)


def test_masters_of_a_process_share_a_server():
    def store(**given):
        return distributed.TCPStore("127.0.0.1", port, 1, True, SHORT, **given)

    port = 0
    first = store(multi_tenant=True)
    port = first.port
    second = store(multi_tenant=True)
    first.set("key", "value")
    assert second.get("key") == b"value"
    with pytest.raises(
        distributed.DistNetworkError, match=f"port: {port}, useIpv6: false, code: -98, name: EADDRINUSE"
    ):
        store()
    del first
    assert second.get("key") == b"value"
    del second
    assert not store().check(["key"])  # the server ended with its last user


def test_a_server_listens_on_a_socket_of_the_program():
    def store(port, descriptor):
        return distributed.TCPStore("127.0.0.1", port, 1, True, timedelta(seconds=30), master_listen_fd=descriptor)

    end = socket.socket()
    end.bind(("127.0.0.1", 0))
    port, descriptor = end.getsockname()[1], end.detach()
    with pytest.raises(
        distributed.DistStoreError, match=f"bound to port {port}, expected to be bound to port {port ^ 1}"
    ):
        store(port ^ 1, descriptor)
    server = store(port, descriptor)
    assert server.port == port
    distributed.TCPStore("127.0.0.1", port).set("key", "value")
    assert server.get("key") == b"value"
    del server
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with pytest.raises(
        distributed.DistNetworkError, match=r"open existing socket. socket: -1, code: -9, name: EBADF, mess"
    ):
        store(0, -1)
    with open(os.devnull) as file, pytest.raises(distributed.DistNetworkError, match="code: -88, name: ENOTSOCK"):
        store(0, file.fileno())
    with pytest.raises(TypeError, match="The descriptor '3' is no integer"):
        store(0, "3")
