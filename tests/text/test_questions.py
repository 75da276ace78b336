"""Questions to statements: what comes out for the questions people ask of a video, and what holds for every text."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from watchword.errors import InputError
from watchword.text.questions import statement

TABLE = {
    # a form of be
    "what is he doing?": "he is <mask>",
    "What is the man doing in the kitchen?": "the man is <mask> in the kitchen",
    "what is a man holding a bag doing in the kitchen?": "a man holding a bag is <mask> in the kitchen",
    "what's happening?": "<mask> is happening",
    "who is singing?": "<mask> is singing",
    "what is a man playing?": "a man is playing <mask>",
    "what are three people sitting on?": "three people are sitting on <mask>",
    "what is a woman singing with others in the background?": "a woman is singing <mask> with others in the background",
    "what are two men talking about while music is playing?": "two men are talking about <mask> while music is playing",
    "what is on the table?": "<mask> is on the table",
    "what is the table made of?": "the table is made of <mask>",
    "what are three men in?": "three men are in <mask>",
    "what is the building next to the river?": "the building next to the river is <mask>",
    "what is there in the room?": "there is <mask> in the room",
    "who is the man?": "the man is <mask>",
    "who is the man holding the baby?": "the man holding the baby is <mask>",
    "Who is John talking to?": "John is talking to <mask>",
    "who is a man giving a gift to?": "a man is giving a gift to <mask>",
    # do, have, modals, none
    "what did the woman do?": "the woman <mask>",
    "what does a man cut on the table?": "a man cuts <mask> on the table",
    "what does a chef crush garlic cloves with?": "a chef crushes garlic cloves with <mask>",
    "what does the woman pick up from the floor?": "the woman picks up <mask> from the floor",
    "what did they stop?": "they stopped <mask>",
    "what does she carry?": "she carries <mask>",
    "who did the girl see?": "the girl saw <mask>",
    "who does the dishes?": "<mask> does the dishes",
    "who does several flips on a trampoline?": "<mask> does several flips on a trampoline",
    "what has he done?": "he has <mask>",
    "what has a red roof?": "<mask> has a red roof",
    "what can you see in the video?": "you can see <mask> in the video",
    "what will happen next?": "<mask> will happen next",
    "what will he do next?": "he will <mask> next",
    "what plays in the background?": "<mask> plays in the background",
    "who sings while he is dancing?": "<mask> sings while he is dancing",
    # other question words
    "where are they?": "they are <mask>",
    "where is the man in the red shirt?": "the man in the red shirt is <mask>",
    "where does a man walk?": "a man walks <mask>",
    "when does the train arrive?": "the train arrives <mask>",
    "why is he running?": "he is running because <mask>",
    "why is the man so happy?": "the man is so happy because <mask>",
    "why doesn't he answer?": "he doesn't answer because <mask>",
    "how is he feeling?": "he is feeling <mask>",
    "how old is the man?": "the man is <mask>",
    "how many people are there?": "there are <mask> people",
    "how many dogs does the man have?": "the man has <mask> dogs",
    "how many men sit on the couch?": "<mask> men sit on the couch",
    "what color is the car?": "the car is <mask>",
    "what color shirt is he wearing?": "he is wearing <mask> shirt",
    "which sport are they playing?": "they are playing <mask>",
    "what kind of animal is this?": "this is <mask>",
    "whose car is this?": "this is <mask> car",
    "with whom is she talking?": "she is talking with <mask>",
    # yes or no
    "is the man running?": "<mask>, the man is running",
    "is the car red?": "<mask>, the car is red",
    "are there any dogs?": "<mask>, there are some dogs",
    "does the man run?": "<mask>, the man runs",
    "can he swim?": "<mask>, he can swim",
    "is it a dog or a cat?": "it is <mask>",
    # what stands before
    "In the video, what is she holding up?": "In the video, she is holding up <mask>",
    "He lifts a ball. What does he do next?": "He lifts a ball. he <mask> next",
}


@pytest.mark.parametrize("question", TABLE)
def test_questions_become_statements(question: str) -> None:
    assert statement(question) == TABLE[question]


@pytest.mark.parametrize("text", ["the man is <mask>", " is it <MASK> or <mask>? ", "he is<|MASK|>"])
def test_a_text_with_a_blank_stays_as_it_is(text: str) -> None:
    assert statement(text) == text


@pytest.mark.parametrize("text", ["", "?", "what", "the man is running", "tell me a story", "was he?", "how to cook", "long " * 1000])
def test_what_no_rule_turns_is_one_line(text: str) -> None:
    with pytest.raises(InputError, match="write it as a statement with <mask>") as raised:
        statement(text)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 400


WORDS = """
what who which whose whom where when why how many color kind of is are isn't do does did has can will the a an his this that there he they
Anna man dogs people red running doing done sits sing with on up in while and or not so very next ? , .
"""


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(WORDS.split()), max_size=10).map(" ".join))
@example("who is")
@example("is")
@example("why is the")
@example("with what")
@example("what color is")
def test_every_statement_has_one_blank_and_no_question_mark(text: str) -> None:
    try:
        told = statement(text)
    except InputError:
        return
    assert told == statement(text)
    assert told.count("<mask>") == 1 and "?" not in told
    assert len(told.split()) > 1 and told == " ".join(told.split())


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_turned_or_refused(text: str) -> None:
    for question in (text, f"what is {text}", f"is {text}"):
        try:
            assert re.search(r"<mask>|<\|MASK\|>", statement(question), re.IGNORECASE)
        except InputError as error:
            assert "\n" not in str(error)
