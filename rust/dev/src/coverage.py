"""Prints the names in its input that rushlight does not have."""

import sys

import rushlight

for name in sys.stdin.read().split():
    place = rushlight
    try:
        for part in name.removeprefix("torch.").split("."):
            place = getattr(place, part)
    except (AttributeError, ImportError):
        print(name)
