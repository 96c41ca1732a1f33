"""Real speech with hand labels: the TIMIT sample, if it is available."""

import numpy as np
import pytest

from bochner.speech.align import (
    Growth,
    Monophone,
    Recipe,
    compare_all,
    phone_segments,
    phone_states,
    train_gmm,
)
from bochner.speech.align.em import TrainingSet
from bochner.speech.corpora.timit import fold_utterance, prepare_timit
from bochner.speech.frontend import Mfcc, write_normalized
from bochner.speech.frontend.extract import extract
from bochner.speech.lexicon import Lexicon
from bochner.speech.score import FOLDINGS

FOLDING = FOLDINGS["61-49"]  # with the glottal stop


@pytest.fixture(scope="module")
def sample(tmp_path_factory, shared_data):
    archive = shared_data("timit_nltk_sample.zip")
    folder = tmp_path_factory.mktemp("timit")
    prepared = prepare_timit(archive, folder / "corpus", tokens="phones")
    utterances = [fold_utterance(utterance, FOLDING) for utterance in prepared.utterances]
    raw = extract(utterances, folder / "raw", corpus_dir=folder / "corpus", frontend=Mfcc()).store
    frames = write_normalized(
        raw, folder / "frames", groups={utterance.id: utterance.speaker for utterance in utterances}
    )
    return utterances, frames


def test_boundaries_of_unseen_speakers_are_found(sample, tmp_path):
    utterances, frames = sample
    train = [utterance for utterance in utterances if utterance.part == "train"]
    test = [utterance for utterance in utterances if utterance.part == "test"]
    assert (len({utterance.speaker for utterance in train}), len({utterance.speaker for utterance in test})) == (12, 4)
    lexicon = Lexicon({phone: [(phone,)] for phone in set(FOLDING.values())}, silence=None)
    growth = Growth(num_gaussians=500, iterations=6, grow_until=5, realign=())
    recipe = Recipe(silence=("sil",), monophone=Monophone(start="known", growth=growth))
    stage = train_gmm(tmp_path, lexicon, train, frames, recipe=recipe, until="monophone")
    found = TrainingSet(lexicon, test, frames, recipe.search).align(stage)
    assert not found.skipped
    agreement = compare_all(
        (utterance.phones, phone_segments(stage.hmm, found.paths[utterance.id], offset=recipe.offset))
        for utterance in test
    )
    assert agreement.boundaries_within > 0.75
    assert agreement.frames_right > 0.75
    labels = np.concatenate([phone_states(stage.hmm, path) for path in found.paths.values()])
    assert stage.hmm.num_pdfs == 147
    assert labels.max() < 147
    assert len(np.unique(labels)) > 100
