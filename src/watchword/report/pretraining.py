"""Pictures of pretraining: what of a record the model is given and must find, and which sounds it takes to belong to a frame.

Both work on any records, as of ``reserve.shards.RecordShards``, whoever prepared them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..errors import InputError
from ..reserve import spectrogram as sp
from ..reserve.draws import record_draws
from ..reserve.embedding import embed_segments
from ..reserve.masking import MaskedExample, Masking, mask_record
from ..reserve.model import Reserve
from ..reserve.records import Record, RecordSegment
from ..text.reserve import AUDIOSPAN, ReserveTokenizer, default_tokenizer
from .figures import FAINT, as_image, drawing
from .panels import HEADER, MARGIN, WIDTH, Pen, header
from .text import clock, printable
from .thumbnails import shorten

__all__ = ["SoundNeighbours", "masked_record", "neighbours_picture", "sound_neighbours"]

READ, HEARD, INSTEAD, FIND = "#e3e9f1", "#cfe8d6", "#fbedc4", "#f4bd98"
OWN = "#2e8b57"  # frames and sounds that belong together
LOUD = "viridis"

# All lengths in inches.
LEGEND, FRAME, COLUMNS_LEFT, SPACE = 0.34, 1.22, 2.6, 0.08
COLUMN = (WIDTH - COLUMNS_LEFT - MARGIN) / sp.SUBSEGMENTS
TITLE, SOUND, CELL, GAP = 0.2, 0.5, 0.215, 0.2
BAND = TITLE + SOUND + 2 * CELL + GAP
NOTE = 0.3
CELL_CHARACTERS = 48


class _Sheet:
    """Pictures and boxes in inches from the upper left corner, all on one pair of axes."""

    def __init__(self, pen: Pen) -> None:
        self.height = pen.height
        self.axes: matplotlib.axes.Axes = pen.axes(0, 0, WIDTH, pen.height)
        self.axes.axis("off")
        self._keep()

    def _keep(self) -> None:
        self.axes.set(xlim=(0, WIDTH), ylim=(self.height, 0), aspect="auto")

    def image(self, pixels: npt.NDArray[np.uint8], left: float, top: float, width: float, height: float) -> tuple[float, float]:
        """An RGB picture as large as fits into the box: (width, height) as drawn."""
        scale = min(width / pixels.shape[1], height / pixels.shape[0])
        width, height = scale * pixels.shape[1], scale * pixels.shape[0]
        self.axes.imshow(pixels, extent=(left, left + width, top + height, top), interpolation="antialiased")
        self._keep()
        return width, height

    def sound(self, log_mel: npt.NDArray[np.float32], left: float, top: float, width: float, height: float, *, peak: float) -> None:
        """A (hops, bands) spectrogram, low notes at the bottom, as bright as it is loud."""
        box = (left, left + width, top + height, top)
        self.axes.imshow(log_mel.T[::-1], extent=box, cmap=LOUD, vmin=0, vmax=max(peak, 1e-6), interpolation="nearest")
        self._keep()

    def box(self, left: float, top: float, width: float, height: float, *, fill: str | None = None, edge: str | None = None) -> None:
        line = 2.2 if edge else 0.0
        self.axes.add_patch(Rectangle((left, top), width, height, facecolor=fill or "none", edgecolor=edge or "none", linewidth=line))


def masked_record(
    record: Record,
    *,
    masking: Masking | None = None,
    seed: int = 0,
    epoch: int = 0,
    tokenizer: ReserveTokenizer | None = None,
    format: str = "png",
) -> bytes:
    """A record as an epoch of training masks it (``png``, ``svg``, ``pdf`` or ``jpg``).

    For each segment its frame, the three clips of its sound as spectrograms, and below each clip what stands for it in the two views:
    ``text to audio``, where the model reads words and must find the hidden words and their sound, and ``audio to text``, where it hears
    sound and must find hidden words. Beside a hidden clip the sound is often turned into words, so that it does not give away its end.

    Args:
        record: of as many segments as make whole groups (``masking.group_segments``).
        masking: as in training; default that of the published models. Web text is drawn in no case.
        seed, epoch: of the training whose masks these are.
        tokenizer: whose ids the record has.

    Raises:
        InputError: a number of segments that is not whole groups, or a damaged picture in the record.
    """
    masking, tokenizer = replace(masking or Masking(), web_masks=0), tokenizer or default_tokenizer()
    example = mask_record(record.words(), (), record_draws(seed, epoch, record.key), masking, tokenizer)
    with drawing():
        height = HEADER + LEGEND + BAND * len(record.segments) + NOTE
        pen = Pen(Figure(figsize=(WIDTH, height), dpi=130, facecolor="white"), height)
        sheet = _Sheet(pen)
        header(pen, f"record {record.key}, masked as in epoch {epoch}", trained=True, meaning="")
        _legend(pen, sheet, HEADER)
        cells = _Cells(record, example, masking, tokenizer)
        for number, segment in enumerate(record.segments):
            top = HEADER + LEGEND + BAND * number
            if number and number % masking.group_segments == 0:
                sheet.axes.axhline(top - GAP / 2, color=FAINT, linewidth=1)
            _band(pen, sheet, top, segment, number, cells)
        heard = bool((example.audio_text_matching[:, 0] == AUDIOSPAN).any())
        given = "sound" if heard else "words"
        pen.write(MARGIN, height - NOTE / 2, f"A third sequence gives the {given} of all segments and asks for the frame of each.", size=8)
        return as_image(pen.figure, format)


class _Cells:
    """What stands for each clip of sound in each view: (text, colour, whether it is to be found)."""

    def __init__(self, record: Record, example: MaskedExample, masking: Masking, tokenizer: ReserveTokenizer) -> None:
        self.has_sound, self.masking, self.tokenizer = [segment.has_sound for segment in record.segments], masking, tokenizer
        self.starts, self.spans = example.crop_starts, example.text_spans
        self.views = {"text to audio": example.text2audio.reshape(-1, 3), "audio to text": example.audio2text.reshape(-1, 3)}

    def of(self, view: str, clip: int) -> tuple[str, str, bool]:
        tokens = self.views[view]
        own = tokens[tokens[:, 1] == clip]
        heard = self.has_sound[clip // sp.SUBSEGMENTS]
        if (masked := own[own[:, 2] >= 0]).size:
            words = self._words(self.spans[masked[0, 2]]) or "(nothing said)"
            with_sound = view == "text to audio" and heard and self.masking.sound_targets
            return f"? {words}{' + sound' if with_sound else ''}", FIND, True
        if (own[:, 0] == AUDIOSPAN).any():
            return "(sound)", HEARD, False
        instead = view == "audio to text" and heard and self.masking.sound_inputs
        return self._words(own[:, 0]) or "(nothing said)", INSTEAD if instead else READ, False

    def _words(self, ids: npt.NDArray[np.int32]) -> str:
        return self.tokenizer.decode(ids[ids > 0].tolist()).strip()


def _legend(pen: Pen, sheet: _Sheet, top: float) -> None:
    meanings = ((READ, "words, given"), (HEARD, "sound, given"), (INSTEAD, "words given in place of sound"), (FIND, "hidden: to be found"))
    left = COLUMNS_LEFT
    for colour, meaning in meanings:
        sheet.box(left, top + 0.06, 0.2, 0.16, fill=colour)
        pen.write(left + 0.27, top + 0.14, meaning, size=8)
        left += 0.27 + 0.075 * len(meaning) + 0.25


def _band(pen: Pen, sheet: _Sheet, top: float, segment: RecordSegment, number: int, cells: _Cells) -> None:
    sheet.image(segment.image(), MARGIN, top, FRAME, BAND - GAP)
    facts = [printable(segment.video_id), f"{clock(segment.start_time, decimals=1)} to {clock(segment.end_time, decimals=1)}"]
    facts += [f"{segment.playback_speed} times faster"] * (segment.playback_speed > 1) + ["no sound"] * (not segment.has_sound)
    pen.write(COLUMNS_LEFT, top + TITLE / 2 - 0.02, shorten(" · ".join(facts), 100), size=7.5, colour=FAINT)
    label = COLUMNS_LEFT - 0.1
    pen.write(label, top + TITLE + SOUND / 2, "sound", size=7.5, colour=FAINT, align="right")
    log_mel = segment.log_mel().numpy()
    for third in range(sp.SUBSEGMENTS):
        clip, left = number * sp.SUBSEGMENTS + third, COLUMNS_LEFT + third * COLUMN
        start, width = int(cells.starts[number, third]), COLUMN - SPACE
        sheet.sound(log_mel[start : start + sp.SUBSEGMENT_HOPS], left, top + TITLE, width, SOUND, peak=float(log_mel.max()))
        for row, view in enumerate(cells.views):
            low = top + TITLE + SOUND + row * CELL
            text, colour, hidden = cells.of(view, clip)
            sheet.box(left, low + 0.025, width, CELL - 0.025, fill=colour)
            pen.write(left + 0.05, low + 0.02 + CELL / 2, shorten(printable(text), CELL_CHARACTERS), size=6.8, bold=hidden)
            if hidden and view == "text to audio":
                sheet.box(left, top + TITLE, width, SOUND, edge=FIND)
    for row, view in enumerate(cells.views):
        pen.write(label, top + TITLE + SOUND + row * CELL + CELL / 2, view, size=7.5, colour=FAINT, align="right")


@dataclass(frozen=True, eq=False)
class SoundNeighbours:
    """How near a model finds the sounds of some segments to their frames.

    segments: S of them, all with sound.  cosines: (S, S), of the frame of each row and the middle third of the sound of each column.
    """

    segments: tuple[RecordSegment, ...]
    cosines: npt.NDArray[np.float32]

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """(S,) the place of each frame's own sound among all sounds, from 1; chance is (S + 1) / 2 in the mean."""
        own = np.diagonal(self.cosines)[:, None]
        found: npt.NDArray[np.int64] = 1 + (self.cosines > own).sum(axis=1)
        return found


