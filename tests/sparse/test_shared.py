"""Sparse gradients and processes: several processes change a shared weight without a lock, and send sparse tensors."""

import rushlight as torch
from rushlight import multiprocessing as mp
from rushlight import nn


def train(model, rows):
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.tensor(rows)).sum().backward()
        optimizer.step()


def test_processes_change_rows_of_one_weight():
    """Each step changes only the rows of its batch, so that processes with other rows lose no updates."""
    model = nn.Embedding(6, 3, sparse=True)
    with torch.no_grad():
        model.weight.zero_()
    model.share_memory()
    workers = [mp.get_context("fork").Process(target=train, args=(model, rows)) for rows in ([0, 2, 2], [1, 5])]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert model.weight[:, 0].tolist() == [-20.0, -20.0, -40.0, 0.0, 0.0, -20.0]


def send(queue):
    queue.put(torch.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (4,)))
    queue.put(torch.sparse_csr_tensor([0, 1, 2], [1, 0], [2.0, 3.0], (2, 2)))


def test_sparse_tensors_travel():
    context = mp.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=send, args=(queue,))
    worker.start()
    received, rows = queue.get(), queue.get()
    worker.join()
    assert rows.layout is torch.sparse_csr and rows.to_dense().tolist() == [[0.0, 2.0], [3.0, 0.0]]
    assert received.is_sparse and received.shape == (4,) and received.to_dense().tolist() == [0.0, 5.0, 0.0, 0.0]
