"""What a recipe may say: unknown keys and values out of range are errors that name the key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..datasets.annotations import Part, class_list, hash_annotations, read_annotations
from ..datasets.protocols import ProtocolName, ProtocolVideos, list_name, protocol_videos
from ..datasets.splits import draw_shots
from ..errors import ConfigError
from ..reserve.ablations import Objective
from ..xclip.augment import Augmentation
from ..xclip.class_heads import HeadName
from ..xclip.recipe import Trained
from .settings import TrainingSettings

__all__ = [
    "Checked", "ChoicesRecipe", "ClassesRecipe", "ClipsData", "EvaluationData", "FilmsData", "ImageTextRecipe", "PlaygroundTvqaData",
    "PlaygroundVcrData", "PretrainingRecipe", "QuestionsData", "Recipe", "RecordsData", "ReserveBeginning", "SoundsData", "StillsData",
    "SupervisedRecipe", "TvqaData", "VcrData", "VideosData",
]  # fmt: skip


class Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class StillsData(Checked):
    """Captioned stills of the playground."""

    kind: Literal["playground_stills"]
    num_stills: int = Field(gt=0)
    seed: int = Field(default=0, ge=0)


class ClipsData(Checked):
    """Clips of the playground in the combinations of the training split; evaluated on new clips of these and of the unseen ones.

    ``shots`` takes so many clips of each phrase in place of ``num_clips`` at random.
    """

    kind: Literal["playground_clips"]
    num_clips: int = Field(gt=0)
    shots: int | None = Field(default=None, gt=0)
    num_held_out: int = Field(gt=0)
    seed: int = Field(default=0, ge=0)


class _Listed(Checked):
    """Where videos are listed, and by which classes they are told apart: see `protocol_videos` and ``read_annotations``."""

    root: Path | None = None
    protocol: ProtocolName | None = None
    classes: str | None = None
    split: Literal[1, 2, 3] | None = None
    draw: Literal[1, 2, 3] | None = None

    def _read(self, source: Path, part: Part) -> list[ProtocolVideos]:
        """The videos of a list; of a protocol of which no split or draw is chosen, those of all three."""
        if self.protocol is not None:
            chosen: dict[str, Any] = {"root": self.root, "classes": self.classes, "split": self.split, "draw": self.draw}
            return protocol_videos(self.protocol, source, part=part, **chosen)
        if self.draw is not None:
            raise ConfigError(f"draw {self.draw} was asked for, but only a protocol has draws: kinetics600_zero_shot")
        which = part if self.split else None
        videos = read_annotations(source, root=self.root, classes=self.classes, split=self.split, part=which)
        names = sorted({label for _, label in videos}) if self.classes is None else class_list(self.classes)[0]
        name = list_name(source, classes=self.classes, split=self.split, part=which)
        digest = hash_annotations(source, split=self.split, part=which)
        return [ProtocolVideos(protocol=name, videos=videos, class_names=tuple(names), annotations_sha256=digest)]


class VideosData(_Listed):
    """Video files, listed in any format of ``watchword.datasets.annotations``, whose ``root``, ``classes`` and ``split`` these are.

    With ``split`` the training part is trained on and the test part held out. Without ``classes`` the classes are the training list's.
    ``protocol`` (and ``draw``) takes a protocol's videos and classes. ``shots`` trains on so many videos of each class, drawn by ``seed``.
    """

    kind: Literal["videos"]
    annotations: Path
    held_out: Path
    shots: int | None = Field(default=None, gt=0)
    seed: int = Field(default=0, ge=0)

    @property
    def base(self) -> Path:
        """What the paths of the training list are relative to."""
        return self.root or (self.annotations if self.annotations.is_dir() else self.annotations.parent)

    def lists(self) -> tuple[ProtocolVideos, ProtocolVideos]:
        """The videos to train on, whose class names count, and those held out."""
        (train, *more), (held_out, *_) = self._read(self.annotations, "train"), self._read(self.held_out, "test")
        if more:
            raise ConfigError(f"data.protocol is {self.protocol}: choose data.split or data.draw, 1, 2 or 3")
        if self.shots is not None:
            train = replace(train, videos=draw_shots(train.videos, self.shots, seed=self.seed))
        return train, replace(held_out, class_names=train.class_names)


class EvaluationData(_Listed):
    """Videos that are never trained on, told apart by class names of their own: the zero-shot setting (spec section 14.1).

    Of a ``protocol`` all three splits or draws are evaluated, unless one is chosen.
    """

    annotations: Path

    def lists(self) -> list[ProtocolVideos]:
        return self._read(self.annotations, "test")


class Beginning(Checked):
    """How a small model begins, see ``watchword.xclip.initialisation.begin_small``."""

    position_std: float = Field(default=0.25, gt=0)
    whitening: float = Field(default=0.1, gt=0)
    token_std: float = Field(default=0.1, gt=0)
    logit_scale: float = Field(default=20.0, gt=0, le=100)
    num_frames: int = Field(default=4000, gt=0)


class ImageTextRecipe(Checked):
    """Contrastive image-text pretraining. ``name`` is what the weights are called; without ``beginning`` they begin as CLIP's do."""

    program: Literal["image_text"]
    name: str = Field(min_length=1)
    model: dict[str, Any]
    beginning: Beginning | None = None
    data: StillsData
    training: TrainingSettings


