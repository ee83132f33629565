"""Names in error messages: those of the operands, from the line of the call, and those of parameters.

Everything here runs when an error is raised, so that it may take time but must not fail.
"""

from __future__ import annotations

import ast
import gc
import linecache
import sys
from itertools import islice

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from rushlight import Tensor

_SHAPES = ("with the shape", "with shapes:", "with shapes, aligned to the right:")
_LONGEST = 40


def with_names(message: str) -> str:
    """The message with each operand's name beside its shape.

    Nothing is added unless the call has as many operands as the message has shapes, and the variables have these shapes.
    """
    try:
        frame = sys._getframe(1)
        if frame.f_globals.get("__name__", "").partition(".")[0] == "rushlight":
            return message
        lines = message.split("\n")
        first = next(at for at, line in enumerate(lines) if line.startswith("  in ") and line.endswith(_SHAPES)) + 1
        shapes = [line for line in lines[first:] if line.startswith("    (") and line.endswith(")")]
        operands = _operands(frame, _call(frame))
        if len(operands) != len(shapes):
            return message
        names = [_name(frame, operand, shape) for operand, shape in zip(operands, shapes)]
    except Exception:
        return message
    for at, name in enumerate(names, first):
        if name:
            lines[at] += f"  {name}"
    after = len(names) + first
    for letter, name in zip("ab", names):
        if name:
            lines[after:] = [line.replace(f" {letter}.unsqueeze(", f" {name}.unsqueeze(") for line in lines[after:]]
    return "\n".join(lines)


def _call(frame: FrameType) -> ast.AST:
    """The expression or statement that the frame is about to finish."""
    places = frame.f_code.co_positions()
    start, end, left, right = next(islice(places, frame.f_lasti // 2, None))
    if start is None or end is None or left is None or right is None:
        raise LookupError("the code has no positions")
    source = [line.encode() for line in linecache.getlines(frame.f_code.co_filename, frame.f_globals)[start - 1 : end]]
    source[-1] = source[-1][:right]
    source[0] = source[0][left:]
    text = b"".join(source).decode()
    try:
        return ast.parse(f"({text}\n)", mode="eval").body
    except SyntaxError:
        return ast.parse(text).body[0]


def _operands(frame: FrameType, call: ast.AST) -> list[ast.expr]:
    """The operands of a call that may be tensors, in their order."""
    if isinstance(call, ast.BinOp):
        found = [call.left, call.right]
    elif isinstance(call, ast.AugAssign):
        found = [call.target, call.value]
    elif isinstance(call, ast.Compare) and len(call.comparators) == 1:
        found = [call.left, *call.comparators]
    elif isinstance(call, ast.Call):
        found = [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(call.func, ast.Attribute) and not _is_module(frame, call.func.value):
            found.insert(0, call.func.value)
    else:
        raise LookupError("this expression is no call")
    flat: list[ast.expr] = []
    for operand in found:
        if isinstance(operand, (ast.List, ast.Tuple)):
            flat += operand.elts
        elif isinstance(operand, ast.Starred):
            raise LookupError("the operands are not in the source")
        elif not isinstance(operand, (ast.Constant, ast.UnaryOp)) and not _is_other(frame, operand):
            flat.append(operand)
    return flat


def _value(frame: FrameType, name: ast.Name) -> object:
    return frame.f_locals.get(name.id, frame.f_globals.get(name.id))


def _is_module(frame: FrameType, expression: ast.expr) -> bool:
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return isinstance(expression, ast.Name) and isinstance(_value(frame, expression), type(sys))


def _is_other(frame: FrameType, operand: ast.expr) -> bool:
    """Whether an operand is a variable that is no tensor."""
    return isinstance(operand, ast.Name) and not isinstance(_value(frame, operand), torch.Tensor)


def _name(frame: FrameType, operand: ast.expr, shown: str) -> str:
    """The name of an operand, empty if it has none. Raises LookupError for a variable of another shape."""
    if isinstance(operand, ast.Name):
        value = _value(frame, operand)
        wanted = [size for size in shown.strip()[1:-1].replace(" ", "").split(",") if size]
        if isinstance(value, torch.Tensor) and [str(size) for size in value.shape] != wanted:
            raise LookupError("another operand")
        return operand.id
    if isinstance(operand, (ast.Attribute, ast.Subscript)):
        name = ast.unparse(operand)
        return name if len(name) <= _LONGEST else ""
    return ""


def parameter(tensor: Tensor) -> str | None:
    """The longest name that a module has for a parameter, with the module's class; None if no module has it."""
    nn = sys.modules.get("rushlight.nn")
    if nn is None:
        return None
    found = ""
    kind = ""
    for thing in gc.get_objects():
        if issubclass(type(thing), nn.Module):
            for name, own in nn.Module.named_parameters(thing):
                if own is tensor and len(name) > len(found):
                    found, kind = name, type(thing).__name__
    return f"'{found}' of {kind}" if found else None
