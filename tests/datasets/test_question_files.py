"""Files of questions: what they may look like, and what is said of those that cannot be used."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from watchword.datasets.question_files import QuestionRow, read_questions
from watchword.errors import InputError

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="|,"), min_size=1, max_size=12)


def test_csv_json_lines_and_a_json_list_say_the_same(tmp_path: Path) -> None:
    rows = [
        {"path": "clips/a.mp4", "question": "he is <mask>", "options": ["left", "right, or so"], "at": 2.5},
        {"question": 'she says "<mask>"'},
    ]
    csv_text = 'Path, Question ,options,at,remark\nclips/a.mp4,he is <mask>,"left|right, or so",2.5,x\n\n,"she says ""<mask>""",,,\n'
    texts = {"a.csv": "\ufeff" + csv_text, "a.jsonl": "\n".join(map(json.dumps, rows)), "a.json": json.dumps(rows)}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_questions(tmp_path / name) == [
            QuestionRow("he is <mask>", tmp_path / "clips/a.mp4", ("left", "right, or so"), 2.5),
            QuestionRow('she says "<mask>"'),
        ]


def test_options_for_each_blank_and_options_between_commas(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "<mask> <mask>", "options": [["a", "b"], ["c", "d", "e"]], "at": 3, "path": "/x.mp4"}')
    (row,) = read_questions(tmp_path / "a.jsonl")
    assert row.options == (("a", "b"), ("c", "d", "e")) and row.at == 3.0 and row.path == Path("/x.mp4")
    (tmp_path / "a.csv").write_text('question,options\na,"up, down"\n')
    assert read_questions(tmp_path / "a.csv")[0].options == ("up", "down")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(rows=st.lists(st.tuples(WORDS, st.lists(WORDS, min_size=2, max_size=4)), min_size=1, max_size=4))
def test_any_words_come_back(tmp_path: Path, rows: list[tuple[str, list[str]]]) -> None:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerows([("question", "options"), *((question, "|".join(options)) for question, options in rows)])
    (tmp_path / "any.csv").write_text(out.getvalue(), encoding="utf-8", newline="")
    assert [(row.question, list(row.options or ())) for row in read_questions(tmp_path / "any.csv")] == rows


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "", "no column question"),
        ("a.csv", "text\nhow\n", "no column question"),
        ("a.csv", "question\n\n", "no question in"),
        ("a.csv", "question,at\nhow,\nwhen,soon\n", "question 2 of .*at is 'soon'"),
        ("a.csv", "question,at\nhow,nan\n", "at is 'nan'"),
        ("a.csv", "path,question\na.mp4, \n", "question 1 of .* has no text"),
        ("a.jsonl", '{"question": "a"}\n{"question": 3}', "question 2 of .* has no text"),
        ("a.jsonl", '{"question": "a"', "not JSON"),
        ("a.jsonl", '{"question": "a"}\n\n{"question" 3}', "not JSON.*line 3, column 13"),
        ("a.json", '[{"question": "a"},\n{"question" 3}]', "not JSON.*line 2, column 13"),
        ("a.json", '["a"]', "must be JSON objects"),
        ("a.jsonl", '{"question": "a", "options": [1, 2]}', "options must be strings"),
        ("a.jsonl", '{"question": "a", "path": 3}', "path must be a string"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=words):
        read_questions(tmp_path / name)


def test_a_line_separator_within_a_question_ends_no_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "a\u2028b"}\r\n{"question": "c"}\r\n', encoding="utf-8", newline="")
    assert [row.question for row in read_questions(tmp_path / "a.jsonl")] == ["a\u2028b", "c"]


def test_a_file_that_is_not_there_or_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_questions(tmp_path / "none.csv")
    (tmp_path / "a.csv").write_bytes(b"question\n\xff\xfe\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read_questions(tmp_path / "a.csv")
