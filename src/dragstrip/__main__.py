"""`python -m dragstrip` is the command line."""

from dragstrip.commands.main import main

if __name__ == "__main__":
    main()
