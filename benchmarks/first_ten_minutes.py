"""The first ten minutes of a phonetician: whether each step works, and how long it takes.

    python -m benchmarks.first_ten_minutes

builds the wheel, installs it into an empty environment, aligns a directory of WAV and TXT files, reads the TextGrids
with praatio, corrects the pronunciation of a name that was guessed, and aligns again. `--environment DIR` keeps the
environment and reuses what is installed there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.first_hour import ROOT, Hour

RECORDINGS = """
from pathlib import Path
import soundfile
from bochner.speech.synthesis.espeak import RATE, speak
directory = Path("recordings")
directory.mkdir()
texts = {"ann": "Please call seven friends today.", "bob": "They live near the Zelmira river."}
for name, text in texts.items():
    soundfile.write(directory / f"{name}.wav", speak(text, voice="en-us+m3", speed=150).samples, RATE)
    (directory / f"{name}.txt").write_text(text)
print(len(texts), "recordings")
"""

READ = """
from praatio import textgrid
grid = textgrid.openTextgrid("aligned/bob.TextGrid", includeEmptyIntervals=True)
grid.validate("error")
(word,) = [entry for entry in grid.getTier("words").entries if entry.label == "zelmira"]
phones = [p.label for p in grid.getTier("phones").entries if p.start >= word.start and p.end <= word.end]
print("zelmira", *phones)
assert phones == {phones!r}.split(), phones
"""

CORRECT = """
from pathlib import Path
guessed = Path("aligned/guessed.txt")
guessed.write_text(guessed.read_text().replace("AY R", "IH R"))
print(guessed.read_text().strip())
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--environment", type=Path, help="a directory; by default a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        environment = (options.environment or directory / "environment").absolute()
        hour = Hour(directory, environment)
        if not environment.exists():
            hour.step("an empty environment", lambda: hour.run(sys.executable, "-m", "venv", str(environment)))
        wheel = ["python", "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(directory / "dist"), str(ROOT)]
        hour.step("the wheel", lambda: hour.run(*wheel))
        pinned = ["python", "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt")]
        wheels = [f"{file}[synthesis]" for file in (directory / "dist").glob("*.whl")]
        hour.step("pip install bochner[synthesis]", lambda: hour.run(*pinned, *wheels))
        hour.step("pip install praatio", lambda: hour.run(*pinned, "praatio"))
        hour.step("a directory of WAV and TXT", lambda: hour.python(RECORDINGS))
        align = ["bochner", "align", "recordings", "--output_dir", "aligned"]
        hour.step("align", lambda: hour.run(*align, lines=3))
        hour.step("the TextGrid in praatio", lambda: hour.python(READ.format(phones="Z EH L M AY R AH")))
        hour.step("correct a pronunciation", lambda: hour.python(CORRECT))
        hour.step("align again", lambda: hour.run(*align, "--lexicon", "aligned/guessed.txt", lines=2))
        hour.step("the corrected TextGrid", lambda: hour.python(READ.format(phones="Z EH L M IH R AH")))
        sys.exit(min(hour.failures, 1))


if __name__ == "__main__":
    main()
