"""The history of a note, if its folder is in a git repository. Git runs only when somebody asks for it."""

import os


def is_versioned(path: str) -> bool:
    """True if a file is in the folder of a git repository; nothing is run."""
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder):
        if os.path.lexists(os.path.join(folder, ".git")):
            return True
        folder = os.path.dirname(folder)
    return False
