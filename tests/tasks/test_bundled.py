"""The model that is shipped, on the way a user goes."""

from __future__ import annotations

from pathlib import Path

from watchword import XClip
from watchword.playground import PHRASES, sample_scene, write_clip


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