class MixingSettings(Checked):
    """Mixup and cutmix, see ``xclip.mixing.Mixing``; the defaults are the paper's and the released code's."""

    mixup_alpha: float = Field(default=0.8, gt=0)
    cutmix_alpha: float = Field(default=1.0, gt=0)
    cutmix_probability: float = Field(default=0.5, ge=0, le=1)
    across_parts: bool = False


class SupervisedRecipe(Checked):
    """Supervised X-CLIP.

    ``start`` is an image-text or a video model, a folder or a name as for ``XClip.from_pretrained``; sizes that ``model`` does not say are
    its. None begins with random weights. Started from ``open_clip:NAME``, the model is the expansion of that image-text model; so it is
    with an ``architecture`` in ``model``, an entry of open_clip's ``model_configs``, and random weights. ``trained``: which branches learn,
    see ``parameter_groups``; the paper's own runs keep the text frozen (``video``). ``position_std`` makes the positions of the frames in
    time sinusoids of that scale in place of noise of 0.02, and ``logit_scale`` replaces the start's: a small model hears the order sooner.
    ``augment`` changes the training clips at random, ``{}`` as the paper does; not where labels tell colours or left from right, as the
    playground's do. ``head`` is how classes are scored, with ``templates`` for an ensemble and ``num_context_vectors`` for learned context,
    see ``class_heads``. ``evaluations`` are lists with class names of their own, by name; they are evaluated beside the held-out videos.
    """

    program: Literal["supervised"]
    name: str = Field(min_length=1)
    model: dict[str, Any]
    start: str | None = None
    position_std: float | None = Field(default=None, gt=0)
    logit_scale: float | None = Field(default=None, gt=0, le=100)
    trained: Trained = "video"
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    mixing: MixingSettings | None = None
    augment: Augmentation | None = None
    head: HeadName = "names"
    templates: tuple[str, ...] = ()
    num_context_vectors: int = Field(default=4, gt=0)
    data: ClipsData | VideosData = Field(discriminator="kind")
    evaluations: dict[str, EvaluationData] = {}
    training: TrainingSettings

    @model_validator(mode="after")
    def _names_score(self) -> Self:
        if self.evaluations and self.head not in ("names", "ensemble"):
            raise ValueError(f"evaluations tell other classes apart by their names, which the head {self.head!r} cannot")
        if taken := sorted(self.evaluations.keys() & {"held_out", "seen"}):
            raise ValueError(f"an evaluation cannot be called {taken[0]!r}, as the results of the data are")
        return self


class ReserveBeginning(Checked):
    """How a small model begins, see ``watchword.reserve.initialisation.begin_small``; from ``num_records`` records."""

    whitening: float = Field(default=0.01, gt=0)
    token_std: float = Field(default=0.1, gt=0)
    scale: float = Field(default=20.0, gt=0, le=100)
    num_records: int = Field(default=200, gt=0)


class RecordsData(Checked):
    """Records that ``watchword prepare`` wrote to ``folder``. What is held out is their validation part, ``num_held_out`` of it at most."""

    kind: Literal["records"]
    folder: Path
    num_held_out: int = Field(default=256, ge=0)


class FilmsData(Checked):
    """Records rendered from long narrated films of the playground; ``num_held_out`` records of films of their own are held out. With a
    ``text_length`` they have stretches of so many tokens of texts about the world.
    """

    kind: Literal["playground_films"]
    num_films: int = Field(gt=0)
    segments_per_record: int = Field(default=8, gt=0)
    num_held_out: int = Field(default=64, ge=0)
    text_length: int = Field(default=0, ge=0)
    frame_size: int = Field(default=64, ge=16)
    seed: int = Field(default=0, ge=0)


