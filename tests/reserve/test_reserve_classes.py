"""Finetuning on named classes: the head, the clips it reads, and what is saved."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import default_collate

from clips_with_sound import sine, write_clip
from tiny_reserve import tiny_reserve
from watchword.datasets.videos_with_sound import SOUND_CLASSES, VideosWithSound, write_sound_classes
from watchword.errors import CheckpointError, ConfigError, InputError, LabelError
from watchword.reserve import Reserve
from watchword.reserve.class_scores import ClassProgram, class_scores, for_classes
from watchword.reserve.labelled_clips import clip_tokens, places_of, read_clips
from watchword.reserve.options import encode_options, read_options
from watchword.reserve.released import save_released
from watchword.text.reserve import AUDIOSPAN, MASK
from watchword.training import OptimizerSettings, load_recipe, run
from watchword.training.optimizers import Optimizers

GRID = (2, 4)
NAMES = ("playing guitar", "cooking egg", "rain")
RECIPE = Path(__file__).parents[2] / "recipes" / "playground_sound_classes.yaml"


def batch_of(*clips: Any) -> dict[str, Tensor]:
    return dict(default_collate([clip._asdict() for clip in clips]))


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fourteen seconds with sound throughout."""
    return write_clip(tmp_path_factory.mktemp("clips") / "loud.mkv", seconds=14, sounds={0: sine(440, 14)})


def test_tokens_are_six_a_subsegment_and_the_blank() -> None:
    tokens = clip_tokens(np.array([True, False, True, True, True, True]))
    assert tokens.tolist() == [AUDIOSPAN] * 6 + [0] * 6 + [AUDIOSPAN] * 24 + [MASK]
    assert clip_tokens(np.zeros(0, bool)).tolist() == [MASK]
    subsegments, segments = places_of(37)
    assert subsegments[:-1].tolist() == [number for number in range(6) for _ in range(6)]
    assert [int(segments[6 * number]) for number in range(6)] == [0, 0, 1, 2, 2, 3]
    assert segments[-1] == 3 and [int(places) for places in places_of(1)] == [0, 3]


def test_clips_are_spread_evenly_and_their_frames_within_them(loud: Path) -> None:
    """The picture brightens by one level a frame, five frames a second, which tells when a frame was shown."""

    def seconds(**options: Any) -> list[list[float]]:
        clips = read_clips(loud, GRID, sound=False, **options)
        return [[float(frame[0, 0] * 255 - 80) / 5 for frame in clip.images] for clip in clips]

    assert seconds() == [pytest.approx([3.25, 5.75, 8.25, 10.75], abs=0.5)]
    first, last = seconds(num_clips=2)
    assert first == pytest.approx([1.25, 3.75, 6.25, 8.75], abs=0.5)
    assert last == pytest.approx([5.25, 7.75, 10.25, 12.75], abs=0.5)
    (drawn,) = seconds(random=np.random.default_rng(1))
    assert 0 <= drawn[0] <= 5.5 and np.diff(drawn) == pytest.approx([2.5] * 3, abs=0.5)


def test_sound_is_read_where_there_is_some(loud: Path, tmp_path: Path) -> None:
    (whole,) = read_clips(loud, GRID, sound=True)
    assert (whole.images.shape, whole.audio_clips.shape) == ((4, 8, 768), (6, 60, 65))
    assert (whole.tokens[:-1] == AUDIOSPAN).all() and (whole.audio_clips[:, :, -1] == 1).all()
    short = write_clip(tmp_path / "short.mkv", seconds=3, sounds={0: sine(440, 3)})
    (clip,) = read_clips(short, GRID, sound=True)
    assert (clip.tokens[:12] == AUDIOSPAN).all() and (clip.tokens[12:-1] == 0).all() and clip.tokens[-1] == MASK
    assert (clip.audio_clips[2:] == 0).all() and (clip.audio_clips[0] != 0).any()
    assert len({float(frame[0, 0]) for frame in clip.images}) == 4  # of all of the video
    silent = write_clip(tmp_path / "silent.mkv", seconds=12)
    (clip,) = read_clips(silent, GRID, sound=True)
    assert (clip.tokens[:-1] == 0).all() and (clip.audio_clips == 0).all()


