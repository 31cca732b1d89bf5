"""`python -m allotment` is `allot`."""

from allotment.cli.main import main

main()
