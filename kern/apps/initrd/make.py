"""Write the files of the initrd: make.py OUTPUT_FOLDER.

Everything is from this repository or made here from a fixed seed, so that every
build has the same bytes and the host can compute an application's output.
"""

import random
import shutil
import sys
from pathlib import Path

SYLLABLES = "ba ce di fo gu ka le mi no pu ra se ti vo zu an el in or un".split()


def words(rng: random.Random, count: int) -> list[str]:
    """An invented vocabulary of different words."""
    seen: dict[str, None] = {}
    while len(seen) < count:
        seen["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4)))] = None
    return list(seen)


def prose(rng: random.Random, vocabulary: list[str], sentences: int) -> str:
    """Sentences whose words follow Zipf's law, as in a natural language, so that the text
    compresses."""
    weights = [1 / (rank + 1) for rank in range(len(vocabulary))]
    lines = []
    for _ in range(sentences):
        chosen = rng.choices(vocabulary, weights, k=rng.randint(4, 14))
        lines.append(" ".join(chosen).capitalize() + ".")
    return "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    rng = random.Random(20)
    vocabulary = words(rng, 4000)
    shuffled = vocabulary[:]
    rng.shuffle(shuffled)
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / "words.txt").write_text("\n".join(shuffled) + "\n")
    (data / "prose.txt").write_text(prose(rng, vocabulary[:1500], 3000))
    (data / "numbers.txt").write_text("".join(f"{rng.getrandbits(40)}\n" for _ in range(5000)))
    (data / "noise.bin").write_bytes(rng.randbytes(64 * 1024))
    (data / "empty").write_bytes(b"")
    root = Path(__file__).resolve().parents[3]
    for name in ("LICENSE", "README.md"):
        shutil.copyfile(root / name, folder / name)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except OSError as error:
        print(f"{sys.argv[1]} cannot be written: {error.strerror}.", file=sys.stderr)
        sys.exit(1)