def test_before_training_it_fills_the_blank_with_class_names(loud: Path) -> None:
    model = tiny_reserve()
    made = for_classes(model, NAMES, "made", sound=True)
    assert made.config.parts == ("audio_encoder", "head") and made.config.class_names == NAMES
    for name, tensor in made.state_dict().items():
        assert name == "classes.weight" or torch.equal(tensor, model.state_dict()[name]), name
    (clip,) = read_clips(loud, GRID, sound=True)
    with torch.no_grad():
        scores = class_scores(made, batch_of(clip))
        subsegments, segments = places_of(37)
        encoded = model.encode_frames(clip.images).pooled[None], model.encode_sounds(clip.audio_clips).pooled[None]
        vectors = model.embed_encoded(encoded[0], clip.tokens[None], segments[None], encoded[1], subsegments[None]).vectors
        cosines = vectors[0, -1] @ encode_options(model, read_options(NAMES).ids).T
    assert torch.allclose(scores[0], model.contrastive_scales[2].exp() * cosines, atol=1e-5)


def test_what_is_masked_does_not_tell(loud: Path, tmp_path: Path) -> None:
    made = for_classes(tiny_reserve(), NAMES, "made", sound=True)
    (clip,) = read_clips(loud, GRID, sound=True)
    (mute,) = read_clips(write_clip(tmp_path / "mute.mkv", seconds=14), GRID, sound=True)
    other = replace_sound(mute, torch.rand_like(mute.audio_clips))
    with torch.no_grad():
        heard, unheard, other_unheard = class_scores(made, batch_of(clip, mute, other))
    assert torch.allclose(unheard, other_unheard, atol=1e-6) and not torch.allclose(heard, unheard, atol=1e-4)


def replace_sound(clip: Any, sound: Tensor) -> Any:
    return clip._replace(audio_clips=sound)


def test_weights_are_saved_with_their_class_names(tmp_path: Path, loud: Path) -> None:
    for sound in (True, False):
        made, folder = for_classes(tiny_reserve(), NAMES, "made", sound=sound), tmp_path / str(sound)
        ClassProgram(made, [], held_out=[]).save(folder, made.state_dict())
        again = Reserve.from_pretrained(folder)
        assert again.config == made.config and "finetuned on classes" in (folder / "README.md").read_text()
        batch = batch_of(*read_clips(loud, GRID, sound=sound))
        with torch.no_grad():
            assert torch.equal(class_scores(again, batch), class_scores(made, batch))
    text = (tmp_path / "True" / "config.json").read_text()
    (tmp_path / "True" / "config.json").write_text(text.replace("cooking egg", "boiling egg"))
    with pytest.raises(CheckpointError, match="class_names"):
        Reserve.from_pretrained(tmp_path / "True")


def test_what_cannot_be_is_refused(loud: Path) -> None:
    model = tiny_reserve()
    with pytest.raises(LabelError, match="cannot be told apart"):
        for_classes(model, ("rain", "snow", "rain"), "made", sound=True)
    with pytest.raises(InputError, match="no span_encoder"):
        for_classes(tiny_reserve(parts=("head",)), NAMES, "made", sound=False)
    with pytest.raises(InputError, match="no audio_encoder"):
        for_classes(tiny_reserve(parts=("span_encoder", "head")), NAMES, "made", sound=True)
    with pytest.raises(CheckpointError, match="no place for class names"):
        save_released(for_classes(model, NAMES, "made", sound=True), loud.with_name("released"))
    batch = batch_of(*read_clips(loud, GRID, sound=True))
    with pytest.raises(InputError, match="name no classes"):
        class_scores(model, batch)
    with pytest.raises(InputError, match="no audio_encoder"):
        class_scores(for_classes(model, NAMES, "made", sound=False), batch)
    with pytest.raises(ConfigError, match="'snow'"):
        VideosWithSound([(loud, "snow")], NAMES, grid=GRID, sound=True, training=False)


