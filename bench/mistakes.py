"""Typing mistakes and squashed names, asked of the real endpoint: `python -m bench.mistakes DIR [SET …]`.

The sets are those of bench/quality.py, and so are the measures. Each is asked as it is; with 10 and 30 % of its words mistyped,
corrected and not; and by 200 names of its tools, verbatim and squashed into one word, where the figure is the share that is
found first. Writes bench/results/mistakes.json and prints a table. Mistakes are made from a seed, so every run asks the same.
"""

from __future__ import annotations

import re
import statistics
import sys
from pathlib import Path
from random import Random
from typing import Any

from bench.quality import ask, lines, load, sets_in
from bench.results import write
from bench.stack import stack

SEED = 13
LEAST_LETTERS = 4
NAMES = 200
ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def mistyped(text: str, share: float, random: Random) -> str:
    """The text with one mistake in that share of its words of four letters and more."""
    return re.sub(
        rf"\b[A-Za-z]{{{LEAST_LETTERS},}}\b",
        lambda word: _mistake(word[0], random) if random.random() < share else word[0],
        text,
    )


def _mistake(word: str, random: Random) -> str:
    """Two letters swapped, one left out, one typed twice, or the key beside it: each as often."""
    place = random.randrange(len(word))
    kind = random.choice(("swap", "drop", "double", "neighbour"))
    if kind == "swap":
        place = min(place, len(word) - 2)
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    if kind == "drop":
        return word[:place] + word[place + 1 :]
    if kind == "double":
        return word[: place + 1] + word[place] + word[place + 1 :]
    row = next(row for row in ROWS if word[place].lower() in row)
    beside = row.index(word[place].lower()) + random.choice((-1, 1))
    return word[:place] + row[beside % len(row)] + word[place + 1 :]


def by_names(tools: list[dict[str, Any]], *, squashed: bool) -> list[dict[str, Any]]:
    """Names of several words as questions; tools of the same name serve for each other."""
    named: dict[str, list[str]] = {}
    for tool in tools:
        named.setdefault(_squashed(tool["name"]), []).append(str(tool["id"]))
    several = [tool for tool in tools if re.search(r"[a-z][A-Z]|[A-Za-z][_\-. ][A-Za-z]", tool["name"])]
    chosen = Random(SEED).sample(several, min(NAMES, len(several)))
    return [
        {
            "qid": tool["id"],
            "query": _squashed(tool["name"]) if squashed else tool["name"],
            "relevant": [str(tool["id"])],
            "equivalent": {str(tool["id"]): named[_squashed(tool["name"])]},
        }
        for tool in chosen
    ]


def _squashed(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def main(folder: Path, names: list[str]) -> int:
    results: dict[str, dict[str, dict[str, float]]] = {}
    with stack() as portal:
        portal.start("web")
        portal.start("embeddings", EMBEDDING_THREADS="2")
        for one in sets_in(folder):
            if names and one.name not in names:
                continue
            client = load(portal, one)
            queries, tools = lines(one / "queries.jsonl"), lines(one / "tools.jsonl")
            asked = {"clean": ask(client, queries), "clean, uncorrected": ask(client, queries, correct=False)}
            for percent in (10, 30):
                random = Random(SEED)
                wrong = [
                    query | {"query": mistyped(query["query"], percent / 100, random)} for query in queries
                ]
                asked[f"{percent} %"] = ask(client, wrong)
                asked[f"{percent} %, uncorrected"] = ask(client, wrong, correct=False)
            asked["verbatim names"] = ask(client, by_names(tools, squashed=False))
            asked["squashed names"] = ask(client, by_names(tools, squashed=True))
            results[one.name] = asked
            for name, figures in asked.items():
                show(one.name, name, figures)
    results["mean"] = {
        name: {
            measure: round(statistics.fmean(asked[name][measure] for asked in results.values()), 4)
            for measure in figures
        }
        for name, figures in next(iter(results.values())).items()
    }
    for name, figures in results["mean"].items():
        show("mean", name, figures)
    write("mistakes", results)
    return 0


def show(set_name: str, name: str, figures: dict[str, float]) -> None:
    print(
        f"{set_name:10s} {name:20s} " + "  ".join(f"{measure} {value}" for measure, value in figures.items()),
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/retrieval"), sys.argv[2:]))
