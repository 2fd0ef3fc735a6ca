//! The branches of a join run at the same time, so they cannot change the same thing, nor one what the other reads.

fn main() {
    let mut count = 0;
    ws::join(|| count += 1, || count += 1);
    ws::join(|| count += 1, || assert_eq!(count, 0));
}
