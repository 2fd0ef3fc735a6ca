//! Nor can it take a reference along that points there.

fn main() {
    ws::scope(|scope| {
        let number = 1;
        let borrowed = &number;
        scope.spawn(move |_| assert_eq!(*borrowed, 1));
    });
}