def sound_neighbours(model: Reserve, records: Sequence[Record] | Sequence[RecordSegment]) -> SoundNeighbours:
    """Compare the frames and the sounds of records, or of single segments, by the vectors of the model's frame and audio encoders.

    Pretraining compares neither with the other: both are to be found by what the joint encoder says in their place. Sounds of the same kind
    of scene come near a frame as a by-product, late in training. Segments without sound are left out.

    Raises InputError if fewer than two have sound, a picture is damaged, or the weights have no audio encoder.
    """
    given = [segment for one in records for segment in (one.segments if isinstance(one, Record) else (one,))]
    segments = tuple(segment for segment in given if segment.has_sound)
    if len(segments) < 2:
        raise InputError(f"{len(segments)} of {len(given)} segments have sound; two or more can be compared")
    frames, sounds = embed_segments(model, segments)
    cosines: npt.NDArray[np.float32] = (frames @ sounds[:, sp.SUBSEGMENTS // 2].T).numpy()
    return SoundNeighbours(segments, cosines)


_QUERY, _NEAR, _PICTURE, _CAPTION = 1.72, 1.41, 0.82, 0.17
_ROW = SOUND + _PICTURE + 2 * _CAPTION + 0.16


def neighbours_picture(found: SoundNeighbours, *, num_frames: int = 6, num_nearest: int = 5, name: str = "", format: str = "png") -> bytes:
    """Some frames, their own sound, and the sounds nearest to them, each with the frame that it really belongs to (``png``, ``svg``, ...).

    The frames are spread evenly over the segments. Sounds are drawn as spectrograms, the frame's own with a green border.

    Args:
        found: of ``sound_neighbours``.
        num_frames: rows.  num_nearest: sounds of each, at most 5.
        name: of the weights.
    """
    count = len(found.segments)
    rows = np.unique(np.linspace(0, count - 1, num_frames).round().astype(int)).tolist()
    num_nearest = min(num_nearest, 5, count)
    places = found.places
    with drawing():
        height = HEADER + 0.3 + _ROW * len(rows)
        pen = Pen(Figure(figsize=(WIDTH, height), dpi=130, facecolor="white"), height)
        sheet = _Sheet(pen)
        meaning = f"a frame's own sound is at place {np.median(places):g} of {count} in the median, by chance {(count + 1) / 2:g}"
        header(pen, name, trained=True, meaning=meaning)
        near = MARGIN + 2 * _QUERY
        for left, text in ((MARGIN, "frame"), (MARGIN + _QUERY, "its own sound"), (near, "nearest sounds, and the frames these belong to")):
            pen.write(left, HEADER + 0.1, text, size=8.5, bold=True)
        for row, query in enumerate(rows):
            top = HEADER + 0.3 + row * _ROW
            segment = found.segments[query]
            sheet.image(segment.image(), MARGIN, top, _QUERY - 0.25, SOUND + _PICTURE)
            words = default_tokenizer().decode(segment.tokens).strip() or "(nothing said)"
            pen.write(MARGIN, top + SOUND + _PICTURE + _CAPTION / 2, shorten(printable(words), 52), size=6.2, colour=FAINT)
            _clip(sheet, segment, MARGIN + _QUERY, top, own=True)
            fact = f"place {places[query]} of {count}"
            pen.write(MARGIN + _QUERY, top + SOUND + _CAPTION / 2, fact, size=7.5)
            pen.write(MARGIN + _QUERY, top + SOUND + 1.4 * _CAPTION, f"cosine {found.cosines[query, query]:.2f}", size=7.5, colour=FAINT)
            for place, sound in enumerate(np.argsort(-found.cosines[query], kind="stable")[:num_nearest].tolist()):
                left = near + place * _NEAR
                _clip(sheet, found.segments[sound], left, top, own=sound == query)
                pen.write(left, top + SOUND + _CAPTION / 2, f"cosine {found.cosines[query, sound]:.2f}", size=7, colour=FAINT)
                sheet.image(found.segments[sound].image(), left, top + SOUND + _CAPTION, _NEAR - 0.1, _PICTURE)
        return as_image(pen.figure, format)


def _clip(sheet: _Sheet, segment: RecordSegment, left: float, top: float, *, own: bool) -> None:
    log_mel = segment.log_mel()
    middle = sp.subsegments(log_mel)[sp.SUBSEGMENTS // 2, :, : sp.NUM_BANDS].numpy()
    sheet.sound(middle, left, top, _NEAR - 0.1, SOUND, peak=float(log_mel.max()))
    if own:
        sheet.box(left, top, _NEAR - 0.1, SOUND, edge=OWN)
