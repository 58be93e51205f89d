"""``python -m sabir``."""

import sys

from sabir.cli import main

sys.exit(main())
