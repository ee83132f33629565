"""Memory that a process has sent to another one, which uses it while the sender ends or is killed."""

from card import needs_card, run_file

pytestmark = needs_card

PROGRAM = """
import os, signal, sys
import rushlight as torch
import rushlight.multiprocessing as mp

def send(queue, gate, end):
    x = torch.arange(1000.0, device="cuda")
    queue.put((x, x[10:]))
    gate.get()
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif end == "exit":
        os._exit(3)

if __name__ == "__main__":
    context = mp.get_context("spawn")
    for end in ("kill", "exit", "return"):
        queue, gate = context.Queue(), context.Queue()
        child = context.Process(target=send, args=(queue, gate, end))
        child.start()
        x, view = queue.get()
        assert x.untyped_storage().data_ptr() == view.untyped_storage().data_ptr() and x.sum().item() == 499500
        gate.put(None)
        if end != "return":
            # A sender that returns waits for its receivers.
            child.join()
            assert child.exitcode == (-signal.SIGKILL if end == "kill" else 3), child.exitcode
        # Whether or not the memory is still there, nothing crashes, hangs or stops the device.
        for call in (lambda: x.add_(1), lambda: view[0].item(), x.cpu, lambda: repr(x)):
            try:
                call()
            except RuntimeError as error:
                print(end, type(error).__name__, str(error).splitlines()[0])
        del x, view, call
        torch.cuda.ipc_collect()
        child.join()
        assert (torch.ones(10, device="cuda") * 2).sum().item() == 20
    print("done")
"""


def test_the_receiver_goes_on_when_the_sender_dies(tmp_path):
    assert run_file(tmp_path / "program.py", PROGRAM).splitlines()[-1] == "done"


TOO_LATE = """
import os, signal, time
import rushlight as torch
import rushlight.multiprocessing as mp

def send(queue, gate):
    queue.put(torch.arange(1000.0, device="cuda"))
    gate.get()
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue, gate = context.Queue(), context.Queue()
    child = context.Process(target=send, args=(queue, gate))
    child.start()
    while queue.empty():
        time.sleep(0.01)
    gate.put(None)
    child.join()
    try:
        queue.get(timeout=60)
    except torch.AcceleratorError as error:
        first, way_out = str(error).splitlines()
        assert first.startswith("CUDA error: "), first
        assert way_out == "  The process that sent the tensor must live until it has been received.", way_out
    else:
        raise AssertionError("received")
    assert torch.cuda.memory_allocated() == 0 and (torch.ones(10, device="cuda") * 2).sum().item() == 20
    print("done")
"""


def test_a_sender_that_died_before_its_tensor_was_received(tmp_path):
    """The receiver is told, keeps no memory, and goes on."""
    assert run_file(tmp_path / "program.py", TOO_LATE).splitlines()[-1] == "done"
