//! The same in a branch that spawns.

fn main() {
    ws::scope(|scope| {
        scope.spawn(|scope| {
            let number = 1;
            let borrowed = &number;
            scope.spawn(move |_| assert_eq!(*borrowed, 1));
        });
    });
}
