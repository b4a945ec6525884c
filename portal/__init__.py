from __future__ import annotations

import os

# Search multiplies small matrices, which more threads only slow down: on two busy cores by ten times and more. Read by numpy when it
# is first imported, which is after this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
