"""MERLOT Reserve: what happens in a video, from its frames, subtitles and sound."""
