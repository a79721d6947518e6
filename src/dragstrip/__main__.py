"""`python -m dragstrip` is the command line."""

from dragstrip.cli.main import main

if __name__ == "__main__":
    main()
