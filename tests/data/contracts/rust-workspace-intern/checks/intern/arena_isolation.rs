use intern::Arena;

#[test]
fn symbols_of_two_arenas_differ() {
    let (mut one, mut two) = (Arena::new(), Arena::new());
    assert_ne!(one.intern("a"), two.intern("a"));
}

#[test]
fn a_foreign_symbol_resolves_to_nothing() {
    let (mut one, two) = (Arena::new(), Arena::new());
    assert_eq!(two.resolve(one.intern("a")), None);
}

#[test]
fn a_symbol_resolves_to_its_text() {
    let mut arena = Arena::new();
    let symbol = arena.intern("a");
    assert_eq!(arena.resolve(symbol), Some("a"));
}
