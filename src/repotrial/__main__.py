"""`python -m repotrial` is the command `repotrial`."""

from repotrial.cli import main

if __name__ == "__main__":
    main()
