"""Hogwild: several processes train one digit classifier in shared memory, without a lock.

The model's parameters are in shared memory. Every process shuffles the training images independently, computes
gradients on its own batches and updates the shared parameters without waiting for the others. Two updates of the same
parameter may coincide, and one of them may then be lost. This is rare and does no harm (Recht and others, 2011).

    python examples/hogwild_digits.py                            # the 1,797 UCI digits beside this file
    python examples/hogwild_digits.py --processes 4 --epochs 60
    python examples/hogwild_digits.py --data FOLDER --model cnn  # a folder of MNIST IDX files, plain or .gz

The parent process does not train. It reads a shared scoreboard, draws the progress and measures the accuracy on
held-out images once per epoch. Ctrl-C stops the workers and keeps the model. Workers end by themselves if their parent
ends.
"""

import os
import random
import shutil
import signal
import sys
import threading
import time
from multiprocessing.connection import wait

import plot
from digits import accuracy, argument_parser, build, check_arguments, load_digits, load_mnist, split

import rushlight as torch
import rushlight.multiprocessing as mp
import rushlight.nn.functional as F

# ---- training -------------------------------------------------------------------------------------------------------


def leave_with_parent():
    """Waits until the parent has ended, and then ends this process."""
    mp.parent_process().join()
    os._exit(1)


