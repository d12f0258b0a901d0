"""``python -m ninfer_device_profiles`` is ``ninfer-profiles``."""

from __future__ import annotations

import sys

from ninfer_device_profiles.cli import main

if __name__ == "__main__":
    sys.exit(main())
