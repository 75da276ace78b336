"""Weights in files and folders, whichever model they are of: reading them safely, writing them whole, fetching them once."""
