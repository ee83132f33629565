"""Names of pieces of work in graphs, which `_annotate_cuda_graph_trace` puts into the trace of a profiler."""

import pickle

import pytest

from rushlight.cuda import _annotate_cuda_graph_trace as annotate


def test_names_are_put_into_traces(tmp_path, capsys):
    def work(number, stream, at, length=1.0, **more):
        return {
            "ph": "X",
            "cat": "kernel",
            "name": "k",
            "tid": stream,
            "ts": at,
            "dur": length,
            "args": {"graph node id": number},
            **more,
        }

    events = [
        {"ph": "M", "name": "thread_name", "pid": 3, "tid": 5, "args": {"name": "stream 5"}},
        {"ph": "M", "name": "thread_name", "pid": 3, "tid": 9, "args": {"name": "stream 9"}},
        work(1, 5, 0.0),
        work(2, 5, 0.5, 2.0),
        work(3, 5, 2.0),
        work(4, 5, 2.9),
        work(0, 5, 4.0),
        {"ph": "f", "cat": "ac2g", "tid": 5, "ts": 0.0},
        {"ph": "X", "cat": "gpu_user_annotation", "tid": 9, "ts": 0.0},
    ]
    names = {1: [{"str": "a", "stream": 61}, {"str": "b"}], 2: ["plain"]}
    folder = tmp_path / "step"
    folder.mkdir()
    trace = folder / "000002.x.json.gz"
    annotate.save_trace({"traceEvents": events}, trace)
    with pytest.raises(SystemExit):
        annotate.main([str(trace)])
    (tmp_path / "kernel_annotations_rank2_x.pkl").write_bytes(pickle.dumps(names))
    annotate.main([str(trace)])
    told = capsys.readouterr().out
    assert "Annotated 2 kernel events" in told and "Removed 1 noise events" in told and "Moved 1 overlapping" in told
    found = annotate.load_trace(folder / "000002.x.annotated.json.gz")["traceEvents"]
    kernels = {event["args"]["graph node id"]: event for event in found if event.get("cat") == "kernel"}
    assert kernels[1]["tid"] == 61 and kernels[1]["args"] == {"graph node id": 1, "str": "b", "stream": 61}
    assert kernels[2]["args"]["annotation"] == "plain" and kernels[2]["tid"] == 7 and kernels[0]["tid"] == 5
    assert (kernels[3]["tid"], kernels[4]["tid"]) == (8, 7)
    assert [event["tid"] for event in found if event.get("cat") == "ac2g"] == [61]
    streams = {event["tid"]: event for event in found if event["ph"] == "M"}
    assert set(streams) == {5, 7, 61} and streams[61]["pid"] == 3


def test_small_overlaps_in_traces_are_mended(capsys):
    events = [
        {"cat": "kernel", "tid": 1, "ts": at, "dur": 1.0, "name": "k", "args": {"graph node id": 1}}
        for at in (0.0, 0.5, 1.4, 1.5)
    ]
    assert annotate._fix_overlapping_timestamps({"traceEvents": events}) == 2
    assert [event["ts"] for event in events] == [0.0, 1.0, 2.0, 1.5]
    assert "WARNING: large overlap 1.500us on stream 1 for k, skipping adjustment" in capsys.readouterr().out
