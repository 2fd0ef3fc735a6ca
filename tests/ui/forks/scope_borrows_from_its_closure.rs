//! A branch of a scope may run after the scope's closure has returned, so it cannot borrow from there.

fn main() {
    ws::scope(|scope| {
        let number = 1;
        scope.spawn(|_| assert_eq!(number, 1));
    });
}
