"""``python -m mdrecall`` is the same as ``mdrecall``."""

import sys

from mdrecall.cli.main import main

sys.exit(main())
