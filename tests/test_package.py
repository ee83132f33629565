"""`torch.package`: importers, which find modules by name and objects in them, and packages that torch wrote."""

import inspect
import io
import json
import math
import os
import pickle
import sys
import zipfile
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.package import (
    GlobGroup,
    Importer,
    ObjMismatchError,
    ObjNotFoundError,
    OrderedImporter,
    PackageImporter,
    sys_importer,
)


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


WRITTEN_BY_TORCH = Path(__file__).parent / "data" / "package.pt"


def package(files, external=""):
    """An archive with these files, as bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in {".data/extern_modules": external, ".data/version": "6\n", **files}.items():
            archive.writestr(f"archive/{name}", text)
    return io.BytesIO(made.getvalue())


def importer(files, external=""):
    return PackageImporter(package(files, external))


def test_a_package_of_torch_is_read():
    found = PackageImporter(WRITTEN_BY_TORCH)
    net = found.load_pickle("objects", "net.pkl")
    assert type(net).__module__ == f"{found.id()}.shapes.net" and torch.package.is_from_package(net)
    assert net(torch.ones(1, 3)).tolist() == [[4.0, 1.0]] and isinstance(net, torch.nn.Module)
    values = found.load_pickle("objects", "values.pkl")
    assert values["part"].tolist() == [2, 3, 4, 5] and values["half"].dtype == torch.float16
    assert values["part"].untyped_storage().data_ptr() == values["whole"].untyped_storage().data_ptr()
    areas = found.import_module("shapes.areas")
    assert type(values["circle"]) is areas.Circle and values["circle"].grown().radius == 5
    assert values["dtype"] is torch.int32 and found.import_module("torch") is torch
    assert areas.circle(2) == math.pi * 4 and found.import_module("shapes").areas is areas
    assert found.load_text("texts", "one.txt") == "één" and found.load_binary("texts", "two.bin") == b"\0\1"
    assert found.python_version().startswith("3.") and "math" in found.extern_modules


def test_modules_of_a_package_are_its_own():
    files = {
        "pack/__init__.py": "from . import one\nfrom .one import *",
        "pack/one.py": "import pack.two, math\n__all__ = ['x']\nx = pack.two.y + 1\ndef where(): return __name__, __file__, __package__",
        "pack/two.py": "import torch_package_importer\ny = 1",
        "pack/deep/end.py": "from ..two import y as z\nfrom ... import out",
    }
    found = importer(files, "math")
    pack = found.import_module("pack")
    assert pack.x == 2 and pack.__path__ == [] and "pack" not in sys.modules
    assert pack.one.where() == (f"{found.id()}.pack.one", f"{found.id()}.pack/one.py", "pack")
    assert pack.two.torch_package_importer is found and pack.two.__loader__ is found
    assert inspect.getsource(pack.one.where).startswith("def where()")
    with pytest.raises(ImportError, match="beyond top-level package"):
        found.import_module("pack.deep.end")
    again = importer(files, "math")
    assert again.import_module("pack") is not pack and again.id() != found.id()
    assert found.get_name(pack.one.where) == ("pack.one", "where")
    assert found.get_source("pack.two").endswith("y = 1")


def test_a_module_that_fails_is_not_kept():
    found = importer({"bad.py": "raise ValueError('inside')", "half.py": "import missing"})
    for _ in range(2):
        with pytest.raises(ValueError, match="inside"):
            found.import_module("bad")
    with pytest.raises(ModuleNotFoundError, match='No module named "missing" in self-contained archive "<binary>"'):
        found.import_module("half")
    assert set(found.modules) == {"torch_package_importer"}
    with pytest.raises(ValueError, match="Empty module name"):
        found.import_module("")


def test_external_modules_are_those_that_the_package_names():
    found = importer({"own.py": "import os.path, math\njoin = os.path.join"}, "math\nos.path\n")
    assert found.import_module("own").join is os.path.join
    with pytest.raises(ModuleNotFoundError, match="not in the list of allowed external modules: .'math', 'os.path'."):
        found.import_module("json")
    with pytest.raises(ImportError, match="needs the external module 'math' but that module has been disallowed"):
        PackageImporter(package({}, "math"), lambda name: name != "math")


def test_pickles_find_classes_in_the_package_alone():
    text = b"cjson\nloads\n."
    with pytest.raises(ModuleNotFoundError, match='No module named "json"'):
        importer({"objects/one.pkl": text}).load_pickle("objects", "one.pkl")
    found = importer({"objects/one.pkl": text}, "json").load_pickle("objects", "one.pkl")
    assert found is json.loads


def test_files_are_listed():
    found = importer({"pack/a.txt": "", "pack/b/c.txt": "", "d.py": ""})
    tree = found.file_structure(exclude=".data/*")
    assert str(tree) == (
        "─── <binary>\n    ├── pack\n    │   ├── b\n    │   │   └── c.txt\n    │   └── a.txt\n    └── d.py\n"
    )
    assert tree.has_file("pack/b/c.txt") and not tree.has_file("pack/b") and not tree.has_file("e")
    reader = found.get_resource_reader("pack")
    assert reader.contents() == ["a.txt", "b"] and reader.is_resource("a.txt") and not reader.is_resource("c.txt")
    assert reader.open_resource("a.txt").read() == b"" and found.get_resource_reader("d") is None
    assert not GlobGroup(["a.*", "b.**"], exclude="b.c").matches("a.b.c") and GlobGroup("b.**").matches("b")
    with pytest.raises(ValueError, match="can only appear as an entire path segment"):
        GlobGroup("a**")


def test_a_folder_is_a_package(tmp_path):
    with zipfile.ZipFile(WRITTEN_BY_TORCH) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "secret.txt").write_text("out of reach")
    found = PackageImporter(next(path for path in tmp_path.iterdir() if path.is_dir()))
    assert found.load_pickle("objects", "net.pkl").layer.bias.tolist() == [1.0, -100.0]
    with pytest.raises(RuntimeError, match="failed locating file"):
        found.zip_reader.read("../secret.txt")
    with pytest.raises(ValueError, match="must be only a file name"):
        found.load_text("texts", "../one.txt")
    with pytest.raises(TypeError, match="is not a package"):
        found.load_text("shapes.areas", "one.txt")


def test_damaged_archives_are_refused():
    whole = WRITTEN_BY_TORCH.read_bytes()
    for damaged in (b"", b"PK\3\4", whole[: len(whole) // 2], whole[:40] + b"\xff" * 40 + whole[80:]):
        with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
            found = PackageImporter(io.BytesIO(damaged))
            for name in found.zip_reader.names():
                found.zip_reader.read(name)
    with pytest.raises(RuntimeError, match="No such file or directory, file path: nowhere.pt"):
        PackageImporter("nowhere.pt")
    short = b"\x80\x02(X\x07\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpuM\xff\x7ftQ."
    with pytest.raises(RuntimeError, match="has 4 bytes, not 32767 elements"):
        importer({"objects/one.pkl": short, ".data/0.storage": "four"}).load_pickle("objects", "one.pkl")
    with pytest.raises(pickle.UnpicklingError, match="Unknown typename for persistent_load"):
        importer({"objects/one.pkl": b"\x80\x02X\1\0\0\0a\x85Q."}).load_pickle("objects", "one.pkl")


def test_objects_may_be_made_by_the_importer():
    made = "def make(importer, *given):\n    return importer, given"
    text = b"\x80\x02(X\x0e\0\0\0reduce_packageK\1cown\nmake\nK\2K\3\x86tQ."
    found = importer({"objects/one.pkl": text, "own.py": made})
    assert found.load_pickle("objects", "one.pkl") == (found, (2, 3))
