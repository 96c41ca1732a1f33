# %% [markdown]
# # Align your own recordings
#
# A directory of recordings with transcripts becomes a corpus, and a GMM-HMM assigns times to its phones and words. The
# recordings here are generated: each letter is a tone, so that the right times are known. Replace them by your own,
# `recordings/SPEAKER/NAME.wav` with the transcript in `NAME.txt`. Needs `pip install 'bochner[speech]'`.

# %%
import tempfile
from pathlib import Path

import numpy as np

from bochner.cli.speech.commands import align, prepare
from bochner.speech.audio import write_audio

RATE = 16_000
TONES = {"a": 300, "i": 900, "o": 2000}  # Hz
rng = np.random.default_rng(0)
directory = tempfile.TemporaryDirectory()
work = Path(directory.name)


# %% [markdown]
# ## Recordings
#
# Six speakers with different pitches speak sixteen sentences of two words; a letter lasts 0.15 s.


# %%
def tone(letter: str, pitch: float) -> np.ndarray:
    seconds = np.arange(int(0.15 * RATE)) / RATE
    return 0.3 * np.sin(2 * np.pi * pitch * TONES[letter] * seconds)


def say(text: str, pitch: float) -> np.ndarray:
    pause = np.zeros(int(0.2 * RATE))
    words = [np.concatenate([tone(letter, pitch) for letter in word]) for word in text.split()]
    signal = np.concatenate([pause, *(part for word in words for part in (word, pause))])
    return (signal + 0.003 * rng.standard_normal(len(signal))).astype(np.float32)


for speaker in range(6):
    home = work / "recordings" / f"speaker{speaker}"
    home.mkdir(parents=True)
    for number in range(16):
        text = " ".join(rng.choice(["oi", "io", "ai", "oa"], size=2))
        write_audio(home / f"{number}.wav", say(text, rng.uniform(0.9, 1.1)), rate=RATE)
        (home / f"{number}.txt").write_text(text)

# %% [markdown]
# ## Corpus and alignment
#
# Without a lexicon the letters of a word are its phones. `bochner speech prepare folder recordings corpus` and
# `bochner speech align corpus aligned --until monophone` do the same on the command line.

# %%
prepare("folder", work / "recordings", work / "corpus")
align(work / "corpus", work / "aligned", until="monophone")

# %%
for line in (work / "aligned" / "aligned" / "monophone" / "words.ctm").read_text().splitlines()[:4]:
    utterance, _, start, duration, word, *_ = line.split()
    print(f"{utterance}: {word!r} from {float(start):.2f} s for {float(duration):.2f} s")
directory.cleanup()