class PretrainingRecipe(Checked):
    """Pretraining of MERLOT Reserve.

    ``model``: fields of ``ReserveConfig``; ``size`` in it names one of the paper's. ``start``: weights to go on from, as for
    ``Reserve.from_pretrained``. ``beginning``: for a small model without a start; without it one begins as the released did. ``grids``:
    where there are several processes, these in turn are the grids of their frames, all of as many patches (adaptation to other
    resolutions); the saved model has the first. ``masking``, ``pictures``, ``pretraining``: fields of ``Masking``, ``Pictures`` and
    ``PretrainingConfig``; ``pictures: adaptation`` draws them as for adaptation. ``objective``: ``masked_tokens`` and ``decoder`` are the
    paper's ablations without a span encoder, see ``reserve.ablations``. A batch is of records.
    """

    program: Literal["pretraining"]
    name: str = Field(min_length=1)
    objective: Objective = "spans"
    model: dict[str, Any] = {}
    start: str | None = None
    beginning: ReserveBeginning | None = None
    grids: tuple[tuple[int, int], ...] = ()
    masking: dict[str, Any] = {}
    pictures: dict[str, Any] | Literal["adaptation"] = {}
    pretraining: dict[str, Any] = {}
    data: RecordsData | FilmsData = Field(discriminator="kind")
    training: TrainingSettings


class QuestionsData(Checked):
    """Multiple choice about stills of the playground; those that show one shape are asked about."""

    kind: Literal["playground_questions"]
    num_stills: int = Field(gt=0)
    num_held_out: int = Field(gt=0)
    frame_size: int = Field(default=64, ge=16)
    seed: int = Field(default=0, ge=0)


class VcrSettings(Checked):
    """``length``: token ids of a sequence, those of longer ones are cut. ``released_flip``: see ``vcr_pictures.marked_picture``."""

    length: int = Field(default=144, ge=2, le=640)
    released_flip: bool = False


class VcrData(VcrSettings):
    """VCR as its owners publish it, in ``folder``; the validation split, or its first ``num_held_out`` questions, is held out."""

    kind: Literal["vcr"]
    folder: Path
    num_held_out: int | None = Field(default=None, gt=0)


class PlaygroundVcrData(VcrSettings):
    """The playground's stand-in for VCR, written into files as the data set's own are."""

    kind: Literal["playground_vcr"]
    num_questions: int = Field(gt=0)
    num_held_out: int = Field(gt=0)
    seed: int = Field(default=0, ge=0)


class TvqaData(Checked):
    """TVQA's files in ``folder``, see ``watchword.datasets.tvqa``: its training part, and of its validation part, which is held out,
    ``num_held_out`` questions at most.
    """

    kind: Literal["tvqa"]
    folder: Path
    num_held_out: int | None = Field(default=None, gt=0)


class PlaygroundTvqaData(Checked):
    """The playground's stand-in for TVQA, written into files as the data set's own are: see ``playground.stand_ins.tvqa``."""

    kind: Literal["playground_tvqa"]
    num_questions: int = Field(gt=0)
    num_held_out: int = Field(gt=0)
    num_scenes: int = Field(default=6, gt=0)
    scene_seconds: float = Field(default=5.0, ge=1)
    frame_size: int = Field(default=96, ge=16)
    seed: int = Field(default=0, ge=0)


class _FinetuningRecipe(Checked):
    """Finetuning of MERLOT Reserve.

    ``start``: pretrained weights, as for ``Reserve.from_pretrained``, of which ``model`` may change the ``grid``, on which no weight
    depends; None begins with random weights of the sizes that ``model`` says (fields of ``ReserveConfig``).
    """

    name: str = Field(min_length=1)
    model: dict[str, Any] = {}
    start: str | None = None
    training: TrainingSettings

    @model_validator(mode="after")
    def _only_the_grid(self) -> Self:
        if self.start is not None and (others := sorted(self.model.keys() - {"grid"})):
            raise ValueError(f"model.{others[0]} is that of the start; only the grid can change")
        return self


class ChoicesRecipe(_FinetuningRecipe):
    """Finetuning on multiple choice: about single frames, or, of TVQA, with sound and subtitles; the rest as of every finetuning."""

    program: Literal["choices"]
    data: QuestionsData | VcrData | PlaygroundVcrData | TvqaData | PlaygroundTvqaData = Field(discriminator="kind")


class SoundsData(Checked):
    """Clips of the playground in four classes that only their sound tells."""

    kind: Literal["playground_sounds"]
    num_clips: int = Field(gt=0)
    num_held_out: int = Field(gt=0)
    frame_size: int = Field(default=64, ge=16)
    seed: int = Field(default=0, ge=0)


class ClassesRecipe(_FinetuningRecipe):
    """Finetuning on labelled videos; without ``sound`` only the frames tell. The rest as of every finetuning."""

    program: Literal["classes"]
    sound: bool = True
    data: VideosData | SoundsData = Field(discriminator="kind")


Recipe = ImageTextRecipe | SupervisedRecipe | PretrainingRecipe | ChoicesRecipe | ClassesRecipe
