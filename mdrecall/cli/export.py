"""``mdrecall export``: placeholder."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None: ...
