"""`torch.Stream` and `torch.Event` without an accelerator; tests/cuda has those of GPUs."""

import pytest

import rushlight as torch

HOST = ["cpu", "meta"]


@pytest.mark.parametrize("device", HOST)
def test_the_host_has_one_stream_with_nothing_to_wait_for(device):
    stream = torch.Stream(device)
    assert stream.query() and stream.synchronize() is None and stream.wait_event(torch.Event(device)) is None
    assert stream == torch.Stream(torch.device(device)) and hash(stream) == hash(torch.Stream(device))
    assert (stream.device, stream.device_index, stream.stream_id) == (torch.device(device), -1, 0)
    assert repr(stream) == f"torch.Stream device_type={device}, device_index=-1, stream_id=0"
    with stream as entered:
        assert entered is stream
    for call in (stream.record_event, lambda: stream.wait_stream(stream)):
        with pytest.raises(RuntimeError, match=f"^{device} backend doesn't support events."):
            call()


@pytest.mark.parametrize("device", [*HOST, "cuda", None, 0])
def test_an_event_that_was_not_recorded(device):
    event = torch.Event(device, enable_timing=True)
    kind = device if isinstance(device, str) else "cuda"
    assert event.query() and event.synchronize() is None and event.event_id == 0
    assert event.device == torch.device(kind) and event != torch.Event(device)
    assert repr(event) == f"torch.Event device_type={kind}, device_index=-1, event_flag=1, event_id=0"
    with pytest.raises(ValueError, match="^Both events must be recorded before calculating elapsed time.$"):
        event.elapsed_time(event)
    with pytest.raises(ValueError, match="^Both events must be created with argument 'enable_timing=True'.$"):
        event.elapsed_time(torch.Event(device))
    with pytest.raises(NotImplementedError, match="ipc is not supported yet"):
        event.ipc_handle()


def test_other_devices_and_arguments():
    for kind in (torch.Event, torch.Stream):
        with pytest.raises(RuntimeError, match="^PyTorch is not linked with support for xpu devices$"):
            kind("xpu")
    with pytest.raises(TypeError, match="argument 'enable_timing' must be bool, not int"):
        torch.Event("cpu", enable_timing=2)
    assert issubclass(torch.cuda.Stream, torch.Stream) and issubclass(torch.cuda.Event, torch.Event)
