#!/usr/bin/env python3
"""Changes of the engine that its models must notice.

Each is made in a copy, one at a time: the model named beside it must fail there, or this program does.

    mutants.py [NAME...]    those whose model's name begins so, or all
"""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "target/proofs/mutants"
NAME = "rushlight-mutant"
SOURCES = ["core/src", "par/src", "tasks/src", "autograd/src", "proofs"]
# No model of these takes so many seconds when it is right.
PATIENCE = 120

# The model, a file, what stands there, and what is put in its place.
MUTANTS = [
    # Locks that were enrolled during `prepare` stay open.
    ("fork-finds-whole-values", "core/src/fork.rs", "if entries.len() == known.len() {", "if entries.len() >= known.len() {"),
    ("fork-child-finds-whole-values", "core/src/fork.rs", "        if !self.registered.load(Ordering::Acquire) {\n            self.register();", "        if false {\n            self.register();"),
    ("fork-while-locks-nest", "core/src/fork.rs", "            entries.sort_by_key(|entry| entry.rank);\n", ""),
    # The registry's lock is held while others are taken.
    ("fork-while-locks-nest", "core/src/fork.rs", "        let known = entries().clone();\n        known.iter().for_each(|entry| entry.lock.acquire());\n", "        let first = entries();\n        let known = first.clone();\n        known.iter().for_each(|entry| entry.lock.acquire());\n        drop(first);\n"),
    ("fork-while-locks-nest", "core/src/fork.rs", "        drop(entries);\n        open(&known);\n", "        drop(entries);\n"),
    ("fork-runs-hooks", "core/src/fork.rs", "        if !self.registered.swap(true, Ordering::AcqRel) {\n            hooks.push(self.hook);", "        if !self.registered.load(Ordering::Acquire) {\n            hooks.push(self.hook);"),
    # What helpers wrote is not seen by the caller.
    ("loop-of-two", "par/src/job.rs", "job.active.fetch_sub(1, Ordering::Release)", "job.active.fetch_sub(1, Ordering::Relaxed)"),
    ("loop-of-two", "par/src/job.rs", "active = self.active.load(Ordering::Acquire);", "active = self.active.load(Ordering::Relaxed);"),
    ("loop-of-two", "par/src/job.rs", "while active & !CLOSED != 0 {", "while round > SPINS {"),
    ("loop-of-two", "par/src/job.rs", "            job.caller.unpark();\n", ""),
    ("loop-of-two", "par/src/job.rs", "share.next.fetch_add(1, Ordering::Relaxed)", "share.next.load(Ordering::Relaxed);\n                    share.next.store(piece + 1, Ordering::Relaxed)"),
    ("loop-after-loop", "par/src/job.rs", "own, Ordering::AcqRel, Ordering::Relaxed).is_ok()", "own, Ordering::Relaxed, Ordering::Relaxed).is_ok()"),
    ("loop-after-loop", "par/src/job.rs", "self.0.swap(self.busy(), Ordering::AcqRel)", "self.0.swap(self.busy(), Ordering::Relaxed)"),
    # A job told to a worker that falls asleep is forgotten.
    ("loop-after-loop", "par/src/job.rs", "        if heard == self.listening() {\n", "        if self.0.load(Ordering::Relaxed) == self.busy() && heard != ptr::null_mut() {\n"),
    ("loop-panics", "par/src/job.rs", ".get_or_insert(payload);", ";\n            drop(payload);"),
    ("loop-in-a-child", "par/src/pool.rs", "    let mut state = POOL.lock();\n    state.refusal = None;\n", "    let mut state = POOL.lock();\n    std::mem::forget(POOL.lock());\n    state.refusal = None;\n"),
    ("task-and-waiter", "tasks/src/future.rs", "self.state.store(DONE, Ordering::Release);", "self.state.store(DONE, Ordering::Relaxed);"),
    ("task-and-waiter", "tasks/src/future.rs", "        self.state.store(DONE, Ordering::Release);\n        futex::wake(&self.state, i32::MAX);", "        futex::wake(&self.state, i32::MAX);\n        self.state.store(DONE, Ordering::Release);"),
    ("task-of-two-waiters", "tasks/src/future.rs", "        if self.state.compare_exchange(PENDING, running(), Ordering::Acquire, Ordering::Relaxed).is_err() {\n            return;\n        }", "        if self.state.load(Ordering::Acquire) != PENDING {\n            return;\n        }\n        self.state.store(running(), Ordering::Release);"),
    ("task-in-a-child", "tasks/src/future.rs", "    2 + fork::generation() as u32 % (u32::MAX - 2)", "    2"),
    # An idle thread looks at the count of news after it has looked at the queue.
    ("task-without-waiter", "tasks/src/executor.rs", "        queue.idle += 1;\n        drop(queue);\n", "        queue.idle += 1;\n        drop(queue);\n        let news = WAKEUPS.load(Ordering::Acquire);\n"),
    ("task-while-idle-threads-go", "tasks/src/executor.rs", "        if queue.tasks.is_empty() && WAKEUPS.load(Ordering::Acquire) == news {", "        {"),
    ("task-deadlock", "tasks/src/deadlock.rs", "    while next != own {", "    loop {"),
    ("task-after-close", "tasks/src/executor.rs", "    if queue.closed {\n        return future;\n    }\n", ""),
    ("arena-message", "core/src/shared/arena.rs", "                    self.lease.claim(span(slot))?;\n", ""),
    ("arena-message", "core/src/shared/arena.rs", "        if self.lease.other_claim(&(0..self.map.len()))?.is_none() {", "        if self.lease.other_claim(&(0..1))?.is_none() {"),
    ("arena-message-goes-on", "core/src/shared/arena.rs", "            claim(descriptor.as_fd(), slot)?;\n", "            let _ = slot;\n"),
    ("arena-map-stays", "core/src/shared/arena.rs", "Mapping::new(sys::reopen(descriptor)?.as_fd(), size)", "Mapping::new(descriptor, size)"),
    ("arena-receiver-renews", "core/src/shared/arena.rs", "self.live.keys().map(|&slot| span(slot)).collect()", "Vec::new()"),
    # The claims of a forked child are those of its parent's lease.
    ("arena-fork", "core/src/shared/arena.rs", "    pub fn reclaim(&mut self) -> Result<()> {\n        self.renew()?;\n", "    pub fn reclaim(&mut self) -> Result<()> {\n"),
    ("arena-fork", "core/src/shared/arena.rs", "Lease::new(self.lease.as_fd(), covered)", "Lease::new(self.lease.as_fd(), covered.filter(|_| false))"),
    # Look for the block first, be seen inside afterwards; or in an order that is one for each thread alone.
    ("storage-replaced-while-read", "core/src/storage.rs", "        self.0.pins.fetch_add(1, Ordering::SeqCst);\n        Hold { cell: &self.0, block: self.0.block.load(Ordering::SeqCst) }", "        let block = self.0.block.load(Ordering::SeqCst);\n        self.0.pins.fetch_add(1, Ordering::SeqCst);\n        Hold { cell: &self.0, block }"),
    ("storage-replaced-while-read", "core/src/storage.rs", "        self.0.pins.fetch_add(1, Ordering::SeqCst);\n        Hold { cell: &self.0, block: self.0.block.load(Ordering::SeqCst) }", "        self.0.pins.fetch_add(1, Ordering::AcqRel);\n        Hold { cell: &self.0, block: self.0.block.load(Ordering::Acquire) }"),
    ("storage-replaced-while-read", "core/src/storage.rs", "self.cell.pins.fetch_sub(1, Ordering::AcqRel)", "self.cell.pins.fetch_sub(1, Ordering::Relaxed)"),
    ("storage-replaced-twice", "core/src/storage.rs", "        while !list.is_null() {\n            // SAFETY: the caller guarantees unique access; each node", "        if !list.is_null() {\n            // SAFETY: the caller guarantees unique access; each node"),
    ("counted-strong", "core/src/counted.rs", "now - STRONG, Ordering::Release, Ordering::Acquire)", "now - STRONG, Ordering::Relaxed, Ordering::Acquire)"),
    ("counted-strong", "core/src/counted.rs", "counts.load(Ordering::Acquire) == ONLY", "counts.load(Ordering::Relaxed) == ONLY"),
    ("counted-three-threads", "core/src/counted.rs", "                    fence(Ordering::Acquire);\n                    return self.end(false);", "                    return self.end(false);"),
    ("counted-kept", "core/src/counted.rs", "now & KEPT != 0 && strong(now) == 2", "false"),
    ("counted-weak", "core/src/counted.rs", "(strong(now) != 0).then_some(now + STRONG)", "Some(now + STRONG)"),
    ("counted-weak", "core/src/counted.rs", "counts.fetch_sub(WEAK, Ordering::Release)", "counts.fetch_sub(WEAK, Ordering::Relaxed)"),
    ("counted-weak", "core/src/counted.rs", "        fence(Ordering::Acquire);\n        // SAFETY: that was", "        // SAFETY: that was"),
    ("slot-excludes", "autograd/src/lock.rs", "self.holder.store(0, Ordering::Release);", "self.holder.store(0, Ordering::Relaxed);"),
    ("slot-excludes", "autograd/src/lock.rs", "if self.holder.compare_exchange(0, mine, Ordering::Acquire,", "if self.holder.compare_exchange(0, mine, Ordering::Relaxed,"),
    ("slot-excludes", "autograd/src/lock.rs", "if seen != mine && self.holder", "if self.holder"),
]  # fmt: skip