def work(rank, model, data, board, stop, options):
    """One worker. It takes an equal share of the training images in every epoch, after shuffling all of them.

    `board[rank]` is this worker's line of the scoreboard: the samples done and the recent mean loss.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of the group; the parent handles it
    torch.set_flush_denormal(True)  # the momentum of inactive units decays to denormal numbers, which are slow
    threading.Thread(target=leave_with_parent, daemon=True).start()
    torch.manual_seed(options.seed + 1 + rank)
    random.seed(options.seed + 1 + rank)
    images, labels = data
    share, side = len(images) // options.processes, images.shape[-1] - 2
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    line, done, mean = board[rank], 0, None
    model.train()
    for epoch in range(options.epochs):
        optimizer.param_groups[0]["lr"] = options.lr * (1 - epoch / options.epochs)
        order = torch.randperm(len(images))[:share]
        for batch in order.split(options.batch_size):
            if stop.item():
                return
            optimizer.zero_grad()
            x, y = random.randrange(3), random.randrange(3)
            shifted = images[batch][:, :, y : y + side, x : x + side]
            loss = F.cross_entropy(model(shifted), labels[batch])
            loss.backward()
            optimizer.step()
            done += len(batch)
            mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
            line[0], line[1] = done, mean


def train(model, training, held_out, options):
    """Runs the workers. Returns the curve [(epoch, loss, accuracy)], samples per second and the number of failures."""
    board = torch.zeros(options.processes, 2, dtype=torch.float64).share_memory_()
    stop = torch.zeros(1, dtype=torch.int64).share_memory_()
    total = len(training[0]) // options.processes * options.processes * options.epochs
    arguments = (model, training, board, stop, options)
    workers = [
        mp.get_context(options.start).Process(target=work, args=(rank, *arguments)) for rank in range(options.processes)
    ]

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited by the workers
    try:
        for worker in workers:
            worker.start()
        signal.signal(signal.SIGINT, lambda *_: stop.fill_(1))
        curve, rate = watch(workers, board, stop, model, held_out, total, options)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C does not interrupt saving the model
        for worker in workers:
            if worker.pid is not None:
                worker.kill()  # no effect if the worker has ended
                worker.join()
    failed = [(rank, worker.exitcode) for rank, worker in enumerate(workers) if worker.exitcode]
    for rank, code in failed:
        why = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        print(f"worker {rank} (process {workers[rank].pid}) {why}", file=sys.stderr)
    return curve, rate, len(failed)


def watch(workers, board, stop, model, held_out, total, options):
    """Draws the progress and measures the model once per epoch until all workers have ended."""
    bar, curve = Bar(total, options.epochs), []
    begin = first = last = seen = measured = right = 0
    alive = True
    while alive:
        alive = any(worker.is_alive() for worker in workers)
        lines = [(samples, loss) for samples, loss in board.tolist() if samples]
        done, now = sum(samples for samples, _ in lines), time.perf_counter()
        if done > seen:
            if not begin:
                begin, first = now, done
            seen, last = done, now
        rate = (seen - first) / (last - begin) if last > begin else 0.0
        loss = sum(loss for _, loss in lines) / max(len(lines), 1)
        position = done * options.epochs / total
        if int(position) > int(measured) or (not alive and position > measured):
            measured, right = position, accuracy(model, *held_out)
            curve.append((position, loss, right))
            bar.line(done, loss, rate, right)
        bar.draw(done, loss, rate, right)
        if alive:
            wait([worker.sentinel for worker in workers if worker.is_alive()], timeout=0.05)
    bar.close("interrupted: the model is what was learnt so far" if stop.item() else None)
    return curve, rate


class Bar:
    """A progress line. On a terminal it is redrawn in place; elsewhere each epoch prints a line."""

    WIDTH = 28

    def __init__(self, total, epochs):
        self.total, self.epochs = total, epochs
        self.terminal = sys.stdout.isatty()

    def text(self, done, loss, rate, right):
        filled = min(int(self.WIDTH * done // self.total), self.WIDTH)
        epoch = min(int(done * self.epochs // self.total), self.epochs)
        return (
            f"epoch {epoch:>3}/{self.epochs} |{'#' * filled}{'.' * (self.WIDTH - filled)}| "
            f"loss {loss:6.4f}  {rate:9,.0f} samples/s  held-out {100 * right:5.2f} %"
        )

    def draw(self, *figures):
        if self.terminal:  # a line wider than the window cannot be redrawn in place
            text = self.text(*figures)[: shutil.get_terminal_size().columns - 1]
            print(f"\r{text}\x1b[K", end="", flush=True)

    def line(self, *figures):
        if not self.terminal:
            print(self.text(*figures), flush=True)

    def close(self, note):
        if self.terminal:
            print()
        if note:
            print(note)


# ---- the program ----------------------------------------------------------------------------------------------------


def parse():
    parser = argument_parser(__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2, help="worker processes (default %(default)s)")
    parser.add_argument("--start", choices=mp.get_all_start_methods(), help="how workers are started (default: fork)")
    parser.add_argument("--epochs", type=int, help="passes over the training images, which the workers share out")
    parser.add_argument("--lr", type=float, help="learning rate at the start (default 0.05, of cnn 0.03)")
    parser.add_argument("--batch-size", type=int, default=64, help="default %(default)s")
    options = parser.parse_args()
    if options.lr is None:
        options.lr = 0.03 if options.model == "cnn" else 0.05
    if options.epochs is None:
        options.epochs = 12 if options.data else 100
    check_arguments(parser, options)
    return options


def main():
    options = parse()
    torch.manual_seed(options.seed)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        if not os.access(options.out, os.W_OK):  # check before the training
            raise PermissionError(f"{options.out}: no permission to write there")
        images, labels = load_mnist(options.data) if options.data else load_digits()
    except (OSError, ValueError) as error:
        return f"hogwild_digits: {error}"
    training, held_out = split(images, labels)
    if len(training[0]) < options.processes:
        return f"hogwild_digits: {options.processes} processes for {len(training[0])} training images"
    model = build(options.model, images.shape[-1])
    for tensor in training:
        tensor.share_memory_()
    model.share_memory()
    print(
        f"{len(training[0])} images to train on, {len(held_out[0])} held out; "
        f"{options.model} with {sum(p.numel() for p in model.parameters()):,} parameters; {options.processes} processes"
    )
    try:
        curve, rate, failed = train(model, training, held_out, options)
    except OSError as error:  # out of memory, or too many processes
        return f"hogwild_digits: cannot start {options.processes} processes: {error}"

    torch.save(model.state_dict(), options.out / "model.pt")  # atomic
    plot.save(
        options.out / "curve.png",
        title=f"Hogwild, {options.processes} processes",
        x_label="epoch",
        left=("training loss", [(x, loss) for x, loss, _ in curve]),
        right=("held-out accuracy, %", [(x, 100 * right) for x, _, right in curve]),
    )
    print(f"held-out accuracy {100 * accuracy(model, *held_out):.2f} %, {rate:,.0f} samples/s")
    print(f"wrote {options.out / 'model.pt'} and {options.out / 'curve.png'}")
    if failed == options.processes:
        return "hogwild_digits: all workers failed; the model is as they left it"
    return 0


if __name__ == "__main__":
    sys.exit(main())
