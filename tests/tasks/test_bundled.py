"""The model that is shipped, on the way a user goes."""

from __future__ import annotations

from pathlib import Path

from watchword import XClip
from watchword.playground import PHRASES, phrase, sample_scene, write_clip


def test_the_bundled_model_is_small_trained_and_tells_colours(tmp_path: Path) -> None:
    model = XClip.from_pretrained("playground")
    assert model.config.weights == "playground" and model.config.class_names == PHRASES
    import watchword.xclip

    folder = Path(watchword.xclip.__file__).parent / "bundled" / "playground"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 15e6
    scenes = [sample_scene(seed, split="unseen") for seed in range(700_000_000, 700_000_024)]
    right = 0
    for number, scene in enumerate(scenes):
        write_clip(scene, tmp_path / f"{number}.mp4", size=128)
        best = model.tag(tmp_path / f"{number}.mp4", PHRASES)[0].label
        right += best.split()[1] == phrase(scene.shape, scene.colour, scene.action).split()[1]
    assert right >= 22
