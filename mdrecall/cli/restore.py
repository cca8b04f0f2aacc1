"""Restoring a backup."""

import argparse


def run_restore(options: argparse.Namespace) -> int:
    raise NotImplementedError
