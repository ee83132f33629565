"""``python -m rushlight script.py [arguments]`` runs a program written for torch, without changes, on rushlight.

``python -m rushlight -m module``, ``python -m rushlight -c code`` and ``python -m rushlight -`` do so for a module, for a text
and for the standard input, as ``python`` does.

``python -m rushlight inspect FILE`` shows what a file of tensors contains and what loading it would execute.
``python -m rushlight doctor`` shows what was found for GPUs, what is missing, and what to type.
"""

import sys

_USAGE = "usage: python -m rushlight (script.py | -m module | -c code | -) [arguments]\n       python -m rushlight inspect FILE..."
_USAGE += "\n       python -m rushlight doctor"


def _run_script(path):
    """Runs a file as Python itself does: as ``__main__``, so that child processes can import it."""
    import io
    import os

    try:
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec")
    except OSError as error:
        sys.exit(f"python -m rushlight: can't open file {path!r}: {error.strerror}")
    except SyntaxError as error:
        _explain(error)
        raise
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    _run(code, __file__=path)


def _run_text(text, name="<string>", **names):
    """Runs a text as ``python -c`` does: modules are imported from the current folder."""
    try:
        code = compile(text, name, "exec")
    except SyntaxError as error:
        _explain(error)
        raise
    sys.path[0] = ""
    _run(code, **names)


def _run(code, **names):
    import types

    main = types.ModuleType("__main__")
    main.__spec__ = None
    main.__builtins__ = __builtins__
    main.__dict__.update(names)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _explain(error):
    """Adds a hint to a syntax error that is typical of programs for old torch versions or of copied code."""
    line = error.text or ""
    if "async" in line:
        error.add_note("`async` is a keyword since Python 3.7: use non_blocking=True.")
    if any(quote in line for quote in "\u2018\u2019\u201c\u201d"):
        error.add_note("The line has typographic quotes: use ' or \".")


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        sys.exit(0 if arguments else 2)
    if arguments[0] == "inspect":
        from rushlight._checkpoint.inspect import main as inspect

        sys.exit(inspect(arguments[1:]))
    if arguments[0] == "doctor":
        if arguments[1:]:
            print(f"python -m rushlight doctor takes no arguments, but got: {' '.join(arguments[1:])}", file=sys.stderr)
            sys.exit(2)
        from rushlight.cuda._doctor import main as doctor

        sys.exit(doctor())
    from rushlight import _as_torch

    _as_torch.install_everywhere()
    if arguments[0] in ("-m", "-c") and len(arguments) < 2:
        sys.exit(_USAGE)
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        _run_text(arguments[1])
    elif arguments[0] == "-":
        sys.argv = arguments
        # Python has no standard input if its descriptor is closed.
        _run_text(sys.stdin.buffer.read() if sys.stdin else b"", "<stdin>", __file__="<stdin>")
    elif arguments[0] == "-m":
        import runpy

        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        _run_script(arguments[0])


if __name__ == "__main__":
    main()
