from textkit import table


def test_columns_are_as_wide_as_their_widest_cell():
    assert table([["name", "size"], ["README", "2"]]) == "name    size\nREADME  2"


def test_columns_are_aligned_as_asked():
    assert table([["a", "1"], ["bb", "100"]], align="<>") == "a     1\nbb  100"


def test_wide_text_is_aligned():
    assert table([["東京", "x"], ["Oslo!", "y"]]) == "東京   x\nOslo!  y"


def test_a_large_cell_goes_on_below():
    assert table([["key", "one two three"]], max_column=7) == "key  one two\n     three"


def test_rows_may_be_short():
    assert table([["a"], ["b", "c"], []]) == "a\nb  c"


def test_no_rows_give_no_text():
    assert table([]) == ""