def test_training_draws_by_seed_epoch_and_index(loud: Path) -> None:
    def drawn(epoch: int, seed: int = 0, training: bool = True) -> Tensor:
        data = VideosWithSound([(loud, "rain")], NAMES, grid=GRID, sound=True, training=training, seed=seed)
        example = data[epoch, 0]
        assert example["label"] == 2
        return torch.cat([example["images"].flatten(), example["audio_clips"].flatten()])

    assert torch.equal(drawn(0), drawn(0))
    assert not torch.equal(drawn(0), drawn(1)) and not torch.equal(drawn(0), drawn(0, seed=1))
    assert torch.equal(drawn(0, training=False), drawn(1, training=False))


def test_it_learns_what_only_sound_tells_and_without_sound_it_cannot(tmp_path: Path) -> None:
    videos = write_sound_classes(16, size=32, seed=0, cache_folder=tmp_path)
    found = {}
    for sound in (True, False):
        data = VideosWithSound(videos, SOUND_CLASSES, grid=GRID, sound=sound, training=False)
        batch = default_collate([data[0, index] for index in range(len(data))])
        if not sound:  # of each class the same pictures: a resting shape
            batch["images"] = batch["images"][:4].repeat_interleave(4, dim=0)
        program = ClassProgram(for_classes(tiny_reserve(), SOUND_CLASSES, "sounds", sound=sound), data, held_out=data)
        settings = OptimizerSettings(learning_rate=2e-3)
        optimizer = Optimizers(program.parameter_groups(settings), settings)
        for _ in range(40):
            loss, numbers = program.loss(batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        found[sound] = float(numbers["top1"])
    assert found[True] > 90 and found[False] <= 25, found


def test_all_that_learns_is_used(loud: Path) -> None:
    """Several processes that reduce gradients wait for that of every parameter which learns."""
    for sound in (True, False):
        program = ClassProgram(for_classes(tiny_reserve(), NAMES, "made", sound=sound), [], held_out=[])
        loss, _ = program.loss({**batch_of(*read_clips(loud, GRID, sound=sound)), "label": torch.tensor([1])})
        loss.backward()
        groups = program.parameter_groups(OptimizerSettings(learning_rate=1))
        learning = {parameter for group in groups for parameter in group["params"]}
        assert learning == {parameter for parameter in program.model.parameters() if parameter.grad is not None}


def test_a_recipe_takes_the_lists_of_a_protocol(tmp_path: Path) -> None:
    videos = write_sound_classes(8, size=32, seed=0, cache_folder=tmp_path)
    folder = videos[0][0].parent
    lines = [f"{path.name} {SOUND_CLASSES.index(label)}\n" for path, label in videos]
    (folder / "train.txt").write_text("".join(lines[:4]))
    (folder / "val.txt").write_text("".join(lines[4:]))
    (folder / "classes.txt").write_text("\n".join(SOUND_CLASSES))
    data = {"kind": "videos", "annotations": str(folder / "train.txt"), "held_out": str(folder / "val.txt"), "root": str(folder)}
    changes = {"data": {**data, "classes": str(folder / "classes.txt")}, "training.num_steps": 2, "training.device": "cpu"}
    recipe = load_recipe(RECIPE, changes, tiny=True)
    results = run(recipe, tmp_path / "run", progress=False)
    assert results["num_held_out"] == 4 and Reserve.from_pretrained(tmp_path / "run" / "model").config.class_names == SOUND_CLASSES
    with pytest.raises(ConfigError, match="only the grid can change"):
        load_recipe(RECIPE, {"model": {"width": 64}})


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    results = {}
    for name, launcher in (("one", []), ("two", ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"])):
        command = [sys.executable, *launcher, "-m", "watchword", "train", str(RECIPE), "--tiny", "--out", str(tmp_path / name)]
        done = subprocess.run([*command, "--device", "cpu", "--set", "training.precision=float32"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        results[name] = Reserve.from_pretrained(tmp_path / name / "model").state_dict()
    assert all(torch.allclose(results["two"][key], value, atol=1e-5) for key, value in results["one"].items())


def test_the_configuration_takes_class_names() -> None:
    config = replace(tiny_reserve().config, class_names=NAMES)
    assert type(config).from_dict(config.as_dict() | {"class_names": list(NAMES)}) == config
    with pytest.raises(ConfigError, match="class_names"):
        replace(config, class_names=(1, 2))  # type: ignore[arg-type]
