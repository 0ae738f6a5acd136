"""The program of the JavaScript process: it makes functions in QuickJS, and calls them.

QuickJS can end the process where the memory of a context is full, so it does not run where the database is open. `script_process`
starts this program and talks with it through two pipes. A message is four bytes of length, the greatest first, and msgpack:

    ["make", number, prelude, memory in bytes, seconds of a call, arguments]    a function in a context of its own
    ["call", number, documents]                                                 the function's result
    ["drop", numbers]                                                           functions to forget; no answer

and an answer [True, text], or [False, the error]. The first answer is about the start.

Rule of this file: it imports nothing of reactdb, because it shall start at once.
"""

from __future__ import annotations

import signal
import sys
from typing import Any, BinaryIO

import msgpack
import quickjs


def main() -> None:
    """Answer requests until the input ends."""
    # Ctrl-C is for the parent program.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    without_dumps()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    functions: dict[int, Any] = {}
    send(sink, True, "started")
    while length := source.read(4):
        message = msgpack.unpackb(source.read(int.from_bytes(length, "big")), unicode_errors="surrogatepass")
        try:
            answer = answer_message(functions, *message)
        except Exception as error:
            # QuickJS's errors have no class in common with anything.
            send(sink, False, str(error).partition("\n")[0])
        else:
            if answer is not None:
                send(sink, True, answer)


def without_dumps() -> None:
    """An expected end writes no memory dump to the disk."""
    try:
        import resource
    except ImportError:
        # Windows makes none.
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def answer_message(functions: dict[int, Any], verb: str, *arguments: Any) -> str | None:
    if verb == "drop":
        for number in arguments[0]:
            functions.pop(number, None)
        return None
    number, *rest = arguments
    if verb == "call":
        return str(functions[number](*rest))
    prelude, memory_bytes, call_s, given = rest
    context = quickjs.Context()
    context.set_memory_limit(memory_bytes)
    context.set_time_limit(call_s)
    answer = str(context.eval(prelude)(*given))
    functions[number] = context.eval(
        "(function (run) { delete globalThis.__run; return run; })(globalThis.__run)"
    )
    return answer


def send(sink: BinaryIO, is_done: bool, text: str) -> None:
    message = msgpack.packb([is_done, text], unicode_errors="surrogatepass")
    sink.write(len(message).to_bytes(4, "big") + message)
    sink.flush()


if __name__ == "__main__":
    main()
