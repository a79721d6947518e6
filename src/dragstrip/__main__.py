"""`python -m dragstrip` is the command line."""

from dragstrip.cli import main

if __name__ == "__main__":
    main()
