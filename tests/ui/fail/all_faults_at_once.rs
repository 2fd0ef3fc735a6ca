//! All that is wrong with an attribute and its function is said in one go.

#[ws::main(workers = 0, threads = 4, workers = 2)]
unsafe fn main(name: &str) {
    drop(name);
}
