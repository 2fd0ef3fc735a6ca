//! The branches of a scope run beside its closure.

fn main() {
    let mut count = 0;
    ws::scope(|scope| {
        scope.spawn(|_| count += 1);
        count += 1;
    });
}
