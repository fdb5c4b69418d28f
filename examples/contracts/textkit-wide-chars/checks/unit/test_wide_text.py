"""Hidden acceptance tests: text whose characters do not take one column each."""

import io
import unicodedata

import pytest

from textkit import clip, display_width, fill, pad, shorten, table, wrap
from textkit.cli import main

JAPANESE = "吾輩は猫である名前はまだ無い"
DAKUTEN = "\u3099"  # a combining mark that Unicode classes as wide
ACUTE = "\u0301"


def columns(text):
    """An independent count, for the characters that these tests use."""
    total = 0
    for char in text:
        if unicodedata.category(char) not in ("Mn", "Me", "Cf"):
            total += 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
    return total


def test_text_without_spaces_is_wrapped_by_columns():
    assert wrap(JAPANESE, 10) == ["吾輩は猫で", "ある名前は", "まだ無い"]


def test_an_odd_width_leaves_the_last_column_empty():
    assert wrap(JAPANESE, 9) == ["吾輩は猫", "である名", "前はまだ", "無い"]


@pytest.mark.parametrize("width", [2, 3, 5, 8, 13, 21])
def test_no_line_is_wider_than_the_width(width):
    lines = wrap(f"Natsume 夏目漱石 wrote {JAPANESE} in 1905", width)
    assert max(map(columns, lines)) <= width


@pytest.mark.parametrize("width", [2, 3, 7, 12])
def test_wrapping_loses_and_adds_nothing(width):
    assert "".join(wrap(JAPANESE, width)) == JAPANESE


def test_a_line_may_end_between_narrow_and_wide_text():
    assert wrap("Python入門book", 8) == ["Python入", "門book"]


def test_a_narrow_word_inside_wide_text_stays_whole():
    assert wrap("日本語Python入門", 10) == ["日本語", "Python入門"]


def test_a_space_beside_wide_text_is_kept_inside_a_line():
    assert wrap("東京 タワー", 12) == ["東京 タワー"]


def test_wide_text_is_broken_even_if_long_words_are_not():
    assert wrap("漢字漢字 incomprehensible", 4, break_long_words=False) == ["漢字", "漢字", "incomprehensible"]


def test_combining_marks_take_no_column():
    assert display_width("e" + ACUTE) == 1
    assert display_width("か" + DAKUTEN) == 2
    assert display_width("a\u20dd") == 1


def test_joiners_and_variation_selectors_take_no_column():
    assert display_width("a\u200db") == 2
    assert display_width("☃\ufe0f") == 1
    assert display_width("zero\u200bwidth") == 9


def test_decomposed_text_is_wrapped_like_composed_text():
    composed = "été près de la forêt où naît une idée très élégante"
    decomposed = unicodedata.normalize("NFD", composed)
    assert wrap(decomposed, 12) == [unicodedata.normalize("NFD", line) for line in wrap(composed, 12)]


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_a_broken_word_keeps_marks_on_their_letters(width):
    lines = wrap(("e" + ACUTE) * 11, width)
    assert [columns(line) for line in lines[:-1]] == [width] * (11 // width - (11 % width == 0))
    assert not any(unicodedata.combining(line[0]) for line in lines)


def test_a_mark_on_a_wide_letter_stays_with_it():
    assert wrap(("か" + DAKUTEN) * 4, 5) == [("か" + DAKUTEN) * 2] * 2


def test_a_wide_character_goes_alone_on_a_line_that_is_too_narrow():
    assert wrap("猫 a 犬", 1) == ["猫", "a", "犬"]


def test_a_wide_character_that_fits_no_line_leaves_the_line_before_alone():
    assert wrap("ab猫", 3, subsequent_indent="  ") == ["ab", "  猫"]


def test_wide_indents_count_by_columns():
    lines = wrap("one two three", 8, initial_indent="・", subsequent_indent="　")
    assert lines == ["・one", "　two", "　three"]


def test_a_wide_indent_that_leaves_no_room_is_refused():
    with pytest.raises(ValueError, match="leaves no room"):
        wrap("text", 4, initial_indent="→ 注")


def test_max_lines_measures_by_columns():
    assert wrap(JAPANESE, 10, max_lines=2, placeholder="……") == ["吾輩は猫で", "ある名前……"]


def test_fill_wraps_each_paragraph_of_wide_text():
    assert fill("日本語の文章\n\n二つ目", 8) == "日本語の\n文章\n\n二つ目"


def test_shorten_measures_by_columns():
    assert shorten(JAPANESE, 12) == "吾輩は [...]"
    assert shorten(JAPANESE, 28) == JAPANESE


def test_shorten_refuses_a_wide_placeholder_without_room():
    with pytest.raises(ValueError, match="placeholder"):
        shorten(JAPANESE, 5, placeholder="（略）")


def test_clip_keeps_the_marks_of_the_last_character():
    assert clip(("o" + ACUTE) * 3, 2) == ("o" + ACUTE) * 2


def test_pad_fills_up_text_with_marks():
    assert pad("cafe" + ACUTE, 6, ">") == "  cafe" + ACUTE


def test_tables_align_cells_with_marks():
    assert table([["cafe" + ACUTE, "1"], ["tea", "2"]]) == f"cafe{ACUTE}  1\ntea   2"


def test_a_large_wide_cell_goes_on_below():
    assert table([["名前", "吾輩は猫である"]], max_column=6) == "名前  吾輩は\n      猫であ\n      る"


def test_the_command_hangs_text_under_a_wide_bullet():
    stdout = io.StringIO()
    assert main(["fill", "--width", "8", "--bullet", "■　"], io.StringIO("one two"), stdout) == 0
    assert stdout.getvalue() == "■　one\n   two\n"


def test_plain_text_is_wrapped_as_before():
    assert wrap("a well-known abcdefghijkl", 7) == ["a well-", "known a", "bcdefgh", "ijkl"]


def test_ambiguous_characters_still_take_one_column():
    assert wrap("±±±± §§", 4) == ["±±±±", "§§"]
