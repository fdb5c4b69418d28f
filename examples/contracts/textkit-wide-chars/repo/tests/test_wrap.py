import pytest

from textkit import fill, shorten, wrap


def test_a_short_text_is_one_line():
    assert wrap("hello world", 40) == ["hello world"]


def test_lines_end_between_words():
    assert wrap("the quick brown fox jumps", 10) == ["the quick", "brown fox", "jumps"]


def test_a_line_may_be_exactly_full():
    assert wrap("abcde fghij", 5) == ["abcde", "fghij"]


def test_white_space_is_reduced_to_one_space():
    assert wrap("  a \t b\n  c  ", 20) == ["a b c"]


def test_an_empty_paragraph_has_no_lines():
    assert wrap(" \n ", 20) == []


def test_a_line_may_end_after_a_hyphen_between_letters():
    assert wrap("a well-known name", 7) == ["a well-", "known", "name"]


def test_dates_and_options_are_not_split_at_their_hyphens():
    assert wrap("on 2024-05-01 with -v", 8, break_long_words=False) == ["on", "2024-05-01", "with -v"]


def test_a_long_word_is_broken():
    assert wrap("see abcdefghijkl now", 5) == ["see a", "bcdef", "ghijk", "l now"]


def test_a_long_word_stays_whole_when_asked():
    assert wrap("see abcdefghijkl now", 5, break_long_words=False) == ["see", "abcdefghijkl", "now"]


def test_indents_count_toward_the_width():
    lines = wrap("one two three four", 10, initial_indent="* ", subsequent_indent="    ")
    assert lines == ["* one two", "    three", "    four"]


def test_a_word_too_long_for_the_first_line_alone_is_broken_there():
    assert wrap("hello", 8, initial_indent="------") == ["------he", "llo"]


def test_an_indent_that_leaves_no_room_is_refused():
    with pytest.raises(ValueError, match="leaves no room"):
        wrap("text", 4, initial_indent="----")


def test_max_lines_ends_in_the_placeholder():
    assert wrap("one two three four five", 9, max_lines=2) == ["one two", "[...]"]
    assert wrap("one two three four five", 9, max_lines=2, placeholder="…") == ["one two", "three…"]


def test_max_lines_leaves_a_short_text_alone():
    assert wrap("one two", 9, max_lines=2) == ["one two"]


def test_max_lines_must_be_positive():
    with pytest.raises(ValueError, match="max_lines"):
        wrap("text", 10, max_lines=0)


def test_fill_keeps_paragraphs_apart():
    assert fill("one two\nthree\n\n \n\nfour", 8) == "one two\nthree\n\nfour"


def test_fill_indents_each_paragraph():
    text = fill("one two three\n\nfour", 9, initial_indent="- ", subsequent_indent="  ")
    assert text == "- one two\n  three\n\n- four"


def test_shorten_leaves_a_short_text_alone():
    assert shorten("one  two", 10) == "one two"


def test_shorten_cuts_at_a_word():
    assert shorten("one two three four", 14) == "one two [...]"


def test_shorten_of_nothing_is_nothing():
    assert shorten("  ", 10) == ""


def test_shorten_refuses_a_width_below_the_placeholder():
    with pytest.raises(ValueError, match="placeholder"):
        shorten("one two three", 4)
