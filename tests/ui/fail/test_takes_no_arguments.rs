//! A test has parameters.

#[ws::test]
async fn adds(left: u32, right: u32) {
    assert_eq!(left + right, 3);
}

fn main() {}
