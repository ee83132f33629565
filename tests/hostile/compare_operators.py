"""Compares random and systematically wrong calls of every operator with torch, in child processes that may crash.

    python tests/hostile/compare_operators.py --calls 1000000 --findings found.jsonl   # random calls
    python tests/hostile/compare_operators.py --calls 1000000 --source sweep           # every argument, every wrong value
    python tests/hostile/compare_operators.py --source found.jsonl                     # the findings of an earlier run again
    python tests/hostile/compare_operators.py --source found.jsonl --record            # and records those that now agree

It needs an environment with torch beside rushlight, and is no part of the tests. Compared are the values, dtypes, shapes,
strides and `requires_grad` of results and changed arguments, and the classes and first lines of exceptions. The summary has
the shares that agree, and the differences grouped by what both sides said. `calls.py` makes the calls, `compared.py` compares.
"""

import argparse
import json
import re
import subprocess
import sys
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path

from calls import Call
from compared import EXCLUDED, SEVERITY, Verdict, recorded

import rushlight

SCRIPT = Path(__file__).with_name("compared.py")
#: Calls that once differed from torch, and what torch said. `test_recorded_calls.py` makes them again.
RECORD = SCRIPT.parent.parent / "data" / "recorded_calls.txt"
#: The number of calls per process.
COUNT = 20_000


def verdicts(source, first, calls):
    """Yields a `Verdict` for each comparable call. After a crash a new process continues with the next call."""
    at, last = first, first + calls
    while at < last:
        end = min(at + COUNT, last)
        begun = at
        command = [sys.executable, str(SCRIPT), str(at), str(end), source]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            lines = []
            for line in child.stdout:
                lines.append(line)
                if line == "half\n" or len(lines) == 1:
                    continue
                at += 1
                lines.clear()
                if found := json.loads(line):
                    yield Verdict(*found)
            error = child.stderr.read()
        if lines:
            at += 1
            side = "ours" if len(lines) > 1 else "theirs"
            yield Verdict(
                "crash",
                "answered",
                json.loads(lines[0]),
                **{"ours": "", "theirs": "", side: f"ended with {child.returncode}"},
            )
        elif child.returncode:
            raise SystemExit(error)
        elif at == begun:  # the source has no more calls
            return


def pattern(said):
    """A message without what differs from call to call."""
    said = re.sub(r"'[^']*'|\"[^\"]*\"", "'_'", said)
    said = re.sub(r"\b[\w.]+\(\)|(?<=: )[\w.]+(?=: )", "F()", said)
    said = re.sub(r"[\[(][-\d., ]*[\])]", "[_]", said)
    said = re.sub(
        r"\b(torch\.)?(bool|u?int\d+|b?float\d+|complex\d+|Bool|Byte|Char|Short|Int|Long|U?Int\d+|Half|BFloat16|Float|Double|Complex\w+)(Type|Tensor)?\b",
        "D",
        said,
    )
    said = re.sub(r"-?\b\d+(\.\d+)?(e[-+]?\d+)?\b|\bnan\b|-?\binf\b", "N", said)
    return re.sub(r"got \(.*\),", "got (_),", said)[:160]


def known(found):
    """Why a difference is left out; empty if it is not."""
    said = f"{found.differs} {found.call[0]}({found.call[1]}) {found.call[2]} {found.ours} -> {found.theirs}"
    reasons = (reason for pattern, reason in EXCLUDED if found.differs and re.search(pattern, said))
    return next(reasons, "")


def group(found):
    """What findings of one cause have in common."""
    if found.differs in ("class", "sentence"):
        return found.differs, pattern(found.ours), pattern(found.theirs)
    if found.differs == "refused":
        return found.differs, pattern(found.ours), ""
    if found.differs == "answered":
        return found.differs, "", pattern(found.theirs)
    return found.differs, found.call[0].split(".")[-1], ""


def summary(counts, groups, shown):
    answered, refused = counts["both answered"], counts["both refused"]
    yield f"{sum(counts[key] for key in ('both answered', 'both refused', 'one refused', 'crash'))} calls compared"
    yield f"one side refused: {counts['one refused']}; crashes: {counts['crash']}; left out: {counts['left out']}"
    if answered:
        parts = (key for key in SEVERITY if key not in ("answered", "refused", "class", "sentence", ""))
        yield f"both answered: {answered}; differ in " + ", ".join(
            f"{part} {counts[part]} ({counts[part] / answered:.3%})" for part in parts
        )
    if refused:
        agree = refused - counts["class"]
        yield f"both refused: {refused}; agree in class {agree / refused:.2%}, also in the first line {(agree - counts['sentence']) / refused:.2%}"
    yield from (f"left out: {counts[reason]}, {reason}" for _, reason in EXCLUDED if counts.get(reason))
    ranked = sorted(groups.items(), key=lambda item: -len(item[1]))
    for (differs, ours, theirs), found in ranked[:shown]:
        names = Counter(one.call[0] for one in found)
        yield f"\n{len(found)} {differs}, {len(names)} names: {', '.join(name for name, _ in names.most_common(4))}"
        yield from (f"    {side}: {said}" for side, said in (("ours", ours), ("torch", theirs)) if said)
        for one in found[:: max(1, len(found) // 2)][:2]:
            yield f"    e.g. torch.{one.call[0]}({one.call[1]}) {one.call[2]}"
            yield from (
                f"         {side}: {said}" for side, said in (("ours", one.ours), ("torch", one.theirs)) if said
            )


def record(source, agreed):
    """Adds to the record one call of each group of an earlier run's findings that now agree, if it has none of the group."""
    warnings.simplefilter("ignore")
    text = RECORD.read_text() if RECORD.exists() else ""
    entries = {entry for entry in text.split("\n\n") if entry}
    groups = defaultdict(list)
    with open(source) as file:
        for line in file:
            found = Verdict(*json.loads(line))
            found = found._replace(call=Call(*found.call))
            if found.differs in ("sentence", "class", "answered", "refused"):
                groups[group(found)].append(found.call)
    for calls in groups.values():
        written = [entry_of(call) for call in calls if call in agreed]
        if written and not entries.intersection(written):
            entries.add(min(written, key=len))
    RECORD.write_text("\n\n".join(sorted(entries)) + "\n")


def entry_of(call):
    return f"{call.name}({call.arguments})  # {call.dtype}\n{recorded(rushlight, call)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=1_000_000_000)
    parser.add_argument("--source", default="0", help="a seed, `sweep`, or a file of findings")
    parser.add_argument("--first", type=int, default=0, help="the first call")
    parser.add_argument("--findings", type=Path, help="a file for the findings, one a line")
    parser.add_argument("--record", action="store_true", help="record findings of the source that now agree")
    parser.add_argument("--groups", type=int, default=40, help="how many groups to print")
    options = parser.parse_args()
    started, counts, groups, agreed = time.monotonic(), Counter(), defaultdict(list), set()
    file = options.findings.open("w") if options.findings else None
    try:
        for found in verdicts(options.source, options.first, options.calls):
            if reason := known(found):
                counts["left out"] += 1
                counts[reason] += 1
                continue
            one = found.differs in ("answered", "refused")
            counts["crash" if found.differs == "crash" else "one refused" if one else f"both {found.ending}"] += 1
            if not found.differs:
                agreed.add(Call(*found.call))
            else:
                counts[found.differs] += 1
                groups[group(found)].append(found)
                if file:
                    file.write(json.dumps(found) + "\n")
    except KeyboardInterrupt:  # the summary of the calls so far
        pass
    if options.record:
        record(options.source, agreed)
    print("\n".join(summary(counts, groups, options.groups)))
    print(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
