"""An experiment: a recipe from its corpus to the comparison of its models.

The corpus, the alignment and each model are stages (`bochner.stages`). The directory of a stage is named by the
fingerprint of all its inputs, so a changed setting repeats only the stages that depend on it.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import nn

from bochner.acoustic.corpora import CorpusDirectory, FolderCorpus
from bochner.acoustic.decoding import PartScore, Scores, Weights, decode_parts, tune_weights
from bochner.acoustic.model import AcousticModel, Combination, combine
from bochner.acoustic.recipe import AsrRecipe
from bochner.acoustic.results import ENSEMBLES, GMM_COMBINATION, HEADINGS, SEQUENCE_KINDS, Results, Row
from bochner.acoustic.sequence import sequence_trained
from bochner.acoustic.settings import ModelSettings, kind_of, settings_from_json, settings_to_json
from bochner.acoustic.spliced_frames import SplicedFrames
from bochner.acoustic.training import CHOICES, HISTORY, SELECTION, TrainedModel, frame_scores, train_model
from bochner.search.plan import resolve_device
from bochner.speech.align import FunctionScores, align_utterances, tied_states
from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.decode import Search
from bochner.speech.frames import FrameStore, write_frames
from bochner.speech.manifest import PARTS
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus, at_speeds, open_aligned, with_single_recordings
from bochner.speech.pipeline.alignment import AlignSettings, Execution, align_corpus
from bochner.speech.pipeline.scoring import read_texts, score_hypotheses
from bochner.speech.score.error_rates import Score
from bochner.stages import Stage, fingerprint, locked, write_json

logger = logging.getLogger(__name__)
ACOUSTIC = "acoustic"  # in the directory of a decoded model: what `AcousticModel.load` and `bochner transcribe` read
RECORD, SEQUENCE = "stage.json", "sequence.json"
KEY_DIGITS = 10
CLASSIFIERS = ("kernel", "network", *SEQUENCE_KINDS.values(), *ENSEMBLES.values())
SHARES = (0.5, 0.25, 0.75)  # of the first of two combined models; decoding weights are tuned for the first share
TEST_VALUES = ("ter", "low", "high", "tokens")
DEV_VALUES = ("ter", "acoustic_weight", "word_penalty")


def run_recipe(
    recipe: AsrRecipe,
    output_dir: str | os.PathLike[str],
    *,
    device: str = "auto",
    workers: int = 1,
    verbose: bool = False,
) -> Results:
    """Run the recipe below `output_dir`, or continue there; returns the content of results.json.

    Every model is trained once per seed and decoded on dev. The kernel model and the network with the lowest mean error
    on dev are chosen; only these, the ensembles, the GMM, the combination of the two and the best combination with the
    GMM are decoded on test. The chosen models of the first seed are linked as models/kernel, models/network, models/gmm
    and, the best of all on dev, models/best. `output_dir` is locked during the run.
    """
    with locked(Path(output_dir)):
        return _run_recipe(recipe, Path(output_dir), device=device, workers=workers, verbose=verbose)


def _run_recipe(recipe: AsrRecipe, root: Path, *, device: str, workers: int, verbose: bool) -> Results:
    write_json(root / "recipe.json", recipe.to_dict())
    execution = Execution(workers, verbose)
    experiment = setup(recipe, root, device=str(resolve_device(device)), execution=execution)

    rows = [experiment.train(settings, seed) for settings in experiment.models for seed in recipe.seeds]
    if recipe.ensemble:
        kinds = [[model for model in experiment.models if kind_of(model) == kind] for kind in ENSEMBLES]
        rows += [experiment.ensemble(models, seed) for models in kinds if len(models) > 1 for seed in recipe.seeds]
    rows.append(experiment.gmm())
    if recipe.realign:
        results = experiment.results(rows)
        rows += [experiment.realign(row) for kind in ("kernel", "network") for row in results.chosen(kind)]
    if recipe.sequence_kinds:
        results = experiment.results(rows)
        rows += [experiment.train_sequence(row) for kind in recipe.sequence_kinds for row in results.chosen(kind)]

    results = experiment.results(rows)
    chosen = {kind: results.chosen(kind) for kind in (*CLASSIFIERS, "gmm")}
    rows = [experiment.test(row) if row in chosen[row.kind] else row for row in rows]
    if recipe.combine:
        (gmm,) = chosen["gmm"]
        pairs = zip(chosen["kernel"], chosen["network"], strict=False)  # one row per seed, or no model of a kind
        both = [experiment.test(experiment.combine(pair)) for pair in pairs]
        classifiers = [row for kind in CLASSIFIERS for row in chosen[kind]]
        with_gmm = [experiment.combine((row, gmm)) for row in classifiers]
        best = experiment.results(with_gmm).chosen(GMM_COMBINATION)
        rows += both + [experiment.test(row) if row in best else row for row in with_gmm]

    results = experiment.results(rows)
    results.write(root)
    link_chosen(results, root)
    return results


def setup(
    recipe: AsrRecipe, root: Path, *, device: str, execution: Execution | None = None, single_recordings: bool = True
) -> Experiment:
    """Prepare and align the corpus of a recipe below `root`, unless that was done before.

    Without `single_recordings` the models that are saved lack mixtures for speakers they are not adapted to, which take
    several passes over train; experiments do not use them, `bochner transcribe` does.
    """
    execution, after = execution or Execution(), []
    if isinstance(recipe.corpus, CorpusDirectory) or (
        isinstance(recipe.corpus, FolderCorpus) and recipe.corpus.is_prepared
    ):
        directory = recipe.corpus.source
    else:
        inputs = recipe.to_dict()["corpus"]
        make = recipe.corpus.make

        def make_corpus(target: Path) -> Mapping[str, Any]:
            logger.info("%s", make(target, workers=execution.workers, verbose=execution.verbose))
            return {}

        after = [run_stage(root, "corpus", inputs["kind"], inputs, make_corpus)]
        directory = after[0].directory
    corpus = SpeechCorpus.read(directory)
    check_parts(corpus)

    settings = AlignSettings(
        **asdict(recipe.alignment), frontend=recipe.frontend.cepstra, frame_shift=recipe.frontend.frame_shift,
        pitch=recipe.frontend.pitch, context=0,
    )  # fmt: skip
    inputs = {**settings.inputs(), "fingerprint": corpus.fingerprint}
    alignment = run_stage(
        root, "alignment", settings.until, inputs,
        lambda target: align_corpus(corpus, target, settings, export=False, execution=execution), after=after,
    )  # fmt: skip
    aligned = open_aligned(
        corpus, alignment.directory, stage=settings.until, order=recipe.decoding.order,
        pronunciation_probabilities=recipe.decoding.pronunciation_probabilities, execution=execution,
    )  # fmt: skip
    aligned = at_speeds(aligned, recipe.frontend.speeds)
    aligned = with_single_recordings(aligned) if recipe.frontend.alone else aligned
    return Experiment(recipe, root, alignment, aligned, execution, device, single_recordings)


def check_parts(corpus: SpeechCorpus) -> None:
    """Raise an error unless the corpus has train, heldout, dev and test."""
    if missing := [part for part in PARTS if part not in corpus.parts]:
        raise ValueError(
            f"{corpus.directory} must have the parts {', '.join(PARTS)}, but has no {' and no '.join(missing)}; set "
            "corpus.sizes, or edit utterances.jsonl."
        )


@dataclass(frozen=True)
class FinishedStage:
    """The directory of a stage, the fingerprint of its inputs, and its result."""

    directory: Path
    key: str
    result: dict[str, Any]


def run_stage(
    root: Path,
    kind: str,
    name: str,
    settings: Mapping[str, Any],
    make: Callable[[Path], Mapping[str, Any]],
    *,
    after: Sequence[FinishedStage] = (),
) -> FinishedStage:
    """Run `make(directory)` once for its inputs, which are `settings` and the stages `after` which it comes.

    The directory is `root`/KIND/NAME-KEY. If `make` is interrupted, it gets the same directory again.

    >>> import tempfile
    >>> temporary = tempfile.TemporaryDirectory()
    >>> root = Path(temporary.name)
    >>> corpus = run_stage(root, "corpus", "digits", {"hours": 1}, lambda directory: {"utterances": 3})
    >>> run_stage(root, "corpus", "digits", {"hours": 1}, None).result["utterances"]  # not made again
    3
    >>> run_stage(root, "models", "kernel erll:1", {}, lambda directory: {}, after=[corpus]).directory.name[:14]
    'kernel-erll-1-'
    """
    inputs = {"settings": settings, "after": [stage.key for stage in after]}
    key = fingerprint({"kind": kind, **inputs})[:KEY_DIGITS]
    slug = re.sub(r"[^\w.]+", "-", name).strip("-")
    directory = root / kind / f"{slug}-{key}"
    stage = Stage(directory / RECORD, inputs)
    logger.info("%s: %s%s", kind, name, "" if stage.result() is None else " (finished already)")
    return FinishedStage(directory, key, stage.run(lambda: make(directory)))


@dataclass(frozen=True, eq=False)
class Experiment:
    """The aligned corpus of a recipe, and the steps of its experiment; each model gets a directory below `root`."""

    recipe: AsrRecipe
    root: Path
    alignment: FinishedStage
    aligned: AlignedCorpus
    execution: Execution
    device: str
    single_recordings: bool = True

    @cached_property
    def train_rows(self) -> SplicedFrames:
        aligned, context = self.aligned, self.recipe.frontend.context
        ids = aligned.ids("train")
        return SplicedFrames.fit(aligned.frames, aligned.states, ids=ids, left=context, right=context)

    @cached_property
    def heldout_rows(self) -> SplicedFrames:
        aligned = self.aligned
        return SplicedFrames(self.train_rows.splicer, aligned.frames, aligned.states, aligned.ids("heldout"))

    @cached_property
    def models(self) -> list[ModelSettings]:
        """The settings of the recipe's models, with sizes that fit the corpus."""
        num_rows = sum(len(self.aligned.states[name]) for name in self.aligned.ids("train"))
        return [
            settings.fitted_to(num_rows=num_rows, num_states=self.aligned.num_states)
            for settings in self.recipe.models.values()
        ]

    def results(self, rows: Sequence[Row]) -> Results:
        """The rows with a description of the recipe and its corpus."""
        aligned = self.aligned
        utterances = aligned.corpus.utterances
        minutes = {part: sum(u.duration for u in utterances if u.part == part) / 60 for part in PARTS}
        speech = ", ".join(f"{part} {time:.1f}" for part, time in minutes.items())
        return Results(
            recipe=self.recipe.to_dict(), protocol=aligned.protocol.name,
            synthetic=any(u.synthetic for u in utterances), corpus=f"{self.recipe.name} (minutes: {speech})",
            num_states=aligned.num_states, rows=list(rows),
        )  # fmt: skip

    def gmm(self) -> Row:
        """Decode with the GMM of the alignment."""
        name, seed = f"{self.recipe.alignment.until} GMM", self.recipe.alignment.seed

        def make(directory: Path) -> Mapping[str, Any]:
            about = {"recipe": self.recipe.name, "seed": seed, "kind": "gmm", "name": name}
            return self._save_tuned(self._model(None, about), directory)

        stage = self._decoded(name, make, after=[self.alignment], saved=True)
        return self._row(stage, name, "gmm", {}, seed=seed, seconds=self.alignment.result["seconds"])

    def train(self, settings: ModelSettings, seed: int) -> Row:
        """Train a model and decode with it."""
        name = f"{settings.title} seed {seed}"
        trained = self.fit(settings, seed)

        def make(directory: Path) -> Mapping[str, Any]:
            for file in (HISTORY, CHOICES, SELECTION):  # reported with the results
                if (trained.directory / file).exists():
                    shutil.copy2(trained.directory / file, directory / file)
            module = TrainedModel.load(trained.directory, device=self.device).module
            about = {"recipe": self.recipe.name, "seed": seed, **settings_to_json(settings)}
            return self._save_tuned(self._model(module, about), directory)

        stage = self._decoded(name, make, after=[trained])
        values = settings_to_json(settings)
        kind, result = values.pop("kind"), trained.result
        row = self._row(
            stage, settings.title, kind, values, seed=seed, seconds=result["seconds"], heldout=result["heldout"]
        )
        return replace(row, cpu_seconds=result.get("cpu_seconds"))  # unknown for models of earlier versions

    def ensemble(self, models: Sequence[ModelSettings], seed: int) -> Row:
        """Train several models of a kind, and decode with the mean of their log posteriors."""
        name, trained = " + ".join(settings.title for settings in models), [self.fit(each, seed) for each in models]
        members = [{"recipe": self.recipe.name, "seed": seed, **settings_to_json(settings)} for settings in models]

        def make(directory: Path) -> Mapping[str, Any]:
            modules = [TrainedModel.load(stage.directory, device=self.device).module for stage in trained]
            shares = torch.full((len(modules),), 1 / len(modules), device=self.device)
            module = Combination(modules, shares)
            heldout = frame_scores(module, self.heldout_rows, silence_states=self.aligned.silence_states)
            model = self._model(module, {"combination": members, "shares": shares.tolist()})
            return {"heldout": heldout, **self._save_tuned(model, directory)}

        stage = self._decoded(f"{name} seed {seed}", make, after=trained)
        seconds = sum(member.result["seconds"] for member in trained)
        kind, settings = ENSEMBLES[kind_of(models[0])], {"members": members}
        return self._row(stage, name, kind, settings, seed=seed, seconds=seconds, heldout=stage.result["heldout"])

    def realign(self, row: Row) -> Row:
        """Train the model of a row again, on its own forced alignment of train and heldout."""
        settings = settings_from_json({**row.settings, "kind": row.kind})

        def make(directory: Path) -> Mapping[str, Any]:
            realign(self._load(row.directory), self.aligned, output_dir=directory, execution=self.execution)
            return {}

        name = f"{row.model} seed {row.seed}"
        stage = run_stage(self.root, "realignment", name, {"by": row.directory}, make, after=[self.alignment])
        states = {**self.aligned.states, **FrameStore(stage.directory / "states")}
        second = replace(self, alignment=stage, aligned=self.aligned.with_states(states))
        return second.train(replace(settings, name=f"{row.model} realigned"), row.seed)

    def train_sequence(self, row: Row) -> Row:
        """Train the model of a row further by the sequence objective, see `bochner.acoustic.sequence`."""

        def make(directory: Path) -> Mapping[str, Any]:
            model, history = sequence_trained(self._load(row.directory), self.aligned, verbose=self.execution.verbose)
            write_json(directory / SEQUENCE, history)
            return self._save_tuned(model, directory)

        name, settings = f"{row.model} MMI", {"by": row.directory}
        stage = self._decoded(f"{name} seed {row.seed}", make, after=[self.alignment], **settings)
        seconds = row.seconds + stage.result["seconds"]
        return self._row(stage, name, SEQUENCE_KINDS[row.kind], settings, seed=row.seed, seconds=seconds)

    def combine(self, members: Sequence[Row]) -> Row:
        """Decode with the combination of two models, the second of which may be the GMM.

        The shares are those of lowest error on dev.
        """
        name, seed = " + ".join(row.model for row in members), members[0].seed
        directories = [row.directory for row in members]

        def make(directory: Path) -> Mapping[str, Any]:
            model, errors = best_combination(
                [self._load(member) for member in directories], self.aligned, output_dir=directory / "shares",
                execution=self.execution,
            )  # fmt: skip
            share = min(errors, key=lambda share: errors[share])
            return {**self._save_tuned(model, directory, model.weights), "shares": [share, 1 - share]}

        stage = self._decoded(f"{name} seed {seed}", make, after=[self.alignment], members=directories)
        settings = {"members": directories, "shares": stage.result["shares"]}
        kind = GMM_COMBINATION if members[-1].kind == "gmm" else "combination"
        return self._row(stage, name, kind, settings, seed=seed, seconds=sum(row.seconds for row in members))

    def test(self, row: Row) -> Row:
        """The row with the error rate on test, at the decoding weights tuned on dev."""
        logger.info("test: %s seed %d", row.model, row.seed)
        weights = Weights(row.dev["acoustic_weight"], row.dev["word_penalty"])
        scores = self._lazy_scores(row.directory)
        return replace(row, test=_values(self._decode(scores, self.root / row.directory, "test", weights), TEST_VALUES))

    def score(self, row: Row, part: str) -> Score:
        """The scored utterances of dev, or of test if `test` has decoded it."""
        texts = read_texts(self.root / row.directory / "decoded" / part, self.aligned.corpus)
        return score_hypotheses(self.aligned.corpus, texts, self.aligned.protocol)

    def _model(self, module: nn.Module | None, about: Mapping[str, Any]) -> AcousticModel:
        return AcousticModel.of(
            module, self.train_rows, self.aligned, about=about, single_recordings=self.single_recordings
        )

    def fit(self, settings: ModelSettings, seed: int) -> FinishedStage:
        """Train a model without decoding; the result has its scores on `heldout`, `seconds` and `cpu_seconds`."""

        def make(directory: Path) -> Mapping[str, Any]:
            start = time.process_time()
            trained = train_model(
                settings, self.train_rows, self.heldout_rows, num_states=self.aligned.num_states, seed=seed,
                output_dir=directory, device=self.device, verbose=self.execution.verbose,
            )  # fmt: skip
            cpu_seconds = round(time.process_time() - start, 2)
            heldout = frame_scores(trained.module, self.heldout_rows, silence_states=self.aligned.silence_states)
            logger.info("heldout: CE %.3f, ERR %.1f %%", heldout["ce"], 100 * heldout["err"])
            return {"heldout": heldout, "cpu_seconds": cpu_seconds}

        inputs = {"model": settings_to_json(settings), "seed": seed, "context": self.recipe.frontend.context}
        if self.recipe.frontend.speeds:
            inputs["speeds"] = list(self.recipe.frontend.speeds)
        if self.recipe.frontend.alone:
            inputs["alone"] = "also at other speeds"  # where recordings are short, see `with_single_recordings`
        inputs["order"] = self.recipe.decoding.order  # speakers of heldout are adapted by hypotheses of this n-gram
        return run_stage(self.root, "training", f"{settings.title} seed {seed}", inputs, make, after=[self.alignment])

    def _decoded(
        self,
        name: str,
        make: Callable[[Path], Mapping[str, Any]],
        *,
        after: Sequence[FinishedStage],
        **settings: object,
    ) -> FinishedStage:
        """A decoding stage; the beam is one of its inputs, but not an input of training."""
        decoding = asdict(self.recipe.decoding)
        if not decoding["pronunciation_probabilities"]:  # as in directories made before this option
            del decoding["pronunciation_probabilities"]
        if self.recipe.frontend.alone:
            decoding["alone"] = "weights of single recordings"
        return run_stage(self.root, "models", name, {**decoding, **settings}, make, after=after)

    def _save_tuned(self, model: AcousticModel, directory: Path, weights: Weights | None = None) -> dict[str, Any]:
        """Decode dev, and save the model with the decoding weights of lowest error."""
        result = self._on_dev(model.scores(self.aligned.frames), directory, weights)
        best = Weights(result["dev"]["acoustic_weight"], result["dev"]["word_penalty"], "least error on dev")
        shutil.rmtree(directory / ACOUSTIC, ignore_errors=True)  # of a run that was interrupted here
        replace(model, weights=best, unadapted_weights=self._single_weights(model, directory)).save(
            directory / ACOUSTIC
        )
        return result

    def _single_weights(self, model: AcousticModel, directory: Path) -> Weights | None:
        """The decoding weights of lowest error on dev if each recording is transcribed alone, as training includes.

        Weights that are best for frames adapted to their speaker can be several times too large for others.
        """
        if not self.recipe.frontend.alone or model.unadapted is None:
            return None
        raw, alone = FrameStore(self.aligned.directory / "raw"), model.speaker_independent
        return tune_weights(
            lambda name: alone.log_likelihoods(self.aligned.as_single_recording(raw[name])), self.aligned,
            output_dir=directory / "alone", search=self._search, execution=self.execution,
        )  # fmt: skip

    def _on_dev(self, scores: Scores, directory: Path, weights: Weights | None = None) -> dict[str, Any]:
        return {"dev": _values(self._decode(scores, directory, "dev", weights), DEV_VALUES)}

    def _decode(self, scores: Scores, directory: Path, part: str, weights: Weights | None) -> PartScore:
        parts = decode_parts(
            scores, self.aligned, output_dir=directory, parts=[part], weights=weights, search=self._search,
            execution=self.execution,
        )  # fmt: skip
        return parts[part]

    @property
    def _search(self) -> Search:
        return Search(beam=self.recipe.decoding.beam, max_active=self.recipe.decoding.max_active)

    def _load(self, directory: str) -> AcousticModel:
        return AcousticModel.load(self.root / directory / ACOUSTIC, device=self.device)

    def _lazy_scores(self, directory: str) -> Scores:
        """The scores of a saved model, which is loaded by the first call: decoded parts do not need it."""
        loaded: list[Scores] = []

        def scores(name: str) -> Any:
            if not loaded:
                loaded.append(self._load(directory).scores(self.aligned.frames))
            return loaded[0](name)

        return scores

    def _row(
        self,
        stage: FinishedStage,
        model: str,
        kind: str,
        settings: Mapping[str, Any],
        *,
        seed: int,
        seconds: float,
        heldout: Mapping[str, float] | None = None,
    ) -> Row:
        return Row(
            model=model, kind=kind, settings=settings, seed=seed, heldout=heldout or {}, dev=stage.result["dev"],
            test=None, seconds=seconds, directory=str(stage.directory.relative_to(self.root)),
        )  # fmt: skip


