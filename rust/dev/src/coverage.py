"""Prints the names in its input that rushlight does not have, or that only refuse every call."""

import sys

import rushlight

for name in sys.stdin.read().split():
    place = rushlight
    try:
        for part in name.removeprefix("torch.").split("."):
            place = getattr(place, part)
        if getattr(place, "__unsupported__", False):
            print(name)
    except (AttributeError, ImportError):
        print(name)
