"""Runs the examples of one page in a process of their own: sources in, what they printed or raised out, as JSON."""

import contextlib
import io
import json
import sys


def run(source, names):
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(source, "<example>", "single"), names)
    except Exception as error:
        return f"{type(error).__module__}.{type(error).__name__}: {error}"
    return printed.getvalue()


names = {"__name__": "__main__"}
answers = [run(source, names) for source in json.load(sys.stdin)]
sys.stdout.write(json.dumps(answers))
