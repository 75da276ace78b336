"""A small rendered world whose content is known exactly: shapes in colours that act, heard and told as they do.

A clip shows one scene; a film is minutes of scenes with a narrator.
For tests that a model learns at all, and for training the bundled models. Needs no torch.
"""

from watchword.playground.clips import folder_scenes as folder_scenes
from watchword.playground.clips import write_clip as write_clip
from watchword.playground.clips import write_folder as write_folder
from watchword.playground.film_files import film_truth as film_truth
from watchword.playground.film_files import folder_films as folder_films
from watchword.playground.film_files import write_film as write_film
from watchword.playground.film_files import write_films as write_films
from watchword.playground.films import Film as Film
from watchword.playground.films import render_film_frames as render_film_frames
from watchword.playground.films import render_film_sound as render_film_sound
from watchword.playground.films import sample_film as sample_film
from watchword.playground.narrator import Narration as Narration
from watchword.playground.narrator import film_captions as film_captions
from watchword.playground.narrator import film_words as film_words
from watchword.playground.narrator import narrate as narrate
from watchword.playground.render import render_frames as render_frames
from watchword.playground.scene import Scene as Scene
from watchword.playground.scene import sample_scene as sample_scene
from watchword.playground.sound import render_sound as render_sound
from watchword.playground.speech import Word as Word
from watchword.playground.speech import caption_words as caption_words
from watchword.playground.speech import narration as narration
from watchword.playground.stills import Still as Still
from watchword.playground.stills import render_still as render_still
from watchword.playground.stills import sample_still as sample_still
from watchword.playground.world import ACTIONS as ACTIONS
from watchword.playground.world import COLOURS as COLOURS
from watchword.playground.world import HEARD_ACTIONS as HEARD_ACTIONS
from watchword.playground.world import HEARD_PHRASES as HEARD_PHRASES
from watchword.playground.world import PHRASES as PHRASES
from watchword.playground.world import SEEN_ACTIONS as SEEN_ACTIONS
from watchword.playground.world import SHAPES as SHAPES
from watchword.playground.world import Action as Action
from watchword.playground.world import held_out as held_out
from watchword.playground.world import parse_phrase as parse_phrase
from watchword.playground.world import phrase as phrase
