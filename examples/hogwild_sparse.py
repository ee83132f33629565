"""Hogwild as in its paper: several processes, one model of a million weights, sparse samples, and no lock.

    python examples/hogwild_sparse.py --processes 1 2 4
    python examples/hogwild_sparse.py --atomic                 # atomic additions, of which none is lost
    python examples/hogwild_sparse.py --threads                # threads in one process; faster only without the GIL

The program trains a logistic regression on random samples. Each sample has up to 100 of 1,000,000 features, so that two
processes rarely change the same weight at the same time. Every step reads and writes only the weights of its sample.
The program prints the samples per second and the accuracy on unseen samples for each number of processes.

Recht, Re, Wright and Niu, "Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient Descent", NIPS 2011.
"""

import argparse
import threading
import time

import rushlight as torch
from rushlight import multiprocessing as mp

FEATURES, MOST = 1_000_000, 100


def draw(count, truth):
    """Indices, values and labels (-1 or 1) of samples. Some features are much more frequent than others, like words."""
    indices = (FEATURES * torch.rand(count, MOST) ** 14).long()
    values = torch.randn(count, MOST) * (torch.rand(count, MOST) < 0.7)
    labels = (values * truth[indices]).sum(1).sign()
    return indices, values, labels


def work(rank, processes, weights, samples, options):
    """Trains on a share of the samples for several epochs. Concurrent updates of one weight may be lost."""
    torch.set_num_threads(1)
    indices, values, labels = (part[rank::processes] for part in samples)
    for epoch in range(options.epochs):
        rate = options.lr * 0.8**epoch
        for index, value, label in zip(indices.unbind(), values.unbind(), labels.tolist()):
            margin = label * weights[index].dot(value)
            step = rate * label * torch.sigmoid(-margin).item()
            if options.atomic:
                mp.atomic_add_(weights, value, index=index, alpha=step)
            else:
                weights.index_add_(0, index, value, alpha=step)


def right(weights, samples):
    indices, values, labels = samples
    return ((values * weights[indices]).sum(1).sign() == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--samples", type=int, default=30_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--atomic", action="store_true", help="use atomic additions")
    parser.add_argument("--threads", action="store_true", help="use threads instead of processes")
    options = parser.parse_args()
    torch.manual_seed(0)
    truth = torch.randn(FEATURES)
    samples, unseen = draw(options.samples, truth), draw(5_000, truth)
    for part in samples:
        part.share_memory_()
    for processes in options.processes:
        weights = torch.zeros(FEATURES).share_memory_()
        worker_class = threading.Thread if options.threads else mp.Process
        workers = [
            worker_class(target=work, args=(rank, processes, weights, samples, options)) for rank in range(processes)
        ]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        rate = options.samples * options.epochs / (time.perf_counter() - start)
        kinds = ("thread", "threads") if options.threads else ("process", "processes")
        print(
            f"{processes} {kinds[processes > 1]}: {rate:9,.0f} samples/s, right on {right(weights, unseen):.1%} of unseen samples"
        )


if __name__ == "__main__":
    main()
