"""The released X-CLIP weights: what each was trained on, what the paper reports for it, and what to use it for.

Names are ``architecture.tag``, stable, and can be cited. Sources: spec sections 1, 9 and 14; arXiv 2208.02816.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from ..errors import InputError
from .config import XCLIP_SIZES

__all__ = ["RECOMMENDED", "RELEASED", "ReleasedWeights", "find"]

RECOMMENDED = "xclip_base_patch32.k400_8f"
"""What to take if nothing is known of the videos and the machine; ``watchword tag`` does."""

CODE_LICENCE = "MIT (microsoft/VideoX)"
WEIGHTS_LICENCE = "MIT (as declared with the weights)"
PAPER = "arXiv 2208.02816"

_KINETICS_LICENCE = "annotations CC BY 4.0; the videos belong to their uploaders (YouTube)"
_HMDB_LICENCE = "CC BY 4.0 annotations; the clips come from films and web videos with their own rights"
_UCF_LICENCE = "none stated; the clips come from YouTube and belong to their uploaders"


@dataclass(frozen=True, kw_only=True)
class ReleasedWeights:
    """One row of the registry.

    Attributes:
        name: ``architecture.tag``.
        architecture: key of ``XCLIP_SIZES``, or ``custom`` for a model of its own size.
        num_frames, image_size: of a clip; pixels of a side.
        training_data: what the video parts were trained on; the image-text start is OpenAI's CLIP for all but the bundled model.
        reported: accuracy in percent as its source states it, with data set and protocol. Not measured by Watchword.
        code_licence, weights_licence, data_licence: three separate matters.
        num_parameters: float32 weights take four bytes each.
        huggingface_id: repository on the Hugging Face Hub, "" if there is none.
        official_file: name of the authors' file, "" if there is none.
        use_for: one line for people who must choose.
        bundled: shipped inside the package, never downloaded.
    """

    name: str
    architecture: str
    num_frames: int
    image_size: int
    training_data: str
    reported: str
    use_for: str
    num_parameters: int
    huggingface_id: str = ""
    official_file: str = ""
    code_licence: str = CODE_LICENCE
    weights_licence: str = WEIGHTS_LICENCE
    data_licence: str = _KINETICS_LICENCE
    bundled: bool = False


_PARAMETERS_WITHOUT_TIME = {  # all but mit.positional_embedding, which has num_frames x embed_dim
    "base_patch32": 196_581_633,
    "base_patch16": 194_925_057,
    "large_patch14": 575_667_457,
    "large_patch14_336": 575_995_137,
}


def _released(
    architecture: str, tag: str, num_frames: int, training_data: str, reported: str, use_for: str, repository: str, file: str, licence: str
) -> ReleasedWeights:
    size = XCLIP_SIZES[architecture]
    return ReleasedWeights(
        name=f"xclip_{architecture}.{tag}",
        architecture=architecture,
        num_frames=num_frames,
        image_size=size.image_size,
        training_data=training_data,
        reported=f"{reported} ({PAPER})",
        use_for=use_for,
        num_parameters=_PARAMETERS_WITHOUT_TIME[architecture] + num_frames * size.embed_dim,
        huggingface_id=f"microsoft/xclip-{repository}",
        official_file=f"{file}.pth",
        data_licence=licence,
    )


def _kinetics(
    classes: int, architecture: str, num_frames: int, top1: float, top5: float, use_for: str, repository: str, file: str
) -> ReleasedWeights:
    reported = f"Kinetics-{classes} top-1 {top1}, top-5 {top5}, 4 clips x 3 crops"
    tag = f"k{classes}_{num_frames}f"
    return _released(architecture, tag, num_frames, f"Kinetics-{classes}", reported, use_for, repository, file, _KINETICS_LICENCE)


def _few_shot(data_set: str, short_name: str, shots: int, top1: float, licence: str) -> ReleasedWeights:
    return _released(
        "base_patch16",
        f"{short_name}_{shots}shot_32f",
        32,
        f"{data_set}, {shots} videos a class",
        f"{data_set} split 1 top-1 {top1}, 1 clip",
        f"the classes of {data_set}, as a baseline for learning from {shots} examples a class",
        f"base-patch16-{short_name}-{shots}-shot",
        f"few_{short_name}_{shots}",
        licence,
    )


_PLAYGROUND = ReleasedWeights(
    name="playground",
    architecture="custom",
    num_frames=8,
    image_size=64,
    training_data="Watchword's own playground of rendered shapes",
    reported="see docs/results/playground.md",
    use_for="trying Watchword without a download: it knows moving shapes and nothing else",
    num_parameters=5058817,
    code_licence="Apache-2.0",
    weights_licence="Apache-2.0",
    data_licence="Apache-2.0 (rendered by Watchword)",
    bundled=True,
)

_ROWS = [
    _kinetics(400, "base_patch32", 8, 80.4, 95.0, "fast everyday tagging on a CPU", "base-patch32", "k400_32_8"),
    _kinetics(400, "base_patch32", 16, 81.1, 95.5, "as k400_8f with twice the frames", "base-patch32-16-frames", "k400_32_16"),
    _kinetics(400, "base_patch16", 8, 83.8, 95.7, "everyday actions, better and 4 times dearer than patch 32", "base-patch16", "k400_16_8"),
    _kinetics(400, "base_patch16", 16, 84.7, 96.8, "as k400_8f with twice the frames", "base-patch16-16-frames", "k400_16_16"),
    _kinetics(400, "large_patch14", 8, 87.1, 97.6, "best everyday actions at 224 pixels; wants a GPU", "large-patch14", "k400_14_8"),
    _kinetics(400, "large_patch14_336", 16, 87.7, 97.4, "best on Kinetics-400; slow", "large-patch14-16-frames", "k400_14_16_336"),
    _kinetics(600, "base_patch16", 8, 85.3, 97.1, "the 600 classes of Kinetics-600", "base-patch16-kinetics-600", "k600_16_8"),
    _kinetics(600, "base_patch16", 16, 85.8, 97.3, "as k600_8f with twice the frames", "base-patch16-kinetics-600-16-frames", "k600_16_16"),
    _kinetics(600, "large_patch14", 8, 88.3, 97.7, "best on Kinetics-600; wants a GPU", "large-patch14-kinetics-600", "k600_14_8"),
    *(_few_shot("HMDB-51", "hmdb", k, top1, _HMDB_LICENCE) for k, top1 in ((2, 53.0), (4, 57.3), (8, 62.8), (16, 64.0))),
    *(_few_shot("UCF-101", "ucf", k, top1, _UCF_LICENCE) for k, top1 in ((2, 76.4), (4, 83.4), (8, 88.3), (16, 91.4))),
    _released(
        "base_patch16",
        "zero_shot_32f",
        32,
        "Kinetics-400",
        "zero-shot top-1: HMDB-51 44.6 ± 5.2, UCF-101 72.0 ± 2.3 (3 splits each), Kinetics-600 65.2 ± 0.4 (3 draws of 160 unseen classes)",
        "your own words: labels that no data set lists",
        "base-patch16-zero-shot",
        "zero",
        _KINETICS_LICENCE,
    ),
    _PLAYGROUND,
]

RELEASED: dict[str, ReleasedWeights] = {row.name: row for row in _ROWS}


def find(name: str) -> ReleasedWeights:
    """The row with this registry name, Hugging Face id or official file name (with or without ``.pth``).

    Raises InputError that names the nearest entries.
    """
    by_alias = {alias: row for row in _ROWS for alias in _aliases(row)}
    if name in by_alias:
        return by_alias[name]
    near = get_close_matches(name, by_alias, n=3, cutoff=0.5)
    hint = f"; near it: {', '.join(near)}" if near else ""
    raise InputError(f"no released weights are called {name!r}{hint}; watchword models lists all")


def _aliases(row: ReleasedWeights) -> list[str]:
    return [alias for alias in (row.name, row.huggingface_id, row.official_file, row.official_file.removesuffix(".pth")) if alias]
