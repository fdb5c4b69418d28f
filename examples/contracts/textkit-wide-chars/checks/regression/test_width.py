import pytest

from textkit import clip, display_width, pad


def test_ascii_takes_one_column_per_character():
    assert display_width("plain text") == 10


def test_the_empty_text_takes_no_column():
    assert display_width("") == 0


def test_wide_and_fullwidth_characters_take_two_columns():
    assert display_width("日本") == 4
    assert display_width("ＡＢ") == 4


def test_ambiguous_characters_count_as_narrow():
    assert display_width("±§") == 2


def test_clip_keeps_what_fits():
    assert clip("terminal", 4) == "term"
    assert clip("term", 10) == "term"


def test_clip_does_not_cut_a_wide_character_in_half():
    assert clip("日本語", 5) == "日本"


@pytest.mark.parametrize(
    ("align", "expected"),
    [("<", "ab   "), (">", "   ab"), ("^", " ab  ")],
    ids=["left", "right", "center"],
)
def test_pad_aligns(align, expected):
    assert pad("ab", 5, align) == expected


def test_pad_never_cuts():
    assert pad("abcdef", 3) == "abcdef"


def test_pad_refuses_an_unknown_alignment():
    with pytest.raises(ValueError, match="align must be"):
        pad("ab", 5, "=")
