"""`allot`, also as `python -m allotment`: it imports the command line."""

import sys
import warnings


def main() -> None:
    """Run the command line. Ctrl-C ends it also while Python imports it. A library's warnings say nothing to a user."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    try:
        from allotment.cli.main import main as run_command_line

        run_command_line()
    except KeyboardInterrupt as error:  # during an import, or a second signal
        sys.exit(next(iter(error.args), 130))


if __name__ == "__main__":
    main()
