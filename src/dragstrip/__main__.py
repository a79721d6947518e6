"""`python -m dragstrip` is the command line."""

from dragstrip.cli_main import main

if __name__ == "__main__":
    main()
