"""``python -m mdrecall`` is the same as ``mdrecall``."""

import sys

from mdrecall.cli.start import main

sys.exit(main())
