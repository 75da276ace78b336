"""``watchword demo``: the bundled model on clips it has never seen. No network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .notes import note, print_table, progress, warnings_as_notes, write_beside, writing
from .running import collect, say_model
from .tag import describe, inputs_of, write_reports

if TYPE_CHECKING:
    from ..report.run import TaggingRun

__all__ = ["demo"]

BUNDLED = "playground"
FILM_SCENES = 8


def demo(
    output: Path = typer.Option(Path("demo-output"), "--output", "-o", help="Folder for the clips, the picture and the page."),
    num_clips: int = typer.Option(12, "--clips", min=1, max=1000, help="Clips to render."),
    seed: int = typer.Option(0, "--seed", help="Other seeds give other clips."),
    model: str = typer.Option(BUNDLED, "--model", "-m", help="Weights that know the playground."),
) -> None:
    """Render clips of a small world, tag them with the bundled model, and compare with the truth.

    The combinations of shape, colour and action in these clips were held out of the model's training.
    """
    from ..datasets.label_lists import named_labels
    from ..playground import sample_scene, write_clip

    clips = output / "clips"
    with writing(clips):
        clips.mkdir(parents=True, exist_ok=True)
    with warnings_as_notes():
        from ..xclip.tagging import Tagger

        tagger = Tagger.from_pretrained(model)  # before the clips are rendered: a wrong name is said at once
    scenes = [sample_scene(1_000_000_007 + seed * 1000 + number, split="unseen") for number in range(num_clips)]
    paths = [clips / f"{number:03}.mp4" for number in range(num_clips)]
    note(f"rendering {num_clips} clips of combinations that the model has never seen, into {clips}")
    for scene, path in zip(scenes, paths, strict=True):
        write_clip(scene, path)
    labels = named_labels("playground")
    note(f"tagging them with {model!r}: which of {len(labels.labels)} phrases fits?")
    with warnings_as_notes():
        run = describe(tagger, model, labels, top=5, threshold=None)
        say_model(run, inputs_of(run))
        with progress(num_clips) as advance:
            collect(run, tagger.run(paths, labels.labels, on_progress=advance))
        truth = [scene.phrase for scene in scenes]
        _print_table(run, truth)
        num_unwritten = write_reports(run, output / "strip.png", output / "report.html")
    write_beside(output / "truth.csv", _truth_csv(paths, truth))
    _write_film(output, seed)
    raise typer.Exit(1 if run.failed or num_unwritten else 0)


def _write_film(output: Path, seed: int) -> None:
    """A film with sound to fill blanks about, a list of options, and how to ask."""
    from ..playground import COLOURS, SHAPES, sample_film, write_film

    known = write_film(sample_film(seed, num_scenes=FILM_SCENES, split="unseen"), output / "film.mp4")
    options = output / "objects.txt"
    write_beside(options, "".join(f"{colour} {shape}\n" for colour in COLOURS for shape in SHAPES).encode())
    scene = known["scenes"][FILM_SCENES // 2]
    at = sum(scene["action_seconds"]) / 2
    note(f"a film with sound is in {output / 'film.mp4'}; at {at:.0f} s {scene['label']}. What does MERLOT Reserve hear and see?")
    note(f"  watchword fill {output / 'film.mp4'} '<mask>' --options {options} --at {at:.0f} --use sound --model {BUNDLED}")


def _print_table(run: TaggingRun, truth: list[str]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("clip", "truth", "answer"):
        table.add_column(column, no_wrap=True)
    for column in ("score", "right", "truth's place"):
        table.add_column(column, justify="right", no_wrap=True)
    num_right = num_top5 = 0
    for result, phrase in zip(run.results, truth, strict=True):
        if result.failure:
            table.add_row(Path(result.path).name, phrase, "failed")
            continue
        ranked = [tag.label for tag in result.tags()]
        place = ranked.index(phrase) + 1
        num_right += place == 1
        num_top5 += place <= 5
        best = run.tags(result)[0]
        table.add_row(Path(result.path).name, phrase, best.label, f"{best.score:.2f}", "yes" if place == 1 else "no", str(place))
    print_table(table, width=130)
    print(f"{num_right} of {len(truth)} right, {num_top5} among the first five; by chance 1 in {len(run.settings['labels'])}")


def _truth_csv(paths: list[Path], truth: list[str]) -> bytes:
    return "".join(
        f"{line}\n" for line in ["path,label", *(f"clips/{path.name},{phrase}" for path, phrase in zip(paths, truth, strict=True))]
    ).encode()
