//! The branches of a scope run at the same time.

fn main() {
    let mut count = 0;
    ws::scope(|scope| {
        scope.spawn(|_| count += 1);
        scope.spawn(|_| count += 1);
    });
}
