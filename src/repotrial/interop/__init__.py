"""Other tools' formats: what we judged, as they write it down."""
