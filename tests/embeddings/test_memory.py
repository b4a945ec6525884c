"""Case 44: the memory of a process that embeds settles, whatever the texts and however many threads asked (EMB-4)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.counts import scaled

ROOT = Path(__file__).resolve().parents[2]
TEXTS = min(5_000, scaled(480))
MEGABYTES = 50
# As case 44 makes its texts: 12,345 characters without a break. Every batch comes from a thread of its own.
EMBED = """
import json, random, re, string, sys, threading
import django; django.setup()
from embeddings.providers import get_provider
def megabytes():
    return int(re.search(r'VmRSS:\\s+(\\d+)', open('/proc/self/status').read())[1]) / 1024
draw, batch, kept = random.Random(3), 24, []
provider, seen = get_provider(), []
for number in range(0, int(sys.argv[1]), batch):
    texts = [''.join(draw.choices(string.ascii_uppercase + string.digits, k=12345)) for _ in range(batch)]
    thread = threading.Thread(target=lambda: HELD provider.embed(texts, 'passage'))
    thread.start(); thread.join()
    seen.append(megabytes())
print(json.dumps(seen))
"""


def memory(held: str = "") -> list[float]:
    """Megabytes of the process after each batch."""
    environment = {
        **os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", "EMBEDDING_PROVIDER": "sentence-transformers",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", EMBED.replace("HELD", held), str(TEXTS)],
        cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    seen: list[float] = json.loads(done.stdout)
    return seen


def growth(seen: list[float]) -> float:
    """What the last two fifths added, as the case asks of the last 2,000 of 5,000 texts."""
    return seen[-1] - seen[len(seen) * 3 // 5 - 1]


def test_case_44_long_unbroken_texts_from_ever_new_threads_add_no_memory_EMB_4(
    figure: Callable[[str], None],
) -> None:
    seen = memory()
    assert growth(seen) < MEGABYTES
    figure(
        f"case 44: {TEXTS} texts of 12,345 characters: {seen[-1]:.0f} MB, of which the last two fifths {growth(seen):+.1f} MB"
    )


@pytest.mark.slow
def test_case_44_a_process_that_kept_what_it_read_would_be_seen() -> None:
    assert growth(memory("kept.append(bytearray(8_000_000)) or")) > MEGABYTES
