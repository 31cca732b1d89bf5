"""The program text of `allot` for a process that accepts an interrupt."""

from __future__ import annotations

# A process that a shell runs in the background ignores the signal, and so do its children: a person's doesn't.
BEGIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from allotment.cli.main import main; print('begun', flush=True); main()"
)
