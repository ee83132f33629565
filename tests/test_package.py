"""`torch.package`: importers, which find modules by name and objects in them."""

import math

import pytest

import rushlight as torch
from rushlight.package import Importer, ObjMismatchError, ObjNotFoundError, OrderedImporter, sys_importer


class Outer:
    class Inner:
        pass


@pytest.mark.parametrize(
    "value, names",
    [
        (math.sin, ("math", "sin")),
        (dict, ("builtins", "dict")),
        (torch.nn.Linear, ("rushlight.nn.modules.linear", "Linear")),
        (torch.float32, ("rushlight", "float32")),
        (Outer.Inner, (__name__, "Outer.Inner")),
    ],
)
def test_names_lead_back_to_the_object(value, names):
    for importer in (sys_importer, OrderedImporter(sys_importer)):
        assert importer.get_name(value) == names
    found = sys_importer.import_module(names[0])
    for part in names[1].split("."):
        found = getattr(found, part)
    assert found is value


def test_other_objects_and_names_are_refused():
    class Local:
        pass

    with pytest.raises(ObjNotFoundError):
        sys_importer.get_name(Local)
    with pytest.raises(ObjMismatchError):
        sys_importer.get_name(math.cos, "sin")
    with pytest.raises(ModuleNotFoundError):
        sys_importer.import_module("no.such.module")


def test_the_first_importer_that_has_a_module_is_used():
    class Own(Importer):
        def import_module(self, module_name):
            if module_name != "own":
                raise ModuleNotFoundError(module_name)
            return torch.nn

    importer = OrderedImporter(Own(), sys_importer)
    assert importer.import_module("own") is torch.nn and importer.import_module("math") is math
    with pytest.raises(ModuleNotFoundError):
        importer.import_module("no.such.module")
    with pytest.raises(ModuleNotFoundError):
        OrderedImporter().import_module("math")
    with pytest.raises(TypeError, match="3 is not a Importer"):
        OrderedImporter(3).import_module("math")
    with pytest.raises(TypeError):
        Importer()
