"""DistributedDataParallel: several processes train one digit classifier and average their gradients.

Every process has its own copy of the model and takes its share of each batch. The gradients are averaged during the backward pass, so
that all copies stay equal, and equal to those that one process would have.

    python examples/ddp_digits.py                                # starts two processes itself
    python examples/ddp_digits.py --processes 4
    torchrun --nproc-per-node 4 examples/ddp_digits.py
    python examples/ddp_digits.py --data FOLDER --model cnn      # a folder of MNIST IDX files, plain or .gz

Rank 0 prints the progress and writes the model and the curve.
"""

import os
import sys
import tempfile
import time

import plot
from digits import argument_parser, build, check_arguments, load_digits, load_mnist, split

import rushlight as torch
import rushlight.multiprocessing as mp
import rushlight.nn.functional as F
from rushlight import distributed as dist
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(options, training, held_out):
    """Trains as one rank of the group. Returns the curve [(epoch, loss, accuracy)], samples per second and the model."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(options.seed)
    side = training[0].shape[-1] - 2  # the images have a border
    model = DistributedDataParallel(build(options.model, side))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    data = TensorDataset(*training)
    sampler = DistributedSampler(data, seed=options.seed, drop_last=True)
    loader = DataLoader(data, batch_size=max(1, options.batch_size // size), sampler=sampler, drop_last=True)
    curve, begin = [], time.perf_counter()
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        optimizer.param_groups[0]["lr"] = options.lr * (1 - epoch / options.epochs)
        totals = torch.zeros(2, dtype=torch.float64)
        for images, labels in loader:
            x, y = torch.randint(3, (2,)).tolist()  # the same on every rank
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images[:, :, y : y + side, x : x + side]), labels)
            loss.backward()
            optimizer.step()
            totals += torch.tensor([loss.item(), 1.0])
        dist.all_reduce(totals)
        loss, right = (totals[0] / totals[1]).item(), accuracy(model.module, *held_out)
        curve.append((epoch + 1, loss, right))
        if rank == 0:
            print(f"epoch {epoch + 1:>3}/{options.epochs} loss {loss:6.4f} held-out {100 * right:5.2f} %", flush=True)
    samples = options.epochs * len(loader) * loader.batch_size * size
    return curve, samples / (time.perf_counter() - begin), model.module


def accuracy(model, images, labels):
    """The share of images that are classified correctly. Each rank looks at its part of them."""
    rank, size = dist.get_rank(), dist.get_world_size()
    with torch.no_grad():
        right = (model(images[rank::size]).argmax(1) == labels[rank::size]).sum()
    dist.all_reduce(right)
    return right.item() / len(images)


def work(rank, options, data, address):
    """One of the processes that this program has started."""
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=options.processes)
    work_in_group(options, data)


def work_in_group(options, data):
    """Trains, and writes the files on rank 0."""
    training, held_out = data
    curve, rate, model = train(options, training, held_out)
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), options.out / "model.pt")  # atomic
        plot.save(
            options.out / "curve.png",
            title=f"data parallel, {dist.get_world_size()} processes",
            x_label="epoch",
            left=("training loss", [(x, loss) for x, loss, _ in curve]),
            right=("held-out accuracy, %", [(x, 100 * right) for x, _, right in curve]),
        )
        print(f"held-out accuracy {100 * curve[-1][2]:.2f} %, {rate:,.0f} samples/s")
        print(f"wrote {options.out / 'model.pt'} and {options.out / 'curve.png'}")
    dist.destroy_process_group()


def parse():
    parser = argument_parser(__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2, help="how many, unless torchrun starts them; %(default)s")
    parser.add_argument("--epochs", type=int, default=30, help="default %(default)s")
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate at the start (default %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="of all processes together (default %(default)s)")
    options = parser.parse_args()
    check_arguments(parser, options)
    return options


def main():
    options = parse()
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        data = split(*(load_mnist(options.data) if options.data else load_digits()))
    except (OSError, ValueError) as error:
        return f"ddp_digits: {error}"
    size = int(os.environ.get("WORLD_SIZE", options.processes))
    if len(data[0][0]) < max(size, options.batch_size):
        return f"ddp_digits: {len(data[0][0])} training images for {size} processes and batches of {options.batch_size}"
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
        work_in_group(options, data)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            mp.spawn(work, (options, data, f"file://{folder}/store"), nprocs=options.processes)
        except (mp.ProcessExitedException, mp.ProcessRaisedException) as error:
            return f"ddp_digits: {error}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