def copy() -> None:
    """What the models are compiled from, as a workspace of its own."""
    shutil.rmtree(COPY, ignore_errors=True)
    for source in SOURCES:
        shutil.copytree(ROOT / "rust" / source, COPY / "rust" / source)
    shutil.copy(ROOT / "Cargo.lock", COPY)
    manifest = (ROOT / "Cargo.toml").read_text()
    (COPY / "Cargo.toml").write_text(manifest.replace('members = ["rust/*"]', 'members = ["rust/proofs"]'))
    # Under another name, since the folder of what is built is the same, and with it what loom needs.
    own = COPY / "rust/proofs/Cargo.toml"
    own.write_text(own.read_text().replace('name = "rushlight-proofs"', f'name = "{NAME}"'))


def run(model: str) -> str:
    """What became of the model: `passed`, `failed`, or `not built` with the compiler's words."""
    build = ["cargo", "build", "--quiet", "--package", NAME, "--features", "loom"]
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(ROOT / "target"),
        "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
        "RUST_BACKTRACE": "0",
    }
    built = subprocess.run(
        build, cwd=COPY, env=environment | {"RUSTFLAGS": "--cap-lints=allow"}, capture_output=True, text=True
    )
    if built.returncode != 0:
        return "not built\n" + built.stderr
    program = [str(ROOT / "target/debug" / NAME), model]
    try:
        done = subprocess.run(program, env=environment, capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return "failed"
    return "failed" if done.returncode != 0 else "passed"


def main(asked: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not asked or any(mutant[0].startswith(name) for name in asked)]
    copy()
    wrong = 0
    for model, name, before, after in chosen:
        path = COPY / "rust" / name
        text = path.read_text()
        line = " ".join(before.split())[:60]
        if text.count(before) != 1:
            outcome = "is not there"
        else:
            path.write_text(text.replace(before, after))
            outcome = run(model)
            path.write_text(text)
        wrong += outcome != "failed"
        print(f"{'ok' if outcome == 'failed' else 'WRONG, ' + outcome}: {model}: {name}: {line}", flush=True)
    print(f"{len(chosen) - wrong} of {len(chosen)} changes were noticed")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