def realign(
    model: AcousticModel, aligned: AlignedCorpus, *, output_dir: Path, execution: Execution | None = None
) -> AlignedCorpus:
    """Force-align train and heldout with `model`, and return the corpus with the new states.

    An utterance that cannot be aligned keeps its states. The states are stored in `output_dir`/states and reused.
    Source: Bourlard & Morgan 1994 (embedded Viterbi training).
    """
    execution, target = execution or Execution(), output_dir / "states"
    if not target.exists():
        utterances = [u for part in ("train", "heldout") for u in aligned.corpus.part(part) if u.id in aligned.frames]
        alignments = align_utterances(
            model.hmm, model.lexicon, utterances, FunctionScores(model.scores(aligned.frames)),
            verbose=execution.verbose,
        )  # fmt: skip
        states = {name: tied_states(model.hmm, path) for name, path in alignments.paths.items()}
        changed = sum(int((y != aligned.states[name]).sum()) for name, y in states.items() if name in aligned.states)
        share = changed / max(1, sum(map(len, states.values())))
        logger.info("realigned: %d utterances, %.1f %% of frames changed their state", len(states), 100 * share)
        write_frames(target, states.items(), about={"labels": "tied states"})
    return aligned.with_states({**aligned.states, **FrameStore(target)})


def best_combination(
    models: Sequence[AcousticModel], aligned: AlignedCorpus, *, output_dir: Path, execution: Execution | None = None
) -> tuple[AcousticModel, dict[float, float]]:
    """The combination of two models with the shares of lowest error on dev, and the error by the share of the first.

    Acoustic weight and word penalty are tuned for equal shares only.
    """
    if len(models) != 2:
        raise ValueError(f"exactly two models can be combined, got {len(models)}.")
    weights: Weights | None = None
    errors = {}
    for share in SHARES:
        scores = combine(models, shares=[share, 1 - share]).scores(aligned.frames)
        directory = output_dir / f"share_{share:g}"
        weights = weights or tune_weights(scores, aligned, output_dir=directory, execution=execution or Execution())
        decoded = decode_parts(scores, aligned, output_dir=directory, weights=weights, execution=execution)
        errors[share] = decoded["dev"].ter
    best = min(errors, key=lambda share: errors[share])
    assert weights is not None
    return replace(combine(models, shares=[best, 1 - best]), weights=weights), errors


def link_chosen(results: Results, root: Path) -> None:
    """Link the chosen models of the first seed under fixed names; "best" has the lowest mean error on dev."""
    systems = [rows for kind in HEADINGS if (rows := results.chosen(kind))]
    best = min(systems, key=lambda rows: fmean(row.dev["ter"] for row in rows))[0]
    logger.info("models/best: %s, %.2f %% on dev", best.model, 100 * best.dev["ter"])
    chosen = {kind: rows[0] for kind in ("kernel", "network", "gmm") if (rows := results.chosen(kind))}
    for name, row in {**chosen, "best": best}.items():
        target = root / "models" / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(root / row.directory / ACOUSTIC, target, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> None:
    with suppress(OSError):  # file systems without hard links
        os.link(source, target)
        return
    shutil.copy2(source, target)


def _values(score: PartScore, names: Sequence[str]) -> dict[str, float]:
    return {name: getattr(score, name) for name in names}
