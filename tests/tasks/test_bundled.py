"""The models that are shipped, on the way a user goes."""

from __future__ import annotations

from pathlib import Path

from watchword import Reserve, XClip
from watchword.playground import COLOURS, PHRASES, SHAPES, sample_scene, write_clip, write_films
from watchword.reserve.answers import Question
from watchword.reserve.checkpoints import BUNDLED
from watchword.reserve.filling import Filler
from watchword.tasks.playground_films import asked_scenes


def test_the_bundled_model_is_small_and_names_what_it_never_saw(tmp_path: Path) -> None:
    model = XClip.from_pretrained("playground")
    assert model.config.weights == "playground" and model.config.class_names == PHRASES
    import watchword.xclip

    folder = Path(watchword.xclip.__file__).parent / "bundled" / "playground"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 15e6
    scenes = [sample_scene(seed, split="unseen") for seed in range(700_000_000, 700_000_024)]
    paths = [tmp_path / f"{number}.mp4" for number in range(len(scenes))]
    for scene, path in zip(scenes, paths, strict=True):
        write_clip(scene, path, size=128)
    best = [tags[0].label for tags in model.tag(paths, PHRASES, top=1)]
    assert sum(label == scene.phrase for label, scene in zip(best, scenes, strict=True)) >= 21


def test_the_bundled_reserve_is_small_and_sees_what_it_never_saw(tmp_path: Path) -> None:
    model = Reserve.from_pretrained("playground", offline=True)
    assert model.config.weights == "playground" and model.is_trained
    assert sum(file.stat().st_size for file in (BUNDLED / "playground").iterdir()) < 15e6
    films = write_films(tmp_path, 2, seed=5000, split="unseen", num_scenes=12, size=128)
    objects = [f"{colour} {shape}" for colour in COLOURS for shape in SHAPES]
    right = []
    for film in films:
        scenes = asked_scenes(film)
        asked = [Question(text="<mask>", options=objects, at=sum(scene["action_seconds"]) / 2) for scene in scenes]
        for scene, result in zip(scenes, Filler(model).fill_all(tmp_path / film["path"], asked, use="sound", subtitles=False), strict=True):
            right.append(result.blanks()[0][0].option in scene["label"])
    assert len(right) > 20 and sum(right) > 0.3 * len(right)  # by chance 0.03
