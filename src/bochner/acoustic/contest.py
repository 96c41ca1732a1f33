"""The models of a run, each trained, measured and decoded in a folder of its own."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bochner.acoustic.combine import best_combination
from bochner.acoustic.decoding import PartScore, Scores, Weights, decode_parts
from bochner.acoustic.fitted import CHOICES, HISTORY, SELECTION, Trained
from bochner.acoustic.measures import heldout_measures
from bochner.acoustic.model import AcousticModel
from bochner.acoustic.realign import realign
from bochner.acoustic.recipe import AsrRecipe
from bochner.acoustic.results import SEQUENCED, Row
from bochner.acoustic.rows import LabelledRows
from bochner.acoustic.sequence import sequence_trained
from bochner.acoustic.settings import ModelSettings, settings_from_json, settings_to_json
from bochner.acoustic.stages import Done, Found, Stages
from bochner.acoustic.training import train_model
from bochner.speech.decode import Search
from bochner.speech.frames import FrameStore
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus
from bochner.speech.pipeline.alignment import Execution

logger = logging.getLogger(__name__)

ACOUSTIC = "acoustic"  # in the folder of a model, what `AcousticModel.load` and `bochner transcribe` take
SEQUENCE = "sequence.json"  # the history of training by utterances
TEST = ("ter", "low", "high", "tokens")
DEV = ("ter", "acoustic_weight", "word_penalty")


@dataclass(frozen=True, eq=False)
class Contest:
    """Who takes part, on which speech, and with what means."""

    recipe: AsrRecipe
    stages: Stages
    alignment: Done
    aligned: AlignedCorpus
    work: Execution
    device: str

    def gmm(self) -> Row:
        """The GMM that gave the states, decoded as the others are."""
        name, seed = f"{self.recipe.alignment.until} GMM", self.recipe.alignment.seed
        done = self._stage(name, [self.alignment], lambda folder: self._on_dev(self.aligned.gmm_scores(), folder))
        return self._row(done, name, "gmm", {}, seed=seed, seconds=self.alignment.found["seconds"])

    def model(self, settings: ModelSettings, seed: int) -> Row:
        """A model of these settings, trained with a seed."""
        name = f"{settings.title} seed {seed}"
        trained = self._trained(name, settings, seed)

        def make(folder: Path) -> Found:
            _copy_curves(trained.folder, folder)
            module = Trained.load(trained.folder, device=self.device).module
            about = {"recipe": self.recipe.name, "seed": seed, **settings_to_json(settings)}
            model = AcousticModel.of(module, self.train, self.aligned, about=about)
            return self._kept(model, folder)

        done, found = self._stage(name, [trained], make), trained.found
        plain = settings_to_json(settings)
        return self._row(
            done,
            settings.title,
            plain.pop("kind"),
            plain,
            seed=seed,
            seconds=found["seconds"],
            heldout=found["heldout"],
        )

    def realigned(self, row: Row) -> Row:
        """The model of a row trained once more, on the states that it gave train and heldout itself."""
        settings = settings_from_json({**row.settings, "kind": row.kind})

        def make(folder: Path) -> Found:
            realign(self._loaded(self.stages.root / row.folder), self.aligned, folder=folder, work=self.work)
            return {}

        name = f"{row.model} seed {row.seed}"
        done = self.stages.run("realignment", name, {"by": row.folder}, after=[self.alignment], make=make)
        states = {**self.aligned.states, **FrameStore(done.folder / "states")}
        again = replace(self, alignment=done, aligned=self.aligned.with_states(states))
        return again.model(replace(settings, name=f"{row.model} realigned"), row.seed)

    def sequence(self, row: Row) -> Row:
        """The model of a row, kernel or network, trained further by utterances: see `bochner.acoustic.sequence`."""

        def make(folder: Path) -> Found:
            model = self._loaded(self.stages.root / row.folder)
            found, history = sequence_trained(model, self.aligned, progress=self.work.verbose)
            (folder / SEQUENCE).write_text(json.dumps(history, indent=1))
            return self._kept(found, folder)

        done = self._stage(f"{row.model} MMI seed {row.seed}", [self.alignment], make, by=row.folder)
        settings, seconds = {"by": row.folder}, row.seconds + done.found["seconds"]
        return self._row(done, f"{row.model} MMI", SEQUENCED[row.kind], settings, seed=row.seed, seconds=seconds)

    def combination(self, members: Sequence[Row]) -> Row:
        """Two decoded models as one, with the shares of least error on dev."""
        name, seed = " + ".join(row.model for row in members), members[0].seed
        folders = [row.folder for row in members]

        def make(folder: Path) -> Found:
            models = [self._loaded(self.stages.root / one) for one in folders]
            found, errors = best_combination(models, self.aligned, folder=folder / "shares", work=self.work)
            share = min(errors, key=lambda one: errors[one])
            return {**self._kept(found, folder, found.weights), "shares": [share, 1 - share]}

        done = self._stage(f"{name} seed {seed}", [self.alignment], make, members=folders)
        settings = {"members": folders, "shares": done.found["shares"]}
        seconds = sum(row.seconds for row in members)
        return self._row(done, name, "combination", settings, seed=seed, seconds=seconds)

    def tested(self, row: Row) -> Row:
        """With the error on test, at the weights that were found on dev."""
        logger.info("test: %s seed %d", row.model, row.seed)
        folder = self.stages.root / row.folder
        weights = Weights(row.dev["acoustic_weight"], row.dev["word_penalty"])
        scores = self.aligned.gmm_scores() if row.kind == "gmm" else self._later(folder)
        return replace(row, test=_of(self._decode(scores, folder, "test", weights), TEST))

    @cached_property
    def train(self) -> LabelledRows:
        seen, context = self.aligned, self.recipe.frontend.context
        return LabelledRows.learned(seen.frames, seen.states, ids=seen.ids("train"), left=context, right=context)

    @cached_property
    def heldout(self) -> LabelledRows:
        seen = self.aligned
        return LabelledRows(self.train.splicer, seen.frames, seen.states, seen.ids("heldout"))

    def _trained(self, name: str, settings: ModelSettings, seed: int) -> Done:
        def make(folder: Path) -> Found:
            trained = train_model(
                settings, self.train, self.heldout, num_states=self.aligned.num_states, seed=seed, folder=folder,
                device=self.device, progress=self.work.verbose,
            )  # fmt: skip
            found = heldout_measures(trained.module, self.heldout, silence_states=self.aligned.silence_states)
            logger.info("heldout: CE %.3f, ERR %.1f %%", found["ce"], 100 * found["err"])
            return {"heldout": found}

        given = {"model": settings_to_json(settings), "seed": seed, "context": self.recipe.frontend.context}
        if self.recipe.frontend.speeds:
            given["speeds"] = list(self.recipe.frontend.speeds)
        given["order"] = self.recipe.decoding.order  # speakers of heldout are adapted to by what is recognised
        return self.stages.run("training", name, given, after=[self.alignment], make=make)

    def _stage(self, name: str, after: Sequence[Done], make: Any, **settings: object) -> Done:
        """A stage of decoding; how much is searched is among its settings, so that a wider beam trains nothing anew."""
        given = {**asdict(self.recipe.decoding), **settings}
        return self.stages.run("models", name, given, after=after, make=make)

    def _kept(self, model: AcousticModel, folder: Path, weights: Weights | None = None) -> dict[str, Any]:
        """Decode dev, and keep the model with the weights of least error there."""
        found = self._on_dev(model.scores(self.aligned.frames), folder, weights)
        best = Weights(found["dev"]["acoustic_weight"], found["dev"]["word_penalty"], "least error on dev")
        shutil.rmtree(folder / ACOUSTIC, ignore_errors=True)  # of a run that was stopped right here
        replace(model, weights=best).save(folder / ACOUSTIC)
        return found

    def _on_dev(self, scores: Scores, folder: Path, weights: Weights | None = None) -> dict[str, Any]:
        return {"dev": _of(self._decode(scores, folder, "dev", weights), DEV)}

    def _decode(self, scores: Scores, folder: Path, part: str, weights: Weights | None) -> PartScore:
        asked = self.recipe.decoding
        search = Search(beam=asked.beam, max_active=asked.max_active)
        return decode_parts(
            scores, self.aligned, folder=folder, parts=[part], weights=weights, search=search, work=self.work
        )[part]

    def _loaded(self, folder: Path) -> AcousticModel:
        return AcousticModel.load(folder / ACOUSTIC, device=self.device)

    def _later(self, folder: Path) -> Scores:
        """Scores of a kept model, which is loaded when the first is asked for: decoded parts ask for none."""
        kept: list[Scores] = []

        def scores(name: str) -> Any:
            if not kept:
                kept.append(self._loaded(folder).scores(self.aligned.frames))
            return kept[0](name)

        return scores

    def _row(
        self,
        done: Done,
        model: str,
        kind: str,
        settings: Mapping[str, Any],
        *,
        seed: int,
        seconds: float,
        heldout: Mapping[str, float] | None = None,
    ) -> Row:
        return Row(
            model=model,
            kind=kind,
            settings=settings,
            seed=seed,
            heldout=heldout or {},
            dev=done.found["dev"],
            test=None,
            seconds=seconds,
            folder=str(done.folder.relative_to(self.stages.root)),
        )


def _of(score: PartScore, names: Sequence[str]) -> dict[str, float]:
    return {name: getattr(score, name) for name in names}


def _copy_curves(source: Path, target: Path) -> None:
    """What training left for the reader, beside what decoding leaves."""
    for name in (HISTORY, CHOICES, SELECTION):
        if (source / name).exists():
            shutil.copy2(source / name, target / name)
